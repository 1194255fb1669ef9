//! Words of image mode: MachineOSConfigs, MachineOSBuilds, and annotations of these and of pins.

use super::{Explanation, of};

const CONFIG: &str = "condition of a MachineOSConfig";
const CONFIG_REASON: &str = "reason of condition Refused of a MachineOSConfig";
const CONDITION: &str = "condition of a MachineOSBuild";
const REASON: &str = "reason of a condition of a MachineOSBuild";
const EVENT: &str = "event of a MachineOSConfig";
const STATE: &str = "label state of metric mcc_pool_image_build_state";
const PINS: &str = "label state of metric mcc_pool_pinned_image_nodes";
const END: &str = "label end of metric mcc_image_builds_total";
const ON_CONFIG: &str = "annotation of a MachineOSConfig";
const ON_BUILD: &str = "annotation of a MachineOSBuild";
const ON_BOTH: &str = "annotation of a MachineOSConfig and its pool";
const ON_NODE: &str = "annotation of a Node";

const AGAIN: &str = "Annotate the MachineOSConfig with machineconfiguration.openshift.io/rebuild.";
const FAILED: &str = "Correct what the end of the log names, then edit the MachineOSConfig, or \
                      annotate it with machineconfiguration.openshift.io/rebuild.";
const NODES: &str = "Lower the requests, or correct nodeSelector and tolerations, in imageBuild of \
                     the pool's RolloutPolicy, and annotate the MachineOSConfig for a rebuild: a \
                     Job that is there keeps its own. Or give the cluster a node that fits.";

