//! Words of MachineConfigPools and of what the controller reports.

use super::{Explanation, of};

const CONDITION: &str = "condition of a MachineConfigPool";
const REASON: &str = "reason of a condition of a MachineConfigPool";
const EVENT: &str = "event of a MachineConfigPool";
const SETTINGS: &str = "condition of MachineConfiguration cluster";
const CONTROLLER: &str = "condition of ControllerConfig machine-config-controller";
const OPERATOR: &str = "reason of a condition of ClusterOperator machine-config";
const SETTING: &str = "condition of a KubeletConfig or ContainerRuntimeConfig";
const METRIC: &str = "label reason of metric mco_state";

pub(super) const WORDS: &[Explanation] = &[
    of(
        "Updated",
        CONDITION,
        "All nodes run the pool's configuration and are ready.",
        "Nothing.",
    ),
    of(
        "Updating",
        CONDITION,
        "Nodes are being updated, or wait for it.",
        "Nothing; `slipway watch` shows them.",
    ),
    of(
        "Degraded",
        CONDITION,
        "Any of NodeDegraded, RenderDegraded, RolloutDegraded and ImageBuildDegraded is True.",
        "Read these conditions; `slipway pool` prints those that are True.",
    ),
    of(
        "NodeDegraded",
        CONDITION,
        "A node reports that it failed.",
        "Read the message, then `slipway node NAME` of each node that it names.",
    ),
    of(
        "RenderDegraded",
        CONDITION,
        "The pool's MachineConfigs cannot be merged; nodes keep what they run.",
        "Correct the MachineConfig and field that the message names.",
    ),
    of(
        "RolloutDegraded",
        CONDITION,
        "The pool cannot be rolled out as it is written, or its rollout stopped after failures.",
        "Explain its reason.",
    ),
    of(
        "Waiting",
        CONDITION,
        "The rendering waits for an object, or nodes wait for their turn; the message names them and what they wait for.",
        "Explain its reason.",
    ),
    of(
        "Unsupported",
        CONDITION,
        "The pool asks for something that nothing handles; all else is done.",
        "Read which objects the message names, and remove them or do without.",
    ),
    of(
        "ImageBuildDegraded",
        CONDITION,
        "The pool's OS image cannot be built: refused, failed or interrupted. While it is False, its \
         message says how far the build is, and what keeps its pod from running.",
        "Explain its reason.",
    ),
    of(
        "PinnedImageSetsDegraded",
        CONDITION,
        "Nodes report why they do not have their pinned images, or it is not determined which \
         PinnedImageSets the pool has. Nodes run as before, and the pool is not Degraded.",
        "Read the message: it names each node with NoRoom, Failed or Refused. Free space, correct the \
         PinnedImageSet, or repair the way to its registry.",
    ),
    of(
        "PoolSynchronizerDegraded",
        CONDITION,
        "A synchronizer fails. Slipway never sets it; OpenShift's daemon does.",
        "Read its message.",
    ),
    of(
        "<count> nodes are reporting degraded status on sync",
        REASON,
        "So many nodes of the pool failed.",
        "Read the message, then `slipway node NAME` of each node that it names.",
    ),
    of(
        "InvalidMaxUnavailable",
        REASON,
        "spec.maxUnavailable is neither a number of nodes nor a percentage; no node is assigned.",
        "Correct spec.maxUnavailable of the pool.",
    ),
    of(
        "InvalidSelector",
        REASON,
        "A selector of the pool cannot be read.",
        "Correct the field that the message names.",
    ),
    of(
        "SelectingAll",
        REASON,
        "A selector of the pool is empty and would take everything; it takes nothing.",
        "Write the labels that the pool selects.",
    ),
    of(
        "NodeInTwoPools",
        REASON,
        "A node matches more than one custom pool, and belongs to none of them.",
        "Remove a label from the node, or correct a pool's spec.nodeSelector.",
    ),
    of(
        "RolloutHalted",
        REASON,
        "Too many nodes failed on the pool's configuration; no other node is assigned it.",
        "Read the failed nodes' reasons, and change or delete the MachineConfig that failed.",
    ),
    of(
        "MissingBase",
        REASON,
        "The custom pool's selector leaves out the workers' base configurations; no node is assigned \
         a configuration, because it would lose its kubelet.",
        "Let spec.machineConfigSelector take the role worker, too: `In` with `worker` and the pool's \
         own role.",
    ),
    of(
        "InvalidRolloutPolicy",
        REASON,
        "The pool's RolloutPolicy cannot be followed; no node is assigned a configuration.",
        "Correct the field that the message names, or delete the RolloutPolicy.",
    ),
    of(
        "ActionProhibited",
        "event of Node.config.openshift.io cluster",
        "The worker latency profile is not changed between Default and LowUpdateSlowReaction in one step.",
        "Set MediumUpdateAverageReaction first, and wait until the workers are updated.",
    ),
    of(
        "NotRendered",
        REASON,
        "The pool is not rendered until an object that it is made from is complete; nodes keep what they run.",
        "Correct the object that the message names, or delete it.",
    ),
    of(
        "RolloutPolicy",
        REASON,
        "The pool's RolloutPolicy has nodes wait for a time, or for nodes of an earlier step.",
        "Nothing; if it lasts, read why the nodes that the message names are not updated.",
    ),
    of(
        "ImageMode",
        REASON,
        "The OS image of the pool's MachineOSConfig is not built; nodes keep what they run.",
        "Nothing while it is built; else read the pool's condition ImageBuildDegraded.",
    ),
    of(
        "BuildFailed",
        REASON,
        "The build of the pool's OS image failed; nodes keep what they run, and the same inputs are not built again by themselves.",
        "The message has the last lines of the build. Correct the MachineOSConfig, or annotate it with machineconfiguration.openshift.io/rebuild to try the same again.",
    ),
    of(
        "BuildInterrupted",
        REASON,
        "The Job of the pool's OS image was deleted before its end; nodes keep what they run.",
        "Annotate the MachineOSConfig with machineconfiguration.openshift.io/rebuild.",
    ),
    of(
        "BuildRefused",
        REASON,
        "No OS image can be built from the MachineOSConfig and the pool's configuration as they are; the message names object and field.",
        "Correct the field that the message names.",
    ),
    of(
        "Building",
        REASON,
        "The pool's OS image is being built, or no pod of the build runs, which the message says; \
         nodes keep what they run meanwhile.",
        "Nothing: `slipway pool` shows since when. Of a build that is held, explain the reason of \
         condition Building of its MachineOSBuild.",
    ),
    of(
        "BuildPending",
        REASON,
        "The pool's OS image is to be built; its build has not begun.",
        "Nothing; if it lasts, read condition Refused of the MachineOSConfig, and the controller's log.",
    ),
    of(
        "BuildSuccess",
        REASON,
        "The pool's OS image is built.",
        "Nothing.",
    ),
    of(
        "RenderedConfigChanged",
        REASON,
        "The pool's rendered configuration was edited, or made by another program; no node is assigned it.",
        "Change the MachineConfigs that it is made of instead; delete a foreign object of that name.",
    ),
    of(
        "NotImplemented",
        REASON,
        "Nothing handles what the pool asks for.",
        "Read which objects the message names, and remove them or do without.",
    ),
    of(
        "PrefetchFailed",
        REASON,
        "Nodes report that they cannot pull or pin images of a PinnedImageSet.",
        "Read the message: it names each node with its cause.",
    ),
    of(
        "NoLayeredObjects",
        REASON,
        "No image is built for the pool any more.",
        "Nothing.",
    ),
    of(
        "Budget",
        REASON,
        "As many nodes are out of service as spec.maxUnavailable allows.",
        "Nothing; if it lasts, read why the nodes that are out do not return.",
    ),
    of(
        "Paused",
        REASON,
        "The pool is paused; no node is assigned a configuration.",
        "Set spec.paused to false. Certificates are rotated in a paused pool, too.",
    ),
    of(
        "NodesNotReady",
        REASON,
        "Nodes that are next are not ready, or cordoned by an administrator.",
        "Uncordon them, or repair their kubelet.",
    ),
    of(
        "NodesQuarantined",
        REASON,
        "Nodes could not be drained within the limit of the RolloutPolicy; they stay cordoned and are passed over.",
        "Read which pods do not leave them, then uncordon the nodes: they are drained again.",
    ),
    of(
        "NodesNotAssigned",
        REASON,
        "The API server does not take the assignment of nodes.",
        "Read the message: an admission webhook or missing rights refuse the write.",
    ),
    of(
        "RenderedConfigGenerated",
        EVENT,
        "A configuration was rendered and stored.",
        "Nothing.",
    ),
    of(
        "RenderedConfigRestored",
        EVENT,
        "A rendered configuration was edited, and is again what was rendered.",
        "Change the MachineConfigs that it is made of instead.",
    ),
    of(
        "RenderedConfigRefused",
        EVENT,
        "An object that is not the pool's has the name of its configuration.",
        "Delete that object.",
    ),
    of(
        "OSImageURLOverridden",
        EVENT,
        "A MachineConfig replaces the release's OS image.",
        "Nothing, if that is meant; such nodes do not follow the release.",
    ),
    of(
        "NodeQuarantined",
        EVENT,
        "A node could not be drained within the limit of the RolloutPolicy, and is passed over.",
        "Explain NodesQuarantined.",
    ),
    of(
        "SetDesiredConfig",
        EVENT,
        "Nodes were assigned a configuration.",
        "Nothing.",
    ),
    of(
        "SetDesiredConfigAndOSImage",
        EVENT,
        "Nodes were assigned a configuration, and with it the OS image that is built for the pool.",
        "Nothing.",
    ),
    of(
        "RenderedConfigsRemoved",
        EVENT,
        "Rendered configurations were removed that no pool and no node uses.",
        "Nothing; mcc start --rendered-keep-count and --rendered-keep-hours say how many are kept.",
    ),
    of(
        "RenderDegraded",
        EVENT,
        "The pool cannot be rendered; its nodes stay as they are.",
        "Correct the MachineConfig and the field that the message names.",
    ),
    of(
        "DeferringOperatorNodeUpdate",
        EVENT,
        "The node that the controller runs on waits for the other nodes of its pool.",
        "Nothing.",
    ),
    of(
        "Completed",
        EVENT,
        "All nodes run the pool's configuration.",
        "Nothing.",
    ),
    of(
        "MachineConfigWarning",
        EVENT,
        "A MachineConfig has parts without effect.",
        "Take the part that the message names out of it.",
    ),
    of(
        "SelectingAll",
        EVENT,
        "A selector of the pool is empty.",
        "Write the labels that the pool selects.",
    ),
    of(
        "Unsupported",
        EVENT,
        "Something that the pool asks for has no effect.",
        "Read which objects the message names.",
    ),
    of(
        "Accepted",
        SETTING,
        "The options are in a MachineConfig of each pool that is selected; False where they are refused.",
        "Read the message of a False one, and correct the field that it names.",
    ),
    of(
        "Success",
        SETTING,
        "The options are in a MachineConfig of each pool that is selected.",
        "Nothing.",
    ),
    of(
        "Failure",
        SETTING,
        "The options are refused, and the pools that are selected wait.",
        "Read the message, and correct the field that it names, or delete the object.",
    ),
    of(
        "NodeDisruptionPolicyDegraded",
        SETTINGS,
        "spec.nodeDisruptionPolicy cannot be followed; the policies in force stay.",
        "Correct the fields that the message names.",
    ),
    of(
        "Unsupported",
        SETTINGS,
        "Fields of spec request something of boot images, which nothing handles; nothing else changes.",
        "Remove the fields that the message names, or update boot images by hand.",
    ),
    of(
        "BootImageUpdateDegraded",
        SETTINGS,
        "Boot images cannot be updated. Slipway never sets it.",
        "Read the message of the operator that does.",
    ),
    of(
        "BootImageUpdateProgressing",
        SETTINGS,
        "Boot images are being updated. Slipway never sets it.",
        "Nothing.",
    ),
    of(
        "InvalidNodeDisruptionPolicy",
        "reason of NodeDisruptionPolicyDegraded, and event, of MachineConfiguration cluster",
        "spec.nodeDisruptionPolicy has wrong fields; the policies in force stay.",
        "Correct the fields that the message names.",
    ),
    of(
        "TemplateControllerRunning",
        CONTROLLER,
        "The operator's templates are being rendered.",
        "Nothing.",
    ),
    of(
        "TemplateControllerCompleted",
        CONTROLLER,
        "The operator's templates are rendered.",
        "Nothing.",
    ),
    of(
        "TemplateControllerFailing",
        CONTROLLER,
        "The operator's templates cannot be rendered.",
        "Correct the field that the message names.",
    ),
    of(
        "AsExpected",
        "reason of a condition that reports no fault",
        "All is well.",
        "Nothing.",
    ),
    of(
        "PoolsUpdating",
        OPERATOR,
        "Pools update their nodes; another minor release waits for them.",
        "Wait, or read `slipway pool` for what they wait for.",
    ),
    of(
        "DegradedPool",
        OPERATOR,
        "A pool is degraded; another minor release waits for it.",
        "Read `slipway pool`.",
    ),
    of(
        "NoData",
        OPERATOR,
        "The operator has not seen all objects yet.",
        "Nothing; if it lasts, read the log of mcc.",
    ),
    of(
        "OperatorVersionChanged",
        "event of ClusterOperator machine-config",
        "The release is reached.",
        "Nothing.",
    ),
    of(
        "OperatorDegraded: <step>Failed",
        "event of ClusterOperator machine-config",
        "A step of the release fails: RenderConfig, MachineConfigDaemon or RequiredPools.",
        "Read the message; `slipway pool` for RequiredPools.",
    ),
    of(
        "RenderConfigFailed",
        OPERATOR,
        "The release's images cannot be taken into the ControllerConfig.",
        "Read the message: an object or image that it names is missing, or it names a wrong field of the release's streams, or a default stream that the release lacks.",
    ),
    of(
        "MachineConfigDaemonFailed",
        OPERATOR,
        "The DaemonSet of the daemon is not rolled out.",
        "Read its pods in openshift-machine-config-operator.",
    ),
    of(
        "RequiredPoolsFailed",
        OPERATOR,
        "The pool of the control plane is degraded or does not reach the release.",
        "Read `slipway pool master`.",
    ),
    of(
        "RunsController",
        METRIC,
        "The controller runs on the node; it waits for the other nodes of its pool.",
        "Nothing.",
    ),
    of(
        "NotReported",
        METRIC,
        "The daemon of the node has not reported a configuration.",
        "Read the daemon's pod on that node.",
    ),
    of(
        "NoTarget",
        METRIC,
        "The pool has no rendered configuration yet.",
        "Read whether the pool is RenderDegraded.",
    ),
    of(
        "PoolDeleted",
        METRIC,
        "The pool is being deleted.",
        "Nothing.",
    ),
    of(
        "NotAssigned",
        METRIC,
        "The API server refused the assignment.",
        "Explain NodesNotAssigned.",
    ),
];
