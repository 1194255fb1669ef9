//! The update service as a process: real releases and graph data, a real registry, bad input.
//!
//! - `expected.py`: computes the responses for the real data, apart from the product
//! - `real`: the real data; all responses are those of the script
//! - `registry`: a registry that gets releases, fails, and is damaged
//! - `interface`: requests, headers, errors, pages, signatures, TLS
//! - `relay`: a registry that misbehaves on purpose, in front of the real one
//! - `service`, `http`, `images`: the program, requests, release images

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails; it runs the programs and writes files of its own"
)]

mod http;
mod images;
mod interface;
mod real;
mod registry;
mod relay;
mod service;
