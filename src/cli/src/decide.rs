//! What is shown and requested, decided from objects that were read: values in, values out. A
//! workspace test holds that nothing here sends a request, waits or reads the clock.
//!
//! - [`upgrade`]: the version of the cluster
//! - [`managed`]: upgrades on a date
//! - [`pools`]: pools and nodes
//! - [`stop`]: switches that stop a pool or the cluster, and nodes on hold
//! - [`forecast`]: how long the rest of a pool's roll takes
//! - [`object`]: objects of a cluster
//! - [`blocks`]: pieces of text that several views have
//! - [`os_images`]: OS images of releases; [`os_change`]: what changes from one to another
//! - [`json_template`]: what of a JSON document is printed

pub(crate) mod blocks;
pub(crate) mod forecast;
pub mod json_template;
pub(crate) mod managed;
pub(crate) mod object;
pub(crate) mod os_change;
pub(crate) mod os_images;
pub(crate) mod pools;
pub(crate) mod stop;
pub(crate) mod upgrade;
