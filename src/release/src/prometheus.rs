//! Responses of Prometheus, as risks of updates and other conditions of them are read.
//!
//! - [`partial`]: whether a response is of all that was asked
//! - [`sample`]: a response that is one sample of 1 or 0

pub mod partial;
pub mod sample;
