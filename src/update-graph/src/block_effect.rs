//! What blocked edges do: one that matches nothing protects no cluster.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use release::Version;

use crate::blocked_edge::BLOCKED_EDGES;
use crate::problem::{SourceProblem, some};

/// Architectures of releases.
const ARCHITECTURES: [&str; 5] = ["amd64", "arm64", "multi", "ppc64le", "s390x"];

/// What a blocked edge does in a graph that has its target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockEffect {
    Nothing,
    /// It matches no update; without its architecture it would match one from this release.
    Bare(Version),
    Blocks,
}

/// Blocked edges whose target was read and that match no update of any architecture, without those
/// that are listed already: one problem for each that a wrong expression may explain, and one for
/// all others.
///
/// Shape: `blocks` has the best effect of each file over all graphs.
pub fn without_effect(
    blocks: &BTreeMap<String, BlockEffect>,
    listed: &[SourceProblem],
) -> Vec<SourceProblem> {
    let listed = listed.iter().filter(|problem| problem.field == "from");
    let listed: BTreeSet<&str> = listed.map(|problem| problem.object.as_str()).collect();
    let (mut problems, mut others) = (Vec::new(), Vec::new());
    for (file, effect) in blocks {
        if listed.contains(file.as_str()) {
            continue;
        }
        match effect {
            BlockEffect::Blocks => {}
            BlockEffect::Nothing => others.push(file.clone()),
            BlockEffect::Bare(version) => {
                let hint = bare_hint(&version.to_string());
                let reason = format!("there is no update that it matches{hint}");
                problems.push(SourceProblem::new(file.as_str(), "from", reason));
            }
        }
    }
    if !others.is_empty() {
        let some = some(&others);
        let reason = format!("there is no update that it matches; without effect: {some}");
        problems.push(SourceProblem::new(BLOCKED_EDGES, "from", reason));
    }
    problems
}

/// Which of some versions an expression matches.
pub(crate) enum Match<'a> {
    /// At least one, with its architecture.
    Whole,
    /// At least this one, if it had no architecture.
    Bare(&'a str),
    Nothing,
}

impl<'a> Match<'a> {
    pub(crate) fn of(from: &Regex, names: &'a [String]) -> Self {
        let is_whole = |name: &String| {
            let mut all = ARCHITECTURES.iter();
            all.any(|architecture| from.is_match(&format!("{name}+{architecture}")))
        };
        if names.iter().any(is_whole) {
            return Self::Whole;
        }
        let bare = names.iter().find(|name| from.is_match(name));
        bare.map_or(Self::Nothing, |name| Self::Bare(name))
    }
}

/// Why an expression that seems to match does not.
pub(crate) fn bare_hint(name: &str) -> String {
    format!(", as the architecture is a part of the version: {name}+amd64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_blocks_nothing_is_listed_once() {
        let version: Version = "4.18.0-ec.1".parse().unwrap();
        let blocks = [
            ("a.yaml", BlockEffect::Blocks),
            ("b.yaml", BlockEffect::Nothing),
            ("c.yaml", BlockEffect::Bare(version)),
            ("d.yaml", BlockEffect::Nothing),
            ("e.yaml", BlockEffect::Nothing),
        ];
        let blocks = blocks
            .map(|(file, effect)| (file.to_owned(), effect))
            .into();
        let listed = [SourceProblem::new("d.yaml", "from", "")];
        let problems = without_effect(&blocks, &listed);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "c.yaml: field from: there is no update that it matches, as the architecture is a part of the version: 4.18.0-ec.1+amd64",
                "blocked-edges/: field from: there is no update that it matches; without effect: b.yaml, e.yaml",
            ]
        );
    }
}
