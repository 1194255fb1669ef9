//! The shortest update path between two releases.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use release::Version;
use release::update_graph::{UpdateGraph, UpdateRisk};

/// One update of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The release that it leads to.
    pub to: Version,
    /// Risks that may apply to it; none for a recommended one.
    pub risks: Vec<UpdateRisk>,
}

/// Updates out of each release, the newest target first: recommended ones, and conditional ones
/// with their risks.
pub(crate) type Updates<'a> = BTreeMap<&'a Version, BTreeMap<&'a Version, &'a [UpdateRisk]>>;

/// All updates of a graph by the release that they start from.
pub(crate) fn updates(graph: &UpdateGraph) -> Updates<'_> {
    let mut updates: Updates<'_> = BTreeMap::new();
    for group in &graph.conditional {
        for edge in &group.edges {
            updates
                .entry(&edge.from)
                .or_default()
                .insert(&edge.to, &group.risks);
        }
    }
    for edge in &graph.edges {
        updates.entry(&edge.from).or_default().insert(&edge.to, &[]);
    }
    updates
}

/// The path with the fewest updates, by recommended ones alone if there is such a path, else with
/// conditional ones; of equal ones that with the newer releases. Nothing where there is none.
pub fn shortest(graph: &UpdateGraph, from: &Version, to: &Version) -> Option<Vec<Hop>> {
    let updates = updates(graph);
    search(&updates, from, to, false).or_else(|| search(&updates, from, to, true))
}

fn search(
    updates: &Updates<'_>,
    from: &Version,
    to: &Version,
    with_risks: bool,
) -> Option<Vec<Hop>> {
    let mut before: BTreeMap<&Version, (&Version, &[UpdateRisk])> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(version) = next.pop_front() {
        if version == to {
            break;
        }
        for (target, risks) in updates.get(version).into_iter().flatten().rev() {
            let is_allowed = with_risks || risks.is_empty();
            if is_allowed && *target != from && !before.contains_key(target) {
                before.insert(target, (version, risks));
                next.push_back(target);
            }
        }
    }
    let mut hops = Vec::new();
    let mut version = to;
    while version != from {
        let (previous, risks) = before.get(version)?;
        hops.push(Hop {
            to: version.clone(),
            risks: risks.to_vec(),
        });
        version = previous;
    }
    hops.reverse();
    Some(hops)
}

/// Releases that updates lead to from this one; itself is among them.
pub fn reachable<'a>(graph: &'a UpdateGraph, from: &'a Version) -> BTreeSet<&'a Version> {
    let updates = updates(graph);
    let mut seen = BTreeSet::from([from]);
    let mut next = vec![from];
    while let Some(version) = next.pop() {
        let targets = updates
            .get(version)
            .into_iter()
            .flatten()
            .map(|(target, _)| *target);
        next.extend(targets.filter(|target| seen.insert(target)));
    }
    seen
}

#[cfg(test)]
pub(crate) mod tests {
    use release::update_graph::{ConditionalEdges, RiskRule, UpdateEdge, UpdateNode};

    use super::*;

    fn edge(pair: &str) -> UpdateEdge {
        let (from, to) = pair.split_once(' ').unwrap();
        UpdateEdge {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
        }
    }

    /// A graph of pairs `from to`; the conditional ones have one risk.
    pub(crate) fn graph(plain: &[&str], conditional: &[&str]) -> UpdateGraph {
        let group = ConditionalEdges {
            edges: conditional.iter().map(|pair| edge(pair)).collect(),
            risks: vec![UpdateRisk {
                url: "https://example.com/risk".to_owned(),
                name: "ToyRisk".to_owned(),
                message: "Toys <may> break.".to_owned(),
                rules: vec![RiskRule::Always],
            }],
        };
        let all = plain
            .iter()
            .chain(conditional)
            .flat_map(|pair| pair.split(' '));
        let node = |text: &str| {
            let metadata = [("url".to_owned(), format!("https://example.com/{text}"))];
            let node = UpdateNode {
                payload: format!("registry.example/release:{text}"),
                metadata: metadata.into(),
            };
            (text.parse().unwrap(), node)
        };
        UpdateGraph {
            nodes: all.map(node).collect(),
            edges: plain.iter().map(|pair| edge(pair)).collect(),
            conditional: Some(group)
                .filter(|group| !group.edges.is_empty())
                .into_iter()
                .collect(),
        }
    }

    fn path(graph: &UpdateGraph, from: &str, to: &str) -> Option<Vec<String>> {
        let hops = shortest(graph, &from.parse().unwrap(), &to.parse().unwrap())?;
        let text = |hop: &Hop| format!("{}{}", hop.to, "!".repeat(hop.risks.len()));
        Some(hops.iter().map(text).collect())
    }

    #[test]
    fn fewest_updates_without_risks_come_first() {
        let graph = graph(
            &[
                "1.0.0 1.0.1",
                "1.0.1 1.0.2",
                "1.0.1 1.0.3",
                "1.0.2 1.0.4",
                "1.0.3 1.0.4",
            ],
            &["1.0.0 1.0.4", "1.0.4 1.0.5"],
        );
        let expected = ["1.0.1", "1.0.3", "1.0.4"].map(str::to_owned);
        assert_eq!(path(&graph, "1.0.0", "1.0.4").unwrap(), expected);
        assert_eq!(
            path(&graph, "1.0.0", "1.0.5").unwrap(),
            ["1.0.4!", "1.0.5!"]
        );
        assert_eq!(path(&graph, "1.0.5", "1.0.0"), None);
        assert_eq!(
            path(&graph, "1.0.0", "1.0.0").unwrap(),
            Vec::<String>::new()
        );
        let from = "1.0.3".parse().unwrap();
        assert_eq!(reachable(&graph, &from).len(), 3);
    }
}
