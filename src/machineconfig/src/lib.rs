//! Thinking about MachineConfigs: read, render, name.
//!
//! It must not know: files, clocks, networks, async. Values in, values out.
//!
//! - [`kargs`]: kernel arguments
//! - [`name`]: what a rendered configuration is called
//! - [`render`]: the MachineConfigs of a pool made one
//! - [`spec`]: a MachineConfig, read

pub mod kargs;
pub mod name;
pub mod render;
pub mod spec;
