//! The one node of a pool that fetches and rehearses a configuration which is no target of the
//! pool: a preflight asks what its nodes would make of it.

use crate::node::NodeView;
use crate::view::PoolView;

/// The node of the pool that rehearses: one that is at rest in the pool's configuration, and so has
/// nothing else to fetch, and is not on hold. The one that does it already goes on; else the first
/// of `members`.
///
/// A pool whose nodes do not fetch before their turn rehearses nothing.
pub fn rehearser<'a>(pool: &PoolView, members: &[&'a NodeView]) -> Option<&'a str> {
    let rehearsal = pool.rehearsal.as_ref()?;
    let target = pool.target.as_ref()?;
    if pool.is_deleted || !pool.prefetches {
        return None;
    }
    let is_resting = |node: &&&NodeView| {
        let is_free = node.is_ready() && node.hold.is_none();
        is_free && node.status.is_done() && node.status.is_assigned_to(target)
    };
    let has_begun = |node: &&&NodeView| {
        let next = node.status.next_target();
        next.is_some_and(|next| next.config == rehearsal.config)
    };
    let mut resting = members.iter().filter(is_resting);
    let mut begun = members.iter().filter(is_resting).filter(has_begun);
    let node = begun.next().or_else(|| resting.next())?;
    Some(&node.name)
}

#[cfg(test)]
mod tests {
    use api::machineconfiguration::NodeHold;
    use serde_json::json;

    use super::*;
    use crate::fixture::{NEW, named_target, node, parse_pool, pool_object};
    use crate::node::Unready;
    use crate::write::{ClusterFacts, NodeWrite};

    const CONFIG: &str = "preflight-worker-1";

    fn pool(annotations: &serde_json::Value) -> PoolView {
        let mut object = pool_object("worker", json!({}));
        object["metadata"]["annotations"] = annotations.clone();
        parse_pool(object).1
    }

    fn rehearsing() -> PoolView {
        pool(&json!({ "slipway.dev/rehearse": CONFIG }))
    }

    #[test]
    fn the_first_node_at_rest_rehearses_and_goes_on() {
        let named =
            |node: NodeView| node.reporting(|status| status.next = Some(named_target(CONFIG)));
        let resting = |name: &str| node(name).done(NEW);
        let old = node("a");
        let working = node("b").working(NEW);
        let unready = resting("c").unready(Unready::Unschedulable);
        let (d, e) = (resting("d"), resting("e"));
        let e_resting = e.clone();
        let pool = rehearsing();
        assert_eq!(
            rehearser(&pool, &[&old, &working, &unready, &d, &e]),
            Some("d")
        );
        assert_eq!(rehearser(&pool, &[&d, &named(e.clone())]), Some("e"));
        // It is at rest no more.
        let gone = named(e.unready(Unready::Unschedulable));
        assert_eq!(rehearser(&pool, &[&d, &gone]), Some("d"));
        let held = NodeView {
            hold: Some(NodeHold(String::new())),
            ..d.clone()
        };
        assert_eq!(rehearser(&pool, &[&held, &e_resting]), Some("e"));
        assert_eq!(rehearser(&pool, &[&held]), None);
        assert_eq!(rehearser(&pool, &[&old, &working]), None);
        for none in [
            json!({}),
            json!({ "slipway.dev/rehearse": "" }),
            json!({ "slipway.dev/rehearse": CONFIG, "slipway.dev/prefetch": "false" }),
        ] {
            assert_eq!(rehearser(&super::tests::pool(&none), &[&d]), None, "{none}");
        }
    }

    #[test]
    fn only_that_node_is_named_the_configuration_and_only_while_it_is_asked_for() {
        let mut pool = rehearsing();
        let resting = node("d").done(NEW);
        let next = |pool: &PoolView, node: &NodeView| {
            let write = NodeWrite::of(node, pool, false, ClusterFacts::default())?;
            write.annotations.get("slipway.dev/next-config").cloned()
        };
        assert_eq!(next(&pool, &resting), None);
        if let Some(rehearsal) = &mut pool.rehearsal {
            rehearsal.node = Some("d".to_owned());
        }
        assert_eq!(next(&pool, &resting), Some(Some(CONFIG.to_owned())));
        assert_eq!(next(&pool, &node("e").done(NEW)), None);
        let named = resting.reporting(|status| status.next = Some(named_target(CONFIG)));
        assert_eq!(next(&pool, &named), None);
        pool.rehearsal = None;
        assert_eq!(next(&pool, &named), Some(None));
        // A target that is waited for comes first.
        let mut pool = rehearsing();
        if let Some(rehearsal) = &mut pool.rehearsal {
            rehearsal.node = Some("f".to_owned());
        }
        assert_eq!(next(&pool, &node("f")), Some(Some(NEW.to_owned())));
    }
}
