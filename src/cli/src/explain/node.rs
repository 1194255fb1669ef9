//! Words of a Node: its phase, its state, and the daemon's events.

use super::{Explanation, of};

const PHASE: &str = "phase of a Node (annotation slipway.dev/phase)";
const STATE: &str = "state of a Node (annotation machineconfiguration.openshift.io/state)";
const EVENT: &str = "event of a Node";
const OBJECT: &str = "condition of a MachineConfigNode";
const OBJECT_REASON: &str = "reason of a condition of a MachineConfigNode";
const PINS: &str = "reason in a Node's annotation slipway.dev/not-pinned";
const LOG: &str = "word in the log of a host";
const NOTHING: &str = "Nothing: it is part of every update.";
const READ_NODE: &str = "Read `slipway node NAME`: its reason names the cause.";

pub(super) const WORDS: &[Explanation] = &[
    of("Starting", PHASE, "The daemon reads its host.", NOTHING),
    of("Idle", PHASE, "The node runs its target.", "Nothing."),
    of(
        "Fetching",
        PHASE,
        "The target is planned, fetched and rehearsed while the node is in service.",
        "Nothing; if it takes long, read what it waits for: often a registry that does not answer.",
    ),
    of(
        "Draining",
        PHASE,
        "The node is cordoned, and its pods leave through the eviction API.",
        "If it takes long, read which pod and PodDisruptionBudget it names, and add replicas or relax the budget. `slipway node NAME --try-drain` asks for all pods.",
    ),
    of(
        "Applying",
        PHASE,
        "The plan is executed on the host; the new deployment becomes bootable in one step.",
        NOTHING,
    ),
    of(
        "Rebooting",
        PHASE,
        "The host goes down and comes up.",
        "If it does not come back, read its console: the boot loader or the guard returns it to its origin.",
    ),
    of(
        "Verifying",
        PHASE,
        "The host is checked against the target; a failed check rolls it back.",
        NOTHING,
    ),
    of("Finishing", PHASE, "The node returns to service.", NOTHING),
    of(
        "RollingBack",
        PHASE,
        "The target failed, and the host returns to its origin.",
        "Wait until the node is Held, then read its reason.",
    ),
    of(
        "Held",
        PHASE,
        "The target failed on this node and was rolled back. It is not tried again.",
        "Read the reason in `slipway node NAME`, and change the MachineConfig. The annotation slipway.dev/retry lets the node try the same target again.",
    ),
    of(
        "Degraded",
        PHASE,
        "A step failed, and waits for its next attempt.",
        READ_NODE,
    ),
    of(
        "Unreconcilable",
        PHASE,
        "The target asks for a change that cannot be made in place; nothing was changed.",
        "Take the field that the reason names out of the MachineConfig, or provision the node anew.",
    ),
    of(
        "Done",
        STATE,
        "The current configuration is in force and verified.",
        "Nothing.",
    ),
    of(
        "Working",
        STATE,
        "An update is under way.",
        "Read the phase for where it is.",
    ),
    of(
        "Degraded",
        STATE,
        "An update failed; the daemon tries again or waits for another target.",
        READ_NODE,
    ),
    of(
        "Unreconcilable",
        STATE,
        "The target is rejected; nothing was changed.",
        READ_NODE,
    ),
    of(
        "PinnedImageSetsProgressing",
        OBJECT,
        "The node pulls and pins the images that it was assigned.",
        "Nothing; pulling is as slow as the registry and the node's network.",
    ),
    of(
        "PinnedImageSetsDegraded",
        OBJECT,
        "The node does not have its pinned images for another reason than time.",
        "Explain the reason that its message begins with.",
    ),
    of(
        "ImagePrefetch",
        OBJECT_REASON,
        "Images are being pulled and pinned.",
        "Nothing.",
    ),
    of(
        "AsExpected",
        OBJECT_REASON,
        "All images that the node was assigned lie pinned on it.",
        "Nothing.",
    ),
    of(
        "PrefetchFailed",
        OBJECT_REASON,
        "Images cannot be pulled or pinned on the node.",
        "Explain the reason that its message begins with.",
    ),
    of(
        "NoRoom",
        PINS,
        "The images have no room on the node's disk. Nothing is pulled until the sets or the disk \
         change; another node has its turn.",
        "Take images out of the PinnedImageSet, or give the node a larger disk.",
    ),
    of(
        "Failed",
        PINS,
        "Images could not be pulled or pinned. The node tries again, and keeps its turn.",
        "Read which image and cause it names: often the registry, the pull secret or a mirror.",
    ),
    of(
        "Refused",
        PINS,
        "The node refuses the sets: one is not valid or gone, or the host has no known container \
         runtime.",
        "Correct the PinnedImageSet that it names, or install CRI-O or containerd.",
    ),
    of(
        "OSUpdateStarted",
        EVENT,
        "An update brings another OS image.",
        NOTHING,
    ),
    of("Drain", EVENT, "The drain begins.", NOTHING),
    of(
        "SkipReboot",
        EVENT,
        "A live update is applied; the node does not reboot.",
        "Nothing.",
    ),
    of(
        "ServiceReload",
        EVENT,
        "A live update is applied; services were reloaded.",
        "Nothing.",
    ),
    of(
        "ServiceRestart",
        EVENT,
        "A live update is applied; services were restarted.",
        "Nothing.",
    ),
    of(
        "FailedServiceReload",
        EVENT,
        "A service could not be reloaded; the update is undone.",
        READ_NODE,
    ),
    of(
        "FailedServiceRestart",
        EVENT,
        "A service could not be restarted; the update is undone.",
        READ_NODE,
    ),
    of(
        "Reboot",
        EVENT,
        "The boot loader names the target; the node goes down.",
        NOTHING,
    ),
    of(
        "NodeDone",
        EVENT,
        "The target is verified; the node returns to service.",
        "Nothing.",
    ),
    of(
        "DrainThresholdExceeded",
        EVENT,
        "A drain takes longer than ten minutes.",
        "Read the pod and budget that the message names, and add replicas or relax the budget.",
    ),
    of(
        "FailedToDrain",
        EVENT,
        "A drain takes longer than an hour; it continues, and the node shows Degraded.",
        "Read the pod and budget that the message names, and add replicas or relax the budget.",
    ),
    of(
        "DrainFailed",
        EVENT,
        "The same as FailedToDrain, under the word of OpenShift's controller.",
        "Read the pod and budget that the message names, and add replicas or relax the budget.",
    ),
    of(
        "FailedToUncordon",
        EVENT,
        "The node cannot be uncordoned.",
        "Read the message: the API server refused the write. It is repeated.",
    ),
    of(
        "ChangesWithoutEffect",
        EVENT,
        "The target changes what no installed host can follow, and an administrator let it through.",
        "Nothing; only new machines get what the message names.",
    ),
    of(
        "FailedToReconcile",
        EVENT,
        "The target is rejected; nothing was changed.",
        "Take the field that the message names out of the MachineConfig.",
    ),
    of(
        "NotPinned",
        EVENT,
        "The node does not have its pinned images: NoRoom, they do not fit on its disk; Failed, they cannot be pulled yet and are tried again; Refused, it would end the same.",
        "NoRoom: free the bytes that the message names, or take images out of the set. Failed: check the registry that it names. Refused: correct the set.",
    ),
    of(
        "CertificatesRefused",
        EVENT,
        "A certificate of the ControllerConfig, or the API server's CA, is unusable; the host keeps its own.",
        "Correct the object and field that the message names.",
    ),
    of(
        "SELinuxModuleMissing",
        EVENT,
        "SELinux is enforcing on the host, and its policy lacks Slipway's module.",
        "Build and install the module as selinux/README.md says, best in the OS image.",
    ),
    of(
        "OnDiskStateValidationFailed",
        EVENT,
        "The host differs from its configuration at the daemon's start.",
        "Restore the file or unit that the message names, or create /run/machine-config-daemon-force on the host.",
    ),
    of(
        "ConfigDriftMonitorStarted",
        EVENT,
        "Managed files and units of the node are watched for changes by hand.",
        "Nothing.",
    ),
    of(
        "ConfigDriftMonitorStopped",
        EVENT,
        "The watch ends before the host is changed.",
        NOTHING,
    ),
    of(
        "ConfigDriftDetected",
        EVENT,
        "A managed file or unit was changed by hand; the node accepts no target.",
        "Restore what the message names, or create /run/machine-config-daemon-force on the host. Lasting changes belong into a MachineConfig.",
    ),
    of(
        "PreflightConfigDriftCheckFailed",
        EVENT,
        "The host was changed by hand; no update begins.",
        "Restore what the message names, or create /run/machine-config-daemon-force on the host.",
    ),
    of(
        "RolledBack",
        EVENT,
        "The target failed on this node and is held.",
        "Read the reason in `slipway node NAME`, and change the MachineConfig.",
    ),
    of(
        "JournalUnreadable",
        LOG,
        "The journal of an update cannot be read; its copy takes its place, or what is booted is adopted.",
        "Check the disk of the host; the journal is kept as journal.broken.json.",
    ),
    of(
        "LateChanges",
        LOG,
        "What others changed in /etc of the deployment that was left is carried over to this one.",
        "Nothing; the message names the paths.",
    ),
    of(
        "LateConflict",
        LOG,
        "A change of /etc in the deployment that was left is not carried over.",
        "Read the content in /var/lib/slipway/late; put what shall last into a MachineConfig.",
    ),
    of(
        "NodeInNoPool",
        EVENT,
        "A node that was managed is selected by no pool; it gets no updates.",
        "Set the label of a pool on the node, or correct the pool's spec.nodeSelector.",
    ),
    of(
        "InitialLabelsMissing",
        EVENT,
        "A node did not get the labels of the custom pool that it was made for, as the message says.",
        "Set the labels of the pool that the node shall be in.",
    ),
    of(
        "AnnotationChange",
        EVENT,
        "A node of the control plane was assigned a configuration.",
        "Nothing.",
    ),
];
