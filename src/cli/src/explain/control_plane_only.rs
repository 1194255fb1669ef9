//! Words of updates of the control plane alone: of pools that they pause, and of kubelets that they
//! would leave behind.

use super::{Explanation, of};

const CONDITION: &str = "condition of a MachineConfigPool";
const REASON: &str = "reason of a condition of a MachineConfigPool";
const OPERATOR: &str = "reason of a condition of ClusterOperator machine-config";
const OF_POOL: &str = "annotation of a MachineConfigPool";
const OF_VERSION: &str = "annotation of ClusterVersion version";
const CONTROLLER: &str = "alert of the controller";

/// What to do about kubelets that are too old.
const UPDATE_THEM: &str = "Resume the pools that the message names and let their nodes be updated before the next minor release.";
const REPORT_THEM: &str = "Read the Nodes that the message names; a kubelet that runs reports its version. If it is the API server's, read the log of mcc.";

pub(super) const WORDS: &[Explanation] = &[
    of(
        "Paused",
        CONDITION,
        "spec.paused is set since the condition's last transition; the message says by whom.",
        "Set spec.paused to false once what it was paused for is done; `slipway upgrade --control-plane-only` does so with its own pause.",
    ),
    of(
        "KubeletSkew",
        CONDITION,
        "The next minor release of the API server would not support kubelets of the pool's nodes, or no one knows whether it would.",
        "Explain its reason.",
    ),
    of(
        "ControlPlaneOnly",
        REASON,
        "An update of the control plane alone paused the pool, and resumes it once both minor releases are there.",
        "Nothing; `slipway upgrade status` shows how far it is.",
    ),
    of(
        "KubeletSkewUnsupported",
        REASON,
        "Kubelets would be more than three minor releases older than the next one of the API server; the message has nodes and versions.",
        UPDATE_THEM,
    ),
    of(
        "KubeletSkewUnsupported",
        OPERATOR,
        "Kubelets would be more than three minor releases older than the next one of the API server; another minor release waits for them.",
        UPDATE_THEM,
    ),
    of(
        "KubeletSkewUnchecked",
        REASON,
        "The version of a kubelet or of the API server is missing, or is no version.",
        REPORT_THEM,
    ),
    of(
        "KubeletSkewUnchecked",
        OPERATOR,
        "The version of a kubelet or of the API server is missing, or is no version; another minor release waits for it.",
        REPORT_THEM,
    ),
    of(
        "slipway.dev/paused-by",
        OF_POOL,
        "Who paused the pool for a time and resumes it; without it an administrator paused it.",
        "Nothing; `slipway upgrade --control-plane-only --clear` takes the value control-plane-only away.",
    ),
    of(
        "slipway.dev/control-plane-only",
        OF_VERSION,
        "The update of the control plane alone that is under way: its releases, the pools that it paused, by whom, since when.",
        "Run `slipway upgrade --control-plane-only --to VERSION` until it is done, or with --clear to end it.",
    ),
    of(
        "MCCPoolPausedLong",
        CONTROLLER,
        "A pool has been paused for more than 60 days: its nodes have got no update and no fix since, and its kubelets fall behind the API server.",
        "Resume the pool in a quiet hour. An update of the control plane alone that paused it goes on with `slipway upgrade --control-plane-only --to VERSION`, or ends with `--clear`.",
    ),
    of(
        "MCCPausedPoolKubeletCertificate",
        CONTROLLER,
        "The kubelet of a node in a paused pool has had a certificate with less than two days left for a day: it is not renewed in time, and the node is lost when it expires.",
        "Approve its CertificateSigningRequest, or read the kubelet's log for why it makes none. If it needs the pool's new configuration, resume the pool.",
    ),
    of(
        "MCCPausedPoolMissesAuthority",
        CONTROLLER,
        "A certificate authority was rotated in the configuration of a paused pool, and its nodes do not have the new one.",
        "Resume the pool before the old authority expires or is no longer used.",
    ),
];
