//! Words of switches that stop a pool or the cluster, and of nodes on hold.

use super::{Explanation, of};

const POOL: &str = "reason of a condition of a MachineConfigPool";
const VERSION: &str = "reason of Progressing of ClusterVersion version";
const UPGRADE: &str = "condition of an upgrade in UpgradeConfig";
const METRIC: &str = "label reason of metric mco_state";
const ON_NODE: &str = "annotation of a Node";
const ON_BOTH: &str = "annotation of a MachineConfigPool and of ClusterVersion version";

pub(super) const WORDS: &[Explanation] = &[
    of(
        "Stopped",
        POOL,
        "A person stopped the pool or the cluster: no node is assigned anything, and no pull of \
         pinned images and no build begins. What has begun is finished. The message names who, since \
         when and why.",
        "Ask that person; then `slipway pool NAME go`, or `slipway upgrade go` where the message \
         names the cluster.",
    ),
    of(
        "Stopped",
        VERSION,
        "A person stopped the cluster: no release is retrieved, and no further manifest of one that \
         is on its way begins. What was applied is kept as it is. The message names who, since when \
         and why.",
        "Ask that person; then `slipway upgrade go`.",
    ),
    of(
        "Stopped",
        METRIC,
        "A person stopped the node's pool, or the cluster.",
        "Read the pool's condition Waiting.",
    ),
    of(
        "UpgradeStopped",
        UPGRADE,
        "A person stopped the cluster: no step of the upgrade begins. Its window goes on counting. The \
         message names who, since when and why.",
        "Ask that person; then `slipway upgrade go`.",
    ),
    of(
        "NodesOnHold",
        POOL,
        "Nodes have the annotation slipway.dev/hold: they are assigned nothing new. The others go on, \
         unless a canary is on hold.",
        "Read the reason in the message; `slipway node NAME release` ends a hold.",
    ),
    of(
        "OnHold",
        METRIC,
        "The node has the annotation slipway.dev/hold, and waits for a person.",
        "Read the reason by `slipway node NAME`; `slipway node NAME release` ends the hold.",
    ),
    of(
        "slipway.dev/hold",
        ON_NODE,
        "A person keeps the node out of the rollout, for the reason that is its value. It finishes what \
         it was assigned.",
        "`slipway node NAME release` removes it.",
    ),
    of(
        "slipway.dev/stop",
        ON_BOTH,
        "A person stopped the pool, or with ClusterVersion the cluster. Its value names who, since when \
         and why; one that cannot be read stops, too.",
        "`slipway pool NAME go` or `slipway upgrade go` removes it.",
    ),
];
