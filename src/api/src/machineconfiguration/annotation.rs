//! Keys of annotations, each with who writes it and what it means.
//!
//! Source: the annotations of OpenShift's machine-config operator under
//! `machineconfiguration.openshift.io/`, which clients read; and our own under `slipway.dev/`,
//! which say more than OpenShift's MCO can.

/// On a Node; written by the daemon: name of the rendered configuration in force, as verified after
/// the boot.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// On a Node; written by the controller (first value: the daemon, from the file of the config
/// server): the rendered configuration the node is to reach. Changing it is the node's turn and
/// counts against the pool's budget.
pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// On a Node; written by the daemon: pull spec of the layered OS image in force; absent where the
/// node is not layered.
pub const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
/// On a Node; written by the controller: pull spec of the layered OS image to reach; presence means
/// "layered".
pub const DESIRED_IMAGE: &str = "machineconfiguration.openshift.io/desiredImage";
/// On a Node; written by the daemon: a [`super::NodeState`]; absent means `Done`.
pub const STATE: &str = "machineconfiguration.openshift.io/state";
/// On a Node; written by the daemon: why the state is what it is, at most 2000 characters; `""` on
/// `Done`.
pub const REASON: &str = "machineconfiguration.openshift.io/reason";
/// On a Node; written by the daemon: `Rebooting` just before the reboot is queued, `""` after it.
pub const POST_CONFIG_ACTION: &str = "machineconfiguration.openshift.io/post-config-action";
/// On a Node; written by the daemon: `drain-<config>` before a drain, `uncordon-<config>` when
/// finishing.
pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// On a Node; written by the program that drains, here the daemon: copy of [`DESIRED_DRAIN`], only
/// after success.
pub const LAST_APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// On a Node; written by the controller: topology of the control plane; `SingleReplica` means no
/// drain.
pub const CONTROL_PLANE_TOPOLOGY: &str = "machineconfiguration.openshift.io/controlPlaneTopology";
/// On a Node; written by the daemon from the config server's file: the configuration the node was
/// born with.
pub const FIRST_PIVOT_CONFIG: &str = "machineconfiguration.openshift.io/firstPivotConfig";
/// On a Node; written by the controller: `""` once the node got the labels of the custom pool it
/// was born in.
pub const CUSTOM_POOL_LABELS_APPLIED: &str =
    "machineconfiguration.openshift.io/customPoolLabelsApplied";
/// On a Node; written by the daemon: resource version of the ControllerConfig whose certificates
/// were last written.
pub const LAST_SYNCED_CONTROLLER_CONFIG: &str =
    "machineconfiguration.openshift.io/lastSyncedControllerConfigResourceVersion";
/// On a Node; written by the daemon: last seen `service-ca-rotate` of the ControllerConfig,
/// `"true"` or `"false"`.
pub const LAST_OBSERVED_SERVER_CA: &str =
    "machineconfiguration.openshift.io/lastObservedServerCAAnnotation";

/// On a Node; written by OpenShift's daemon: what a staged deployment failed with at the last
/// shutdown, `""` once the node is well. Ours stages nothing, and only clears it.
pub const OSTREE_FINALIZE_STAGED_FAILURE: &str =
    "machineconfiguration.openshift.io/ostree-finalize-staged-failure";

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

/// On a Node; written by the daemon: attempt that cordoned it, so that an administrator's own
/// cordon is left in place.
pub const CORDONED_BY: &str = "slipway.dev/cordoned-by";
/// On a Node; written by the daemon: since when it is being drained, RFC 3339, so that a restart
/// does not start that clock anew.
pub const DRAIN_SINCE: &str = "slipway.dev/drain-since";
/// On a Node; written by the controller: configuration for which it could not be drained within the
/// limit of its pool's rollout policy. While the node stays cordoned, the rollout passes it over.
pub const QUARANTINED: &str = "slipway.dev/quarantined";
/// On a Node; written by the managed upgrade operator: a [`super::DrainLease`]. While it is held,
/// the daemon evicts no pod.
pub const DRAIN_LEASE: &str = "slipway.dev/drain-lease";
/// On a Node; written by an administrator: the configuration that failed on it and is to be tried
/// again. The daemon removes it.
pub const RETRY: &str = "slipway.dev/retry";
/// On a Node; written by the daemon with the first annotations of a Node that is new though its
/// host is not: the host's configuration. The host follows no target of another pool than that
/// one's until an administrator removes it.
pub const REGISTERED_ANEW: &str = "slipway.dev/registered-anew";
/// On a Node; written by the daemon: what the node waits for (pod, PodDisruptionBudget, failed
/// check), for people.
pub const WAITS_FOR: &str = "slipway.dev/waits-for";
/// On a Node; written by the daemon: phase of its state machine.
pub const PHASE: &str = "slipway.dev/phase";
/// On a Node; written by the daemon: since when it is in that phase, RFC 3339.
pub const SINCE: &str = "slipway.dev/since";
/// On a Node; written by the daemon with a failed [`STATE`]: a [`super::node_status::FailedIn`],
/// the configuration that failed on the node and the phase in which it did.
pub const FAILED_IN: &str = "slipway.dev/failed-in";
/// On a Node; written by the controller while the node waits for its turn: configuration that the
/// node may fetch and rehearse while it works.
pub const NEXT_CONFIG: &str = "slipway.dev/next-config";
/// On a Node; written by the controller beside [`NEXT_CONFIG`]: most bytes a second that the node
/// fetches before its turn, in digits; absent, as many as it can.
pub const NEXT_BYTES_PER_SECOND: &str = "slipway.dev/next-bytes-per-second";
/// On a Node; written by the daemon in answer to [`NEXT_CONFIG`]: configuration whose image lies
/// ready and whose plan was rehearsed.
pub const FETCHED: &str = "slipway.dev/fetched";
/// On a Node; written by the daemon in answer to [`NEXT_CONFIG`]: `<config>: <cause>`, where it
/// could not be fetched or rehearsed; the cause has at most 500 characters.
pub const NOT_FETCHED: &str = "slipway.dev/not-fetched";
/// On a MachineConfigPool; written by an administrator: `"true"` or absent, nodes that wait for
/// their turn fetch the pool's configuration before it; any other value, they do not.
pub const PREFETCH: &str = "slipway.dev/prefetch";
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
/// On a Node; written by the controller: uid of its MachineConfigNode, where an older one was
/// deleted. The daemon then writes the status of the new one at once.
pub const NODE_OBJECT: &str = "slipway.dev/machine-config-node";
/// On a Node; written by the controller: digest of the certificates that the ControllerConfig has
/// for nodes, `"none"` where there is no ControllerConfig. The daemon reads the ControllerConfig
/// when it changes.
pub const CERTIFICATES: &str = "slipway.dev/certificates";
/// On a MachineConfig; written by the controller: the platform whose base configuration it is.
/// Those that OpenShift's MCO made from its own templates have the same names, and not this.
pub const BASE_TEMPLATE: &str = "slipway.dev/base-template";
/// On a rendered MachineConfig; written by the controller: `"true"` where the cluster had no
/// ControllerConfig when it was rendered. One without this that a controller made holds what a
/// ControllerConfig said, such as the release's OS image.
pub const WITHOUT_CONTROLLER_CONFIG: &str = "slipway.dev/without-controller-config";

/// On a Pod; written by an administrator: `"true"`, it is not deleted by force, and its finalizers
/// stay.
pub const NO_FORCED_DRAIN: &str = "slipway.dev/no-forced-drain";
