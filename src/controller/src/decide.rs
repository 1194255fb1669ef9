//! What is decided from one snapshot of the cluster: values in, values out. A workspace test holds
//! that nothing here sends a request, waits, locks or reads the clock.
//!
//! - [`authorities`]: certificate authorities that nodes of a paused pool do not have
//! - [`boot_images`]: what is requested of boot images, which nothing handles
//! - [`building`]: what the build of an OS image is decided by
//! - [`controller_config`]: what the ControllerConfig says
//! - [`generating`]: why a pool waits for MachineConfigs that other objects ask for
//! - [`os_stream`]: which stream of OS images a pool has
//! - [`pins`]: pinned image sets of a pool
//! - [`rendering`]: what a pool's rendering depends on
//! - [`release`]: the next step to the controller's release, and what of it is reported
//! - [`reporting`]: what a pool's status says, and what of it changed
//! - [`unused`]: rendered configurations that nothing uses

pub mod authorities;
pub mod boot_images;
pub mod building;
pub(crate) mod controller_config;
pub(crate) mod generating;
pub(crate) mod os_stream;
pub mod pins;
pub mod release;
pub mod rendering;
pub mod reporting;
pub mod unused;
