//! What the nodes of a pool had before its target, image and all.

use std::collections::BTreeMap;

use api::machineconfiguration::Target;

use crate::node::NodeView;
use crate::view::PoolView;

/// What all nodes of the pool had last, as far as its nodes that still run it say: most of them,
/// and of as many the first by its text. A pool does not say which image that was.
///
/// None where no node runs it and the pool has an image: nothing says which one worked.
pub fn previous(pool: &PoolView, members: &[&NodeView]) -> Option<Target> {
    let previous = pool.previous.as_ref()?;
    let mut counts: BTreeMap<Target, usize> = BTreeMap::new();
    for node in members {
        let current = node.status.current();
        let is_old = |it: &Target| it.config == previous.config && pool.target.as_ref() != Some(it);
        if let Some(current) = current.filter(is_old) {
            *counts.entry(current).or_default() += 1;
        }
    }
    let most = counts.values().copied().max();
    let mut of_most = counts.iter().filter(|(_, count)| Some(**count) == most);
    let found = of_most.next().map(|(target, _)| target.clone());
    let has_image = pool.image.is_some();
    found.or_else(|| Some(previous.clone()).filter(|_| !has_image))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{NEW, OLD, node, pool, target};
    use crate::image::{PoolImage, PoolImageState};

    #[test]
    fn the_image_before_is_the_one_that_most_nodes_still_run() {
        let layered = |image: &str| format!("{OLD} {image}");
        let mut view = pool("worker", json!({}));
        view.previous = Some(target(OLD));
        let before = |view: &PoolView, nodes: &[NodeView]| {
            let members: Vec<&NodeView> = nodes.iter().collect();
            previous(view, &members).map(|it| it.to_string())
        };
        let run = |name: &str, what: &str| node(name).done(what);
        // Without image mode it is the configuration, whatever nodes run.
        assert_eq!(before(&view, &[]), Some(OLD.to_owned()));
        assert_eq!(before(&view, &[run("a", OLD)]), Some(OLD.to_owned()));
        // Leaving image mode.
        let two = [
            run("a", &layered("x")),
            run("b", NEW),
            run("c", &layered("x")),
        ];
        assert_eq!(before(&view, &two), Some(layered("x")));
        view.follow_image(PoolImage {
            config: "worker".to_owned(),
            state: PoolImageState::Built {
                build: "worker-1".to_owned(),
                image: "y".to_owned(),
            },
        });
        assert_eq!(before(&view, &two), Some(layered("x")));
        let three = [&two[..], &[run("d", OLD), run("e", OLD), run("f", OLD)]].concat();
        assert_eq!(before(&view, &three), Some(OLD.to_owned()));
        let even = [run("a", &layered("z")), run("b", &layered("x"))];
        assert_eq!(before(&view, &even), Some(layered("x")));
        // No node runs it: nothing says which image it was.
        assert_eq!(before(&view, &[run("a", NEW)]), None);
        // Another image of one configuration.
        view.previous = Some(target(NEW));
        let nodes = [run("a", &format!("{NEW} y")), run("b", &format!("{NEW} x"))];
        assert_eq!(before(&view, &nodes), Some(format!("{NEW} x")));
        view.previous = None;
        assert_eq!(before(&view, &nodes), None);
    }
}
