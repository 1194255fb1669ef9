//! Names and paths on a host that several modules and crates refer to.

pub use ignition::{CORE, UNITS};

/// The target of a masked unit's link.
pub const MASK: &str = "/dev/null";

/// Unit of the kubelet; a host without it is no node.
pub const KUBELET: &str = "kubelet.service";

/// Unit of the container runtime.
pub const CRIO: &str = "crio.service";

/// Slipway's unit that compares the booted deployment with the journal.
pub const GUARD_UNIT: &str = "slipway-guard.service";

/// Slipway's unit that verifies a booted target.
pub const VERIFY_UNIT: &str = "slipway-verify.service";

/// Slipway's unit that reboots a host on which one of the two above cannot run; `%i` is its name.
pub const REBOOT_UNIT: &str = "slipway-reboot@.service";

/// Name of the drop-in that orders a unit after [`GUARD_UNIT`].
pub const GUARD_DROPIN: &str = "50-slipway-guard.conf";

/// Directory of Slipway's own files, shared by all deployments.
pub const STATE: &str = "/var/lib/slipway";

/// The host's record: the MachineConfig of a deployment, as JSON.
pub const RECORD_CONFIG: &str = "/etc/machine-config-daemon/currentconfig";

/// The host's record: the pull spec of a deployment's layered image.
pub const RECORD_IMAGE: &str = "/etc/machine-config-daemon/currentimage";

/// First annotations of the host's Node.
///
/// Source: `docs/reference/daemon.md`, "First annotations".
pub const FIRST_ANNOTATIONS: &str = "/etc/machine-config-daemon/node-annotations.json";

/// What [`FIRST_ANNOTATIONS`] is renamed to once the Node has them.
pub const FIRST_ANNOTATIONS_USED: &str = "/etc/machine-config-daemon/node-annotation.json.bak";

/// The MachineConfig of a new host without its Ignition part; its presence says that the first boot
/// is not over.
///
/// Source: `docs/reference/config-server.md`, "Files".
pub const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";

/// What [`ENCAPSULATED`] is renamed to in the deployment that it asked for.
pub const ENCAPSULATED_USED: &str = "/etc/ignition-machine-config-encapsulated.json.bak";

/// A file that forces an update where it exists; no configuration may bring it.
pub const FORCE_FILE: &str = "/run/machine-config-daemon-force";

/// The cluster's pull secret, which kubelet and container runtime use.
pub const PULL_SECRET: &str = "/var/lib/kubelet/config.json";

/// The pull secret of ostree and rpm-ostree.
pub const OSTREE_PULL_SECRET: &str = "/etc/ostree/auth.json";

/// The cluster's proxy, as environment variables.
///
/// Source: `docs/reference/daemon.md`, "Host files".
pub const PROXY_ENVIRONMENT: &str = "/etc/mco/proxy.env";
