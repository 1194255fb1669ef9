//! One order from many lists, each of which wants its own kept.

use super::Live;

/// Joins lists of actions, each action once.
///
/// `daemon-reload` comes first: what follows must see the units as they are now. Else an action
/// comes after those that stand before it in any list, and what no list decides stays in the order
/// of first appearance. Lists that contradict each other are settled by it too.
pub(super) fn merge(lists: &[Vec<Live>]) -> Vec<Live> {
    let mut waiting: Vec<Live> = Vec::new();
    for action in lists.iter().flatten() {
        if !waiting.contains(action) {
            waiting.push(action.clone());
        }
    }
    waiting.sort_by_key(|action| *action != Live::DaemonReload);
    let mut ordered = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let free = waiting.iter().position(|action| {
            *action == Live::DaemonReload
                || !waiting
                    .iter()
                    .any(|other| comes_before(lists, other, action))
        });
        ordered.push(waiting.remove(free.unwrap_or_default()));
    }
    ordered
}

/// Whether some list wants `one` before `other`.
fn comes_before(lists: &[Vec<Live>], one: &Live, other: &Live) -> bool {
    one != other
        && lists.iter().any(|list| {
            let place = |action: &Live| list.iter().position(|listed| listed == action);
            matches!((place(one), place(other)), (Some(one), Some(other)) if one < other)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restart(names: &[&str]) -> Vec<Live> {
        names
            .iter()
            .map(|name| Live::Restart((*name).to_owned()))
            .collect()
    }

    #[test]
    fn each_list_keeps_its_order_and_each_action_comes_once() {
        for (lists, merged) in [
            (vec![vec!["a", "b"], vec!["b"]], vec!["a", "b"]),
            (vec![vec!["b"], vec!["a", "b"]], vec!["a", "b"]),
            (vec![vec!["a", "b"], vec!["a"]], vec!["a", "b"]),
            (
                vec![vec!["c"], vec!["a", "b"], vec!["b", "c"]],
                vec!["a", "b", "c"],
            ),
            (
                vec![vec!["a"], vec![], vec!["b"], vec!["a"]],
                vec!["a", "b"],
            ),
            // A contradiction: the first one named goes first.
            (vec![vec!["a", "b"], vec!["b", "a"]], vec!["a", "b"]),
            (vec![], vec![]),
        ] {
            let lists: Vec<_> = lists.iter().map(|list| restart(list)).collect();
            assert_eq!(merge(&lists), restart(&merged));
        }
    }

    #[test]
    fn units_are_read_anew_before_anything_is_restarted() {
        let lists = vec![
            restart(&["a"]),
            vec![Live::Reload("b".to_owned()), Live::DaemonReload],
        ];
        let merged = merge(&lists);
        assert_eq!(merged[0], Live::DaemonReload);
        assert_eq!(merged.len(), 3);
    }
}
