//! Changes to a host: files, accounts, units and deployments.
//!
//! It must not know Kubernetes, clusters, networks, or the reason of a change. It executes
//! decisions (a [`node_update::plan::Plan`]); every operation can run twice and can be undone.
//!
//! - [`accounts`]: users, groups and passwords of a root
//! - [`boot_loader`]: how often it tries the default deployment
//! - [`execute`]: executes a stored plan, and reverts it
//! - [`files`]: files below a root, replaced atomically
//! - [`journal`]: the attempt under way, stored before its first effect
//! - [`late`]: carries what others wrote in `/etc` to the deployment that is booted
//! - `ostree` (feature): deployments and images, by libostree
//! - [`observe`]: checks the host against expectations
//! - [`process`]: runs other programs; no other module does
//! - [`pull`]: the files that say how images are pulled
//! - [`record`]: the configuration that a root is recorded to be in
//! - [`room`]: free space, and what a kernel takes
//! - [`selinux`]: whether SELinux enforces, and whether its policy has what Slipway adds to it
//! - [`systemd`]: units of the running system over D-Bus, unit files of a deployment
//! - `throttle` (feature `ostree`): limits how fast skopeo fetches
//! - [`watch`]: waits for changes of paths

pub mod accounts;
pub mod boot_loader;
pub mod execute;
pub mod files;
pub mod journal;
pub mod late;
pub mod observe;
#[cfg(feature = "ostree")]
pub mod ostree;
pub mod process;
pub mod pull;
pub mod record;
pub mod room;
pub mod selinux;
pub mod systemd;
#[cfg(feature = "ostree")]
pub mod throttle;
pub mod watch;
