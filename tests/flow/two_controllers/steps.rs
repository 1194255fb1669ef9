//! A pool whose nodes are updated in the steps of a RolloutPolicy.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::annotation;
use jiff::{SignedDuration, Timestamp};
use lab::audit::nodes::{self, NodeSnapshot};

use crate::env::Env;
use crate::judge::judge;
use crate::{DEFINITIONS, SHORT_LEASE};

/// One canary, which works for a while; two nodes after it, then the others.
const POLICY: &str = "
apiVersion: slipway.dev/v1alpha1
kind: RolloutPolicy
metadata:
  name: worker
spec:
  canaries:
    nodeSelector:
      matchLabels:
        kubernetes.io/hostname: n3
    soak: 4s
  waves:
    - size: 2
";

const SOAK: SignedDuration = SignedDuration::from_secs(4);

/// When a node was assigned a configuration, and when it was done in it.
struct Update {
    assigned: Timestamp,
    done: Timestamp,
}

fn update(history: &[NodeSnapshot], target: &str) -> Option<Update> {
    let is = |state: &&NodeSnapshot, key: &str| {
        state.annotations.get(key).map(String::as_str) == Some(target)
    };
    let assigned = history.iter().find(|it| is(it, annotation::DESIRED_CONFIG));
    let done = history.iter().find(|it| is(it, annotation::CURRENT_CONFIG));
    Some(Update {
        assigned: assigned?.at,
        done: done?.at,
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control plane"]
async fn a_policy_rolls_nodes_in_steps() -> Result<()> {
    let env = Env::start("steps", Path::new(DEFINITIONS), &SHORT_LEASE);
    let (mut env, first) = env.await?;
    let label = serde_json::json!({ "metadata": { "labels": { "kubernetes.io/hostname": "n3" } } });
    env.objects().patch_node("n3", &label).await?;
    env.cluster.apply(POLICY).await?;
    env.configure("50-change", "a=1").await?;
    let target = env.rolled(&first).await?;
    env.cluster.replicas().clear();
    let events = env.cluster.events()?;
    judge(&events, &[first, target.clone()])?;

    let updates: BTreeMap<String, Update> = nodes::histories(&events)
        .into_iter()
        .filter_map(|(name, history)| Some((name, update(&history, &target)?)))
        .collect();
    let of = |name: &str| {
        updates
            .get(name)
            .with_context(|| format!("{name} was not updated"))
    };
    let canary = of("n3")?;
    for wave in ["n0", "n1"] {
        let soaked = of(wave)?.assigned.duration_since(canary.done);
        ensure!(
            soaked >= SOAK,
            "{wave} followed the canary after {soaked:#}"
        );
        for other in ["n2", "n4", "n5"] {
            let (before, after) = (of(wave)?.done, of(other)?.assigned);
            ensure!(before <= after, "{other} went before {wave} was done");
        }
    }
    Ok(())
}
