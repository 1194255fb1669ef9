//! Keys of annotations, each with who writes it and what it means.
//!
//! Source: the annotations of OpenShift's machine-config operator under
//! `machineconfiguration.openshift.io/`, which clients read; and our own under `slipway.dev/`,
//! which say more than OpenShift's MCO can.

/// Who writes an annotation of a Node where no one lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotationWriter {
    /// The node's daemon.
    Daemon,
    /// Another program, an administrator, or the file that a new machine comes with.
    Other,
}

/// What an annotation of a Node is read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotationReader {
    /// Every program, by [`super::NodeStatus`].
    Status,
    /// The controller, by `pool::node::NodeView`.
    Controller,
    /// The node's daemon, and the program that wrote it for the daemon.
    Daemon,
    /// Clients that are no part of Slipway.
    Clients,
}

/// An annotation of a Node. The node's own credential can write each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAnnotation {
    /// Its key.
    pub key: &'static str,
    /// Who writes it.
    pub writer: AnnotationWriter,
    /// What reads it.
    pub reader: AnnotationReader,
}

/// Defines the keys of Nodes together with their list, so that none is missing in it.
macro_rules! of_nodes {
    ($($(#[$doc:meta])* $name:ident = $key:literal, $writer:ident, $reader:ident;)*) => {
        $($(#[$doc])* pub const $name: &str = $key;)*

        /// All annotations of a Node that are read or written here.
        ///
        /// Source: `docs/node-inputs.md`, which says what a lie in each may cause.
        pub const OF_NODES: &[NodeAnnotation] = &[$(NodeAnnotation {
            key: $name,
            writer: AnnotationWriter::$writer,
            reader: AnnotationReader::$reader,
        }),*];
    };
}

of_nodes! {
    /// Name of the rendered configuration in force, as verified after the boot.
    CURRENT_CONFIG = "machineconfiguration.openshift.io/currentConfig", Daemon, Status;
    /// Written by the controller (first value: the daemon, from the file of the config server): the
    /// rendered configuration the node is to reach. Changing it is the node's turn and counts
    /// against the pool's budget.
    DESIRED_CONFIG = "machineconfiguration.openshift.io/desiredConfig", Other, Status;
    /// Pull spec of the layered OS image in force; absent where the node is not layered.
    CURRENT_IMAGE = "machineconfiguration.openshift.io/currentImage", Daemon, Status;
    /// Written by the controller: pull spec of the layered OS image to reach; presence means
    /// "layered".
    DESIRED_IMAGE = "machineconfiguration.openshift.io/desiredImage", Other, Status;
    /// A [`super::NodeState`]; absent means `Done`.
    STATE = "machineconfiguration.openshift.io/state", Daemon, Status;
    /// Why the state is what it is, at most 2000 characters; `""` on `Done`.
    REASON = "machineconfiguration.openshift.io/reason", Daemon, Status;
    /// `Rebooting` just before the reboot is queued, `""` after it.
    POST_CONFIG_ACTION = "machineconfiguration.openshift.io/post-config-action", Daemon, Status;
    /// `drain-<config>` before a drain, `uncordon-<config>` when finishing.
    DESIRED_DRAIN = "machineconfiguration.openshift.io/desiredDrain", Daemon, Status;
    /// Written by the program that drains, here the daemon: copy of [`DESIRED_DRAIN`], only after
    /// success.
    LAST_APPLIED_DRAIN = "machineconfiguration.openshift.io/lastAppliedDrain", Daemon, Status;
    /// Written by the controller: topology of the control plane; `SingleReplica` means no drain.
    CONTROL_PLANE_TOPOLOGY =
        "machineconfiguration.openshift.io/controlPlaneTopology", Other, Status;
    /// Written by the daemon from the config server's file: the configuration the node was born
    /// with.
    FIRST_PIVOT_CONFIG = "machineconfiguration.openshift.io/firstPivotConfig", Other, Controller;
    /// Written by the controller: `""` once the node got the labels of the custom pool it was born
    /// in.
    CUSTOM_POOL_LABELS_APPLIED =
        "machineconfiguration.openshift.io/customPoolLabelsApplied", Other, Controller;
    /// Resource version of the ControllerConfig whose certificates were last written.
    LAST_SYNCED_CONTROLLER_CONFIG =
        "machineconfiguration.openshift.io/lastSyncedControllerConfigResourceVersion",
        Daemon, Clients;
    /// Last seen `service-ca-rotate` of the ControllerConfig, `"true"` or `"false"`.
    LAST_OBSERVED_SERVER_CA =
        "machineconfiguration.openshift.io/lastObservedServerCAAnnotation", Daemon, Clients;
    /// Written by OpenShift's daemon: what a staged deployment failed with at the last shutdown,
    /// `""` once the node is well. Ours stages nothing, and only clears it.
    OSTREE_FINALIZE_STAGED_FAILURE =
        "machineconfiguration.openshift.io/ostree-finalize-staged-failure", Daemon, Clients;
    /// Attempt that cordoned it, so that an administrator's own cordon is left in place.
    CORDONED_BY = "slipway.dev/cordoned-by", Daemon, Status;
    /// Since when it is being drained, RFC 3339, so that a restart does not reset that clock.
    DRAIN_SINCE = "slipway.dev/drain-since", Daemon, Status;
    /// Written by the controller: a [`super::Target`] for which it could not be drained within the
    /// limit of its pool's rollout policy. While the node stays cordoned, the rollout passes it
    /// over.
    QUARANTINED = "slipway.dev/quarantined", Other, Controller;
    /// Written by an administrator: a [`super::NodeHold`]. While it is there, the controller
    /// assigns the node nothing new; what it was assigned is finished.
    HOLD = "slipway.dev/hold", Other, Controller;
    /// Written by the managed upgrade operator: a [`super::DrainLease`]. While it is held, the
    /// daemon evicts no pod.
    DRAIN_LEASE = "slipway.dev/drain-lease", Other, Daemon;
    /// Written by an administrator: the configuration that failed on it and is to be tried again.
    /// The daemon removes it.
    RETRY = "slipway.dev/retry", Other, Status;
    /// Written by the daemon with the first annotations of a Node that is new though its host is
    /// not: the host's configuration. The host follows no target of another pool than that one's
    /// until an administrator removes it.
    REGISTERED_ANEW = "slipway.dev/registered-anew", Daemon, Daemon;
    /// What the node waits for (pod, PodDisruptionBudget, failed check), for people.
    WAITS_FOR = "slipway.dev/waits-for", Daemon, Status;
    /// Phase of its state machine.
    PHASE = "slipway.dev/phase", Daemon, Status;
    /// Since when it is in that phase, RFC 3339.
    SINCE = "slipway.dev/since", Daemon, Status;
    /// Written by the daemon with a failed [`STATE`]: a [`super::node_status::FailedIn`], the
    /// target that failed on the node and the phase in which it did.
    FAILED_IN = "slipway.dev/failed-in", Daemon, Status;
    /// Written by the controller while the node waits for its turn: a [`super::Target`] that the
    /// node may fetch and rehearse while it works.
    NEXT_CONFIG = "slipway.dev/next-config", Other, Status;
    /// Written by the controller beside [`NEXT_CONFIG`]: most bytes a second that the node fetches
    /// before its turn, in digits; absent, as many as it can.
    NEXT_BYTES_PER_SECOND = "slipway.dev/next-bytes-per-second", Other, Status;
    /// Written by the daemon in answer to [`NEXT_CONFIG`]: a [`super::Target`] whose image lies
    /// ready and whose plan was rehearsed.
    FETCHED = "slipway.dev/fetched", Daemon, Status;
    /// Written by the daemon in answer to [`NEXT_CONFIG`]: `<target>: <cause>`, where it could not
    /// be fetched or rehearsed; the cause has at most 500 characters.
    NOT_FETCHED = "slipway.dev/not-fetched", Daemon, Status;
    /// Written by the controller: a [`super::PinList`], the pinned image sets that the node is to
    /// have; absent, none.
    DESIRED_PINS = "slipway.dev/desired-pins", Other, Status;
    /// Written by the daemon: a [`super::PinList`], the sets whose images all lie pinned on the
    /// node.
    CURRENT_PINS = "slipway.dev/current-pins", Daemon, Status;
    /// Written by the daemon in answer to [`DESIRED_PINS`]: a [`super::NotPinned`], why the node
    /// does not have them yet; the cause has at most 500 characters. The controller removes it with
    /// the write of other sets.
    NOT_PINNED = "slipway.dev/not-pinned", Daemon, Status;
    /// Written by the controller: uid of its MachineConfigNode, where an older one was deleted. The
    /// daemon then writes the status of the new one at once.
    NODE_OBJECT = "slipway.dev/machine-config-node", Other, Daemon;
    /// Written by the controller: digest of the certificates that the ControllerConfig has for
    /// nodes, `"none"` where there is no ControllerConfig. The daemon reads the ControllerConfig
    /// when it changes.
    CERTIFICATES = "slipway.dev/certificates", Other, Controller;
}

/// Value of [`POST_CONFIG_ACTION`] while a reboot is under way.
pub const REBOOTING: &str = "Rebooting";
/// On a MachineConfig; written by the controller that made it: hash of that controller's build,
/// compared as an opaque string.
pub const GENERATED_BY_CONTROLLER_VERSION: &str =
    "machineconfiguration.openshift.io/generated-by-controller-version";
/// On a rendered MachineConfig; written by the controller: version of the release it was rendered
/// for.
pub const RELEASE_IMAGE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";
/// On a rendered MachineConfig; written by the controller: `"true"` where a user's configuration
/// replaced the OS image.
pub const OS_IMAGE_URL_OVERRIDDEN: &str =
    "machineconfiguration.openshift.io/os-image-url-overridden";
/// On a KubeletConfig or ContainerRuntimeConfig; written by the controller: number at the end of
/// the names of its MachineConfigs; `""` for none.
pub const MC_NAME_SUFFIX: &str = "machineconfiguration.openshift.io/mc-name-suffix";
/// On a ControllerConfig; written by the operator: release version it was made for, compared as an
/// opaque string.
pub const GENERATED_BY_VERSION: &str = "machineconfiguration.openshift.io/generated-by-version";
/// On a ControllerConfig; `"true"` while the service CA is being rotated.
pub const SERVICE_CA_ROTATE: &str = "machineconfiguration.openshift.io/service-ca-rotate";
/// On a MachineConfigPool; written by an administrator: `"true"` or absent, nodes that wait for
/// their turn fetch the pool's configuration before it; any other value, they do not.
pub const PREFETCH: &str = "slipway.dev/prefetch";
/// On a MachineConfigPool; written by who pauses it for a time and resumes it himself: his name,
/// such as [`CONTROL_PLANE_ONLY`]. The pause of a pool without it is an administrator's.
pub const PAUSED_BY: &str = "slipway.dev/paused-by";
/// Value of [`PAUSED_BY`]: an update of the control plane alone, which `slipway upgrade` carries
/// over two minor releases.
pub const CONTROL_PLANE_ONLY: &str = "control-plane-only";
/// On a MachineConfigPool; written by the version operator in a preflight: a MachineConfig that one
/// node of the pool fetches and rehearses, though it is no target of the pool.
pub const REHEARSE: &str = "slipway.dev/rehearse";
/// On a MachineConfig; written by `mcc render`: the pool for which it is rehearsed. It is removed
/// at the end of the preflight.
pub const REHEARSAL_OF: &str = "slipway.dev/rehearsal-of";
/// On a MachineConfigPool; written by the controller: the round of assignments under way. Writing
/// it with the pool's `resourceVersion` claims the round, so that of two controllers only one
/// decides.
pub const ROUND: &str = "slipway.dev/round";
/// On a MachineConfig; written by the controller: the platform whose base configuration it is.
/// Those that OpenShift's MCO made from its own templates have the same names, and not this.
pub const BASE_TEMPLATE: &str = "slipway.dev/base-template";
/// On a rendered MachineConfig; written by the controller: `"true"` where the cluster had no
/// ControllerConfig when it was rendered. One without this that a controller made holds what a
/// ControllerConfig said, such as the release's OS image.
pub const WITHOUT_CONTROLLER_CONFIG: &str = "slipway.dev/without-controller-config";
/// On a MachineOSConfig; written by an administrator: present, its image is built again from the
/// same inputs. The controller removes it.
pub const REBUILD: &str = "machineconfiguration.openshift.io/rebuild";
/// On a MachineOSConfig and its pool; written by the controller: the MachineOSBuild of the
/// pool's configuration.
pub const CURRENT_MACHINE_OS_BUILD: &str =
    "machineconfiguration.openshift.io/current-machine-os-build";
/// On a MachineOSBuild; written by the controller: digest of all that its image is made from.
/// Two builds with one digest have one image.
pub const IMAGE_CONTENT: &str = "slipway.dev/image-content";
/// On a MachineOSBuild; written by the controller: the Secret with which its image is pushed, and
/// removed from the registry once nothing needs it.
pub const PUSH_SECRET: &str = "slipway.dev/push-secret";
/// On OSImageStream `cluster`; written by the controller: names of the streams that a release
/// brought, joined by commas. Those of `status.availableStreams` that it lacks are other programs'.
pub const RELEASE_STREAMS: &str = "slipway.dev/release-streams";
/// On a Pod; written by an administrator: `"true"`, it is not deleted by force, and its finalizers
/// stay.
pub const NO_FORCED_DRAIN: &str = "slipway.dev/no-forced-drain";