pub(super) const WORDS: &[Explanation] = &[
    of(
        "Refused",
        CONFIG,
        "No image can be built from the MachineOSConfig and the pool's configuration as they are, or \
         a Secret, a setting or the builder's image is missing; the message names object and field.",
        "Correct the field that the message names.",
    ),
    of(
        "BuildRefused",
        CONFIG_REASON,
        "Nothing is built, because of what the message names.",
        "Correct the field that the message names.",
    ),
    of(
        "Accepted",
        CONFIG_REASON,
        "What was refused before is accepted.",
        "Nothing.",
    ),
    of(
        "Prepared",
        CONDITION,
        "ConfigMap and Secrets of the build are there; its Job is to be made.",
        "Nothing.",
    ),
    of(
        "Building",
        CONDITION,
        "The build's Job is there and has not ended; the reason says whether its pod runs.",
        "Nothing while its reason is Building; else explain the reason.",
    ),
    of(
        "Failed",
        CONDITION,
        "The build failed; the message has the end of its log.",
        FAILED,
    ),
    of(
        "Interrupted",
        CONDITION,
        "The build was ended before its time.",
        AGAIN,
    ),
    of(
        "Succeeded",
        CONDITION,
        "The image is in its registry, and status.digestedImagePushSpec names it.",
        "Nothing.",
    ),
    of(
        "Prepared",
        REASON,
        "What the build needs is made.",
        "Nothing.",
    ),
    of(
        "Building",
        REASON,
        "The pod of the build runs or is being started.",
        "Nothing; `slipway pool` shows since when.",
    ),
    of(
        "NoPod",
        REASON,
        "The build's Job is suspended, or has had no pod for a minute.",
        "Read the events of Job build-NAME in openshift-machine-config-operator: a quota, an \
         admission webhook or a missing account refuses the pod. Resume a suspended Job.",
    ),
    of(
        "PodNotScheduled",
        REASON,
        "No node takes the build's pod: none has room or matches. The message is the scheduler's, \
         which counts nodes by what they lack.",
        NODES,
    ),
    of(
        "ContainerWaits",
        REASON,
        "The kubelet cannot start the build's container, for example ErrImagePull, ImagePullBackOff \
         or CreateContainerConfigError; the message is the kubelet's.",
        "Repair the way to the registry of the builder's image, or what the message names; the \
         kubelet tries again by itself.",
    ),
    of("Built", REASON, "The image is pushed.", "Nothing."),
    of(
        "Reused",
        REASON,
        "Another build of the same content has the image; nothing was built.",
        "Nothing.",
    ),
    of("BuildFailed", REASON, "The build's Job failed.", FAILED),
    of(
        "JobGone",
        REASON,
        "The build's Job was deleted before it ended.",
        AGAIN,
    ),
    of(
        "OSImageBuildStarted",
        EVENT,
        "A MachineOSBuild was created for the pool's configuration.",
        "Nothing.",
    ),
    of(
        "OSImageBuilt",
        EVENT,
        "The image is pushed, or is that of a build with the same content.",
        "Nothing; the pool's nodes follow.",
    ),
    of(
        "OSImageBuildHeld",
        EVENT,
        "No pod of the build of the pool's OS image runs; the message says why.",
        "Explain the reason of condition Building of the MachineOSBuild: NoPod, PodNotScheduled or \
         ContainerWaits.",
    ),
    of(
        "OSImageBuildFailed",
        EVENT,
        "The build of the pool's OS image failed; the message has the end of its log.",
        "Correct what the log names, then edit the MachineOSConfig, or annotate it for a rebuild.",
    ),
    of(
        "OSImageBuildInterrupted",
        EVENT,
        "The Job of a build was deleted before it ended.",
        AGAIN,
    ),
    of(
        "OSImageMissing",
        EVENT,
        "An image that a node needs left its registry, and is built again.",
        "Find out what removes images there; Slipway removes only those that nothing needs.",
    ),
    of(
        "Refused",
        STATE,
        "The pool's MachineOSConfig is refused.",
        "Correct the field that its condition Refused names.",
    ),
    of(
        "NotBegun",
        STATE,
        "The pool's configuration has no build yet.",
        "Nothing; if it lasts, read whether the pool is rendered, and the controller's log.",
    ),
    of("Queued", STATE, "The build is created.", "Nothing."),
    of(
        "Prepared",
        STATE,
        "The build's Job is to be made.",
        "Nothing.",
    ),
    of("Building", STATE, "The build runs.", "Nothing."),
    of(
        "Held",
        STATE,
        "No pod of the build runs.",
        "Explain the reason of condition Building of the MachineOSBuild.",
    ),
    of("Failed", STATE, "The build failed.", FAILED),
    of(
        "Interrupted",
        STATE,
        "The build was ended before its time.",
        AGAIN,
    ),
    of("Built", STATE, "The pool has its image.", "Nothing."),
    of("Built", END, "An image was built and pushed.", "Nothing."),
    of(
        "Reused",
        END,
        "The image of a build with the same content was taken.",
        "Nothing.",
    ),
    of("Failed", END, "The build failed.", FAILED),
    of(
        "Interrupted",
        END,
        "The build was ended before its time.",
        AGAIN,
    ),
    of(
        "Pinned",
        PINS,
        "The node has all images of the pool's PinnedImageSets.",
        "Nothing.",
    ),
    of("Pulling", PINS, "The node pulls them.", "Nothing."),
    of(
        "Waiting",
        PINS,
        "The node waits until others have pulled theirs.",
        "Nothing; pinnedImagePulls of the RolloutPolicy says how many pull at once.",
    ),
    of(
        "NoRoom",
        PINS,
        "The node's disk has no room for them.",
        "Free space on the disk, or remove images from the set.",
    ),
    of(
        "Failed",
        PINS,
        "The node could not pull or pin one.",
        "Read `slipway pool NAME`: it names the node and the cause.",
    ),
    of(
        "Refused",
        PINS,
        "The set cannot be followed on the node.",
        "Correct the PinnedImageSet and image that `slipway pool NAME` names.",
    ),
    of(
        "machineconfiguration.openshift.io/rebuild",
        ON_CONFIG,
        "Requests that the same inputs are built again; the builder removes it.",
        "Set it to any value to have an image built again.",
    ),
    of(
        "machineconfiguration.openshift.io/current-machine-os-build",
        ON_BOTH,
        "Names the build of the pool's configuration. The controller writes it.",
        "Nothing.",
    ),
    of(
        "slipway.dev/image-content",
        ON_BUILD,
        "Digest of all that is in the image: builds of equal content share one.",
        "Nothing.",
    ),
    of(
        "slipway.dev/push-secret",
        ON_BUILD,
        "Names the Secret with which the image is removed from its registry.",
        "Keep that Secret while the build is there.",
    ),
    of(
        "slipway.dev/desired-pins",
        ON_NODE,
        "The PinnedImageSets that the node is to have, each with its generation. The controller writes it.",
        "Nothing.",
    ),
    of(
        "slipway.dev/current-pins",
        ON_NODE,
        "The PinnedImageSets that the node has. Its daemon writes it.",
        "Nothing.",
    ),
    of(
        "slipway.dev/not-pinned",
        ON_NODE,
        "Why the node does not have its pinned images: NoRoom, Failed or Refused, and the cause.",
        "Explain the word at its beginning.",
    ),
];
