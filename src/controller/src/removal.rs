//! The removal of rendered configurations that nothing uses.

use std::collections::BTreeMap;

use api::machineconfiguration::MachineConfig;
use chassis::report::Chain;
use cluster::objects::Precondition;
use futures::StreamExt as _;
use futures::stream;
use operator::Next;

use crate::configs::ConfigMeta;
use crate::context::Context;
use crate::decide::unused::{Retention, unused};
use crate::events::{PoolEvent, record};
use crate::store::Snapshot;

/// Removals that are under way at once: the first pass over an old cluster removes hundreds, and
/// nothing waits for them.
const REMOVALS: usize = 4;

/// Removes the rendered configurations that nothing uses. One that is refused stays until the next
/// pass.
pub(crate) async fn remove(context: &Context, retention: Retention, snapshot: &Snapshot) -> Next {
    let mut each: Vec<(String, ConfigMeta)> = Vec::new();
    for (pool, configs) in unused(snapshot, retention, context.now()) {
        each.extend(configs.into_iter().map(|it| (pool.to_owned(), it.clone())));
    }
    let removals = each.into_iter().map(async |(pool, config)| {
        let precondition = Precondition {
            uid: Some(&config.uid),
            resource_version: Some(&config.resource_version),
        };
        let configs = context.requests.objects::<MachineConfig>();
        let result = configs.delete(&config.name, precondition).await;
        (pool, config.name, result)
    });
    let mut removals = stream::iter(removals).buffered(REMOVALS);
    let mut removed = BTreeMap::<String, Vec<String>>::new();
    let mut next = Next::Settled;
    while let Some((pool, config, result)) = removals.next().await {
        match result {
            Ok(()) => removed.entry(pool).or_default().push(config),
            Err(error) => {
                tracing::warn!(pool, config, error = %Chain(&error), "cannot remove an unused configuration");
                if error.is_transient() {
                    next = Next::Retry;
                }
            }
        }
    }
    for (pool, configs) in removed {
        if let Some(pool) = snapshot.pools.get(&pool) {
            let event = PoolEvent::Removed { configs };
            record(&context.recorder, pool, &event, context.now());
        }
    }
    next
}
