//! What a graph offers to a cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::{RiskRule, UpdateEdge, UpdateGraph, UpdateNode, UpdateRisk};
use crate::version::Version;

/// A release that a cluster may be updated to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub version: Version,
    /// What the graph says of it.
    pub node: UpdateNode,
    /// What may speak against it; empty for none. Each has at least one rule, and no unknown one.
    pub risks: Vec<UpdateRisk>,
}

/// What a graph offers to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offers {
    pub current: UpdateNode,
    /// Releases, newest first.
    pub offers: Vec<Offer>,
    /// Releases that are not offered, and why.
    pub dropped: Vec<(Version, String)>,
}

impl UpdateGraph {
    /// What it offers to a cluster that runs `current`; none where it does not know that release.
    ///
    /// A release with an unconditional update and a conditional one counts as conditional. One in
    /// several groups of risks is not offered, and neither is one with a risk that no rule of this
    /// program's decides. Source: `docs/reference/update-service.md`, "Client".
    pub fn offers(&self, current: &Version) -> Option<Offers> {
        let mut nodes = self.nodes.iter();
        let (current, node) = nodes.find(|(version, _)| version.is_release(current))?;
        let from_here = |edge: &&UpdateEdge| edge.from == *current;
        let targets = self.edges.iter().filter(from_here);
        let mut plain: BTreeSet<&Version> = targets.map(|edge| &edge.to).collect();
        let mut groups: BTreeMap<&Version, Vec<&[UpdateRisk]>> = BTreeMap::new();
        for group in &self.conditional {
            for edge in group.edges.iter().filter(from_here) {
                groups.entry(&edge.to).or_default().push(&group.risks);
                plain.remove(&edge.to);
            }
        }
        let (mut offers, mut dropped) = (BTreeMap::new(), Vec::new());
        for target in plain {
            offers.insert(target, Vec::new());
        }
        for (target, groups) in groups {
            let [risks] = groups.as_slice() else {
                let why = format!("it is in {} groups of conditional updates", groups.len());
                dropped.push((target.clone(), why));
                continue;
            };
            let judged: Vec<UpdateRisk> = risks.iter().map(known_rules).collect();
            match judged.iter().find(|risk| risk.rules.is_empty()) {
                Some(risk) => {
                    let why = format!("risk {} has no rule that is known", risk.name);
                    dropped.push((target.clone(), why));
                }
                None => {
                    offers.insert(target, judged);
                }
            }
        }
        let offers = offers.into_iter().rev().filter_map(|(version, risks)| {
            Some(Offer {
                version: version.clone(),
                node: self.nodes.get(version)?.clone(),
                risks,
            })
        });
        Some(Offers {
            current: node.clone(),
            offers: offers.collect(),
            dropped,
        })
    }
}

/// A risk without its unsupported rules.
fn known_rules(risk: &UpdateRisk) -> UpdateRisk {
    let is_known = |rule: &&RiskRule| !matches!(rule, RiskRule::Unknown { .. });
    UpdateRisk {
        rules: risk.rules.iter().filter(is_known).cloned().collect(),
        ..risk.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update_graph::ConditionalEdges;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn edges(pairs: &[(&str, &str)]) -> BTreeSet<UpdateEdge> {
        let edge = |(from, to): &(&str, &str)| UpdateEdge {
            from: version(from),
            to: version(to),
        };
        pairs.iter().map(edge).collect()
    }

    fn risk(name: &str, rules: Vec<RiskRule>) -> UpdateRisk {
        UpdateRisk {
            url: "https://e".to_owned(),
            name: name.to_owned(),
            message: "m".to_owned(),
            rules,
        }
    }

    fn group(pairs: &[(&str, &str)], risks: Vec<UpdateRisk>) -> ConditionalEdges {
        ConditionalEdges {
            edges: edges(pairs),
            risks,
        }
    }

    #[test]
    fn conditional_updates_win_and_doubtful_ones_are_dropped() {
        let unknown = || RiskRule::Unknown {
            r#type: "Moon".to_owned(),
            why: "w".to_owned(),
        };
        let nodes = ["4.1.0", "4.1.1", "4.1.2", "4.1.3", "4.1.10", "4.2.0"];
        let graph = UpdateGraph {
            nodes: nodes
                .map(|text| (version(text), UpdateNode::default()))
                .into(),
            edges: edges(&[
                ("4.1.0", "4.1.1"),
                ("4.1.0", "4.1.2"),
                ("4.1.0", "4.1.10"),
                ("4.1.1", "4.2.0"),
            ]),
            conditional: vec![
                group(
                    &[("4.1.0", "4.1.2"), ("4.1.1", "4.1.2")],
                    vec![risk("A", vec![unknown(), RiskRule::Always])],
                ),
                group(&[("4.1.0", "4.1.3")], vec![risk("B", vec![unknown()])]),
                group(
                    &[("4.1.0", "4.2.0")],
                    vec![risk("C", vec![RiskRule::Always])],
                ),
                group(
                    &[("4.1.0", "4.2.0")],
                    vec![risk("D", vec![RiskRule::Always])],
                ),
            ],
        };
        let found = graph.offers(&version("4.1.0+amd64")).unwrap();
        let listed: Vec<String> = found
            .offers
            .iter()
            .map(|offer| {
                let names: Vec<&str> = offer.risks.iter().map(|risk| risk.name.as_str()).collect();
                format!("{} {names:?}", offer.version)
            })
            .collect();
        assert_eq!(listed, ["4.1.10 []", "4.1.2 [\"A\"]", "4.1.1 []"]);
        assert_eq!(found.offers[1].risks[0].rules, [RiskRule::Always]);
        assert_eq!(
            found.dropped,
            [
                (
                    version("4.1.3"),
                    "risk B has no rule that is known".to_owned()
                ),
                (
                    version("4.2.0"),
                    "it is in 2 groups of conditional updates".to_owned()
                ),
            ]
        );
        assert_eq!(graph.offers(&version("4.0.0")), None);
    }
}
