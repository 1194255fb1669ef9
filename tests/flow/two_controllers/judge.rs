//! What the API server's audit log says of a run.

use anyhow::{Result, ensure};
use api::machineconfiguration::annotation;
use lab::audit::{self, Event, nodes};

use crate::env::{ACCOUNT, BUDGET};

/// Whether the laws held, by the requests to the API server.
pub(crate) fn judge(events: &[Event], targets: &[String]) -> Result<()> {
    let account = format!(
        "system:serviceaccount:{}:{ACCOUNT}",
        api::machineconfiguration::NAMESPACE
    );
    let refused: Vec<_> = events
        .iter()
        .filter(|event| event.user.username == account)
        .filter(|event| {
            event
                .status
                .as_ref()
                .is_some_and(|status| status.code == 403)
        })
        .map(|event| &event.uri)
        .collect();
    ensure!(
        refused.is_empty(),
        "deploy/controller grants too little: {refused:#?}"
    );

    // What the budget rests on when both decide: no write of one goes over a write of the other.
    let unguarded = events
        .iter()
        .filter(|event| event.user.username == account && event.verb == audit::Verb::Patch)
        .filter(|event| {
            event.concerns("", "nodes")
                || event.concerns("machineconfiguration.openshift.io", "machineconfigpools")
        })
        .filter_map(|event| event.request.as_ref())
        .find(|request| request.pointer("/metadata/resourceVersion").is_none());
    ensure!(
        unguarded.is_none(),
        "a write without the version that was read: {unguarded:?}"
    );

    let histories = nodes::histories(events);
    let is_out = |state: &nodes::NodeSnapshot| {
        let of = |key| state.annotations.get(key);
        let current = of(annotation::CURRENT_CONFIG);
        current.is_some()
            && (current != of(annotation::DESIRED_CONFIG)
                || of(annotation::STATE).map(String::as_str) != Some("Done"))
    };
    let intervals: Vec<_> = histories
        .values()
        .flat_map(|history| nodes::intervals(history, is_out))
        .collect();
    let most = nodes::max_overlap(&intervals);
    ensure!(
        most <= BUDGET,
        "{most} nodes were out at once, of at most {BUDGET}"
    );
    ensure!(
        most == BUDGET,
        "the budget was never used up, so nothing is proven"
    );
    for (node, history) in &histories {
        for (before, after) in history.iter().zip(history.iter().skip(1)) {
            let assigned = |state: &nodes::NodeSnapshot| {
                state.annotations.get(annotation::DESIRED_CONFIG).cloned()
            };
            if assigned(before).is_some() && assigned(before) != assigned(after) {
                let target = assigned(after).unwrap_or_default();
                ensure!(
                    after.user == account,
                    "{} assigned {node} {target}",
                    after.user
                );
                ensure!(
                    targets.contains(&target),
                    "{node} was assigned {target}, which no pool asked for"
                );
            }
        }
    }
    Ok(())
}
