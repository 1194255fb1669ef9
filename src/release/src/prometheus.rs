//! Responses of Prometheus, as risks of updates and other conditions of them are read.
//!
//! - [`partial`]: whether a response covers all stores
//! - [`sample`]: a response that is one sample of 1 or 0

pub mod partial;
pub mod sample;
