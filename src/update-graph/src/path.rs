//! The shortest update path between two releases.

use std::collections::{BTreeMap, BTreeSet};

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

/// Updates into each release, by the release that they start from.
fn sources<'a>(updates: &Updates<'a>) -> Updates<'a> {
    let mut sources: Updates<'a> = BTreeMap::new();
    for (from, targets) in updates {
        for (to, risks) in targets {
            sources.entry(to).or_default().insert(from, risks);
        }
    }
    sources
}

/// The path with the fewest updates, by recommended ones alone if there is such a path, else with
/// conditional ones; of equal ones that with the fewest risks, then that with the newer releases.
/// Nothing where there is none.
pub fn shortest(graph: &UpdateGraph, from: &Version, to: &Version) -> Option<Vec<Hop>> {
    shortest_of(&updates(graph), from, to)
}

/// The same, of updates that are collected already.
pub(crate) fn shortest_of(updates: &Updates<'_>, from: &Version, to: &Version) -> Option<Vec<Hop>> {
    let sources = sources(updates);
    let search = |with_risks| {
        let costs = costs(&sources, to, with_risks);
        walk(updates, &costs, from, with_risks)
    };
    search(false).or_else(|| search(true))
}

/// Of each release that leads to `to`: how many updates it takes at least, and how many risks such
/// a path has at least.
fn costs<'a>(
    sources: &Updates<'a>,
    to: &'a Version,
    with_risks: bool,
) -> BTreeMap<&'a Version, (usize, usize)> {
    let mut costs = BTreeMap::from([(to, (0, 0))]);
    let mut level = vec![(to, 0)];
    let mut hops = 0;
    while !level.is_empty() {
        hops += 1;
        let mut next: BTreeMap<&Version, usize> = BTreeMap::new();
        for (version, before) in level {
            for (source, risks) in sources.get(version).into_iter().flatten() {
                if costs.contains_key(source) || !(with_risks || risks.is_empty()) {
                    continue;
                }
                let risks = before + risks.len();
                let least = next.entry(source).or_insert(risks);
                *least = risks.min(*least);
            }
        }
        costs.extend(
            next.iter()
                .map(|(version, risks)| (*version, (hops, *risks))),
        );
        level = next.into_iter().collect();
    }
    costs
}

/// The path of these costs that takes the newest release at each step.
fn walk(
    updates: &Updates<'_>,
    costs: &BTreeMap<&Version, (usize, usize)>,
    from: &Version,
    with_risks: bool,
) -> Option<Vec<Hop>> {
    let (mut left, mut risks_left) = *costs.get(from)?;
    let mut hops = Vec::with_capacity(left);
    let mut version = from;
    while left > 0 {
        left -= 1;
        let mut targets = updates.get(version)?.iter().rev();
        let (target, risks, after) = targets.find_map(|(target, risks)| {
            let after = risks_left.checked_sub(risks.len())?;
            let is_allowed = with_risks || risks.is_empty();
            let leads = is_allowed && costs.get(target) == Some(&(left, after));
            leads.then_some((*target, *risks, after))
        })?;
        hops.push(Hop {
            to: target.clone(),
            risks: risks.to_vec(),
        });
        (version, risks_left) = (target, after);
    }
    Some(hops)
}

/// Releases that updates lead to from this one; itself is among them.
pub(crate) fn reachable<'a>(updates: &Updates<'a>, from: &'a Version) -> BTreeSet<&'a Version> {
    let mut seen = BTreeSet::from([from]);
    let mut next = vec![from];
    while let Some(version) = next.pop() {
        let targets = updates.get(version).into_iter().flatten();
        let targets = targets.map(|(target, _)| *target);
        next.extend(targets.filter(|target| seen.insert(target)));
    }
    seen
}

/// Releases from which updates lead to this one; itself is among them.
pub(crate) fn leading_to<'a>(updates: &Updates<'a>, to: &'a Version) -> BTreeSet<&'a Version> {
    reachable(&sources(updates), to)
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
        let (updates, middle) = (updates(&graph), "1.0.3".parse().unwrap());
        let named = |versions: BTreeSet<&Version>| -> Vec<String> {
            versions.iter().map(ToString::to_string).collect()
        };
        let (after, before) = (reachable(&updates, &middle), leading_to(&updates, &middle));
        assert_eq!(named(after), ["1.0.3", "1.0.4", "1.0.5"]);
        assert_eq!(named(before), ["1.0.0", "1.0.1", "1.0.3"]);
    }

    #[test]
    fn of_equally_short_paths_that_with_fewer_risks_counts() {
        let plain = ["1.0.0 1.0.2", "1.0.0 1.0.3"];
        let conditional = ["1.0.0 1.0.4", "1.0.4 1.1.0", "1.0.2 1.1.0", "1.0.3 1.1.0"];
        // The newest first hop has a risk; of the other two, equal in risks, the newer counts.
        let expected = ["1.0.3", "1.1.0!"].map(str::to_owned);
        let graph = graph(&plain, &conditional);
        assert_eq!(path(&graph, "1.0.0", "1.1.0").unwrap(), expected);
    }
}
