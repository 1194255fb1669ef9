//! The decision for a pool of 5,000 nodes: its time and its memory.

use std::time::Instant;

use anyhow::{Context as _, Result};
use api::machineconfiguration::MachineConfigPool;
use pool::node::NodeView;
use pool::rollout::decide;
use pool::view::PoolView;
use serde_json::json;

use crate::figure::{Figure, Unit};
use crate::idle::float;
use crate::memory;
use crate::statistics::median;

const NODES: usize = 5_000;

/// Nodes that may be out of service at once.
const BUDGET: usize = 500;

/// What the nodes are before the decision.
const CASES: [Case; 2] = [Case::AllWait, Case::HalfFailed];

#[derive(Clone, Copy, PartialEq)]
enum Case {
    /// All run the former configuration.
    AllWait,
    /// The former target failed on every other one.
    HalfFailed,
}

/// Decides `samples` times each for a pool that begins its rollout and for one of which half of the
/// nodes failed.
///
/// Errors: the kernel does not say what the process holds.
pub(crate) fn measure(samples: usize) -> Result<Vec<Figure>> {
    let mut times = Vec::new();
    let mut peak = 0;
    for case in CASES {
        let nodes: Vec<NodeView> = (0..NODES)
            .map(|number| node(case, number))
            .collect::<Result<_>>()?;
        let members: Vec<&NodeView> = nodes.iter().collect();
        let pool = pool()?;
        chassis::memory::trim_heap();
        let held = memory::restart_peak()?;
        let mut taken = Vec::new();
        for _ in 0..samples {
            let began = Instant::now();
            let decision = decide(&pool, &members, jiff::Timestamp::UNIX_EPOCH);
            taken.push(began.elapsed().as_secs_f64() * 1e3);
            drop(decision);
        }
        peak = peak.max(memory::peak()?.saturating_sub(held));
        times.push(median(&taken).context("nothing was measured")?);
    }
    let slowest = times.iter().copied().fold(0.0, f64::max);
    let [all, half] = times.as_slice() else {
        anyhow::bail!("not two cases")
    };
    Ok(vec![
        Figure::new("pool_decide_ms", slowest)?
            .of(samples)
            .beside("all wait", *all, Unit::Ms)
            .beside("half failed", *half, Unit::Ms),
        Figure::new("pool_decide_peak_bytes", float(peak))?.of(samples),
    ])
}

fn pool() -> Result<PoolView> {
    let pool: MachineConfigPool = serde_json::from_value(json!({
        "metadata": { "name": "worker", "uid": "uid", "resourceVersion": "1" },
        "spec": {
            "configuration": { "name": "rendered-worker-2" },
            "maxUnavailable": BUDGET,
            "nodeSelector": { "matchLabels": { "node-role.kubernetes.io/worker": "" } }
        }
    }))?;
    Ok(PoolView::parse(&pool))
}

fn node(case: Case, number: usize) -> Result<NodeView> {
    let has_failed = case == Case::HalfFailed && number % 2 == 1;
    let (desired, state) = if has_failed {
        ("rendered-worker-bad", "Degraded")
    } else {
        ("rendered-worker-1", "Done")
    };
    let node = serde_json::from_value(json!({
        "metadata": {
            "name": format!("worker-{number:04}.cluster.example.com"),
            "resourceVersion": number.to_string(),
            "labels": { "topology.kubernetes.io/zone": format!("eu-central-1{}", number % 3) },
            "annotations": {
                "machineconfiguration.openshift.io/currentConfig": "rendered-worker-1",
                "machineconfiguration.openshift.io/desiredConfig": desired,
                "machineconfiguration.openshift.io/state": state
            }
        },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] }
    }))?;
    Ok(NodeView::parse(node))
}
