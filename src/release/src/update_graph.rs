//! The update graph: which releases there are, and from which one to which other one a cluster may
//! be updated, always or unless a risk applies to it.
//!
//! - `offers`: what a graph offers to a cluster

mod offers;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};

pub use self::offers::{Offer, Offers};
use crate::version::{self, Version};

/// The update service of clusters that name none.
pub const DEFAULT_SERVICE: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";

/// The version of the form that is read and printed.
const FORM: u64 = 1;

/// Releases and the updates between them.
///
/// Shape: JSON,
/// ```json
/// {"version": 1,
///  "nodes": [{"version": "4.18.3", "payload": "repo@sha256:…", "metadata": {"…": "…"}}],
///  "edges": [[0, 1]],
///  "conditionalEdges": [{"edges": [{"from": "4.17.9", "to": "4.18.3"}],
///    "risks": [{"url": "…", "name": "…", "message": "…",
///               "matchingRules": [{"type": "PromQL", "promql": {"promql": "…"}}]}]}]}
/// ```
/// An absent or null list is empty; unknown keys are ignored. Inside, edges name their ends by
/// version. Source: `docs/reference/update-service.md`, "Graph".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateGraph {
    /// The releases, by version. In an unfiltered graph a version has its architecture
    /// (`4.16.15+amd64`).
    pub nodes: BTreeMap<Version, UpdateNode>,
    /// Updates, from and to.
    pub edges: BTreeSet<UpdateEdge>,
    /// Updates that risks may speak against, in groups of equal risks.
    pub conditional: Vec<ConditionalEdges>,
}

/// A release in the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UpdateNode {
    /// Pull spec of its image; empty for a release of which only the version is there.
    pub payload: String,
    /// Its other metadata, by key.
    pub metadata: BTreeMap<String, String>,
}

/// An update from one release to another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateEdge {
    pub from: Version,
    /// The release that it is updated to.
    pub to: Version,
}

/// Updates with the same risks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalEdges {
    pub edges: BTreeSet<UpdateEdge>,
    /// What may speak against them, in the order of the document.
    pub risks: Vec<UpdateRisk>,
}

/// What may speak against an update.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateRisk {
    /// Page that describes it.
    pub url: String,
    pub name: String,
    /// What it is, for people.
    pub message: String,
    /// Which clusters it applies to: the first rule that can be evaluated decides.
    pub rules: Vec<RiskRule>,
}

/// Which clusters a risk applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RiskRule {
    Always,
    /// Those whose own metrics respond to this query with one sample of 1.
    PromQl(String),
    /// A rule that this program does not know, or that contradicts itself. Clients pass over it.
    Unknown {
        r#type: String,
        /// Why it is passed over.
        why: String,
    },
}

/// Why a document is no update graph.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not JSON, or a field has another type.
    #[error("field {field}")]
    Syntax {
        /// Path of the field; `.` for the whole.
        field: String,
        #[source]
        source: serde_json::Error,
    },
    /// It is of another form.
    #[error("field version: {0} is not {FORM}")]
    Form(u64),
    #[error("field {field}")]
    Version {
        /// Path of the field.
        field: String,
        #[source]
        source: version::Error,
    },
    /// A release is there twice.
    #[error("field {field}: {version} is there twice")]
    Twice {
        /// Path of the field.
        field: String,
        version: Version,
    },
    /// An edge ends at no node.
    #[error("field {field}: {end} is no node")]
    NoNode {
        /// Path of the field.
        field: String,
        /// The number that it names.
        end: String,
    },
    /// A conditional update begins or ends at a release that the document does not have.
    #[error("no node for conditional update {version}: the answer lacks this release ({field})")]
    NoRelease {
        version: Version,
        /// Path of the field.
        field: String,
    },
    /// An edge leads from a release to itself.
    #[error("field {field}: {version} leads to itself")]
    Loop {
        /// Path of the field.
        field: String,
        version: Version,
    },
    /// Conditional edges have no risk.
    #[error("field {field} is empty")]
    NoRisk {
        /// Path of the field.
        field: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(default = "form")]
    version: u64,
    #[serde(default, deserialize_with = "null_is_default")]
    nodes: Vec<WireNode>,
    #[serde(default, deserialize_with = "null_is_default")]
    edges: Vec<(u64, u64)>,
    #[serde(
        rename = "conditionalEdges",
        default,
        deserialize_with = "null_is_default"
    )]
    conditional: Vec<WireGroup>,
}

#[derive(Serialize, Deserialize)]
struct WireNode {
    version: String,
    #[serde(default)]
    payload: String,
    #[serde(default, deserialize_with = "null_is_default")]
    metadata: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct WireGroup {
    edges: Vec<WireEdge>,
    risks: Vec<WireRisk>,
}

#[derive(Serialize, Deserialize)]
struct WireEdge {
    from: String,
    to: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRisk {
    url: String,
    name: String,
    message: String,
    #[serde(default, deserialize_with = "null_is_default")]
    matching_rules: Vec<WireRule>,
}

#[derive(Serialize, Deserialize)]
struct WireRule {
    r#type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    promql: Option<WireQuery>,
}

#[derive(Serialize, Deserialize)]
struct WireQuery {
    promql: String,
}

const fn form() -> u64 {
    FORM
}

fn null_is_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl UpdateGraph {
    /// Reads a graph. Cycles are not looked for.
    ///
    /// # Errors
    /// [`Error`], with the field that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Self::read(bytes, None)
    }

    /// Reads what a graph has for a cluster that runs `current`: all releases, and the updates
    /// from that one. What is wrong with other updates is no concern of that cluster.
    ///
    /// # Errors
    /// [`Error`], with the field that is wrong.
    pub fn parse_for(bytes: &[u8], current: &Version) -> Result<Self, Error> {
        Self::read(bytes, Some(current))
    }

    fn read(bytes: &[u8], current: Option<&Version>) -> Result<Self, Error> {
        let counts = |from: Option<&Version>| {
            current.is_none_or(|current| from.is_some_and(|from| from.is_release(current)))
        };
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let wire: Wire =
            serde_path_to_error::deserialize(&mut json).map_err(|error| Error::Syntax {
                field: error.path().to_string(),
                source: error.into_inner(),
            })?;
        json.end().map_err(|source| Error::Syntax {
            field: ".".to_owned(),
            source,
        })?;
        if wire.version != FORM {
            return Err(Error::Form(wire.version));
        }
        let mut versions = Vec::new();
        let mut nodes = BTreeMap::new();
        for (index, node) in wire.nodes.into_iter().enumerate() {
            let field = format!("nodes[{index}].version");
            let version = parse_version(&field, &node.version)?;
            versions.push(version.clone());
            let value = UpdateNode {
                payload: node.payload,
                metadata: node.metadata,
            };
            if nodes.insert(version.clone(), value).is_some() {
                return Err(Error::Twice { field, version });
            }
        }
        let node = |number: u64| versions.get(usize::try_from(number).ok()?);
        let mut edges = BTreeSet::new();
        for (index, (from, to)) in wire.edges.into_iter().enumerate() {
            if !counts(node(from)) {
                continue;
            }
            let end = |number: u64, side: usize| {
                node(number).cloned().ok_or_else(|| Error::NoNode {
                    field: format!("edges[{index}][{side}]"),
                    end: number.to_string(),
                })
            };
            let (from, to) = (end(from, 0)?, end(to, 1)?);
            edges.insert(edge(format!("edges[{index}]"), from, to)?);
        }
        let groups = wire.conditional.into_iter().enumerate();
        let conditional = groups.filter_map(|(index, group)| {
            let path = format!("conditionalEdges[{index}]");
            ConditionalEdges::read(&path, group, &nodes, &counts).transpose()
        });
        Ok(Self {
            conditional: conditional.collect::<Result<_, _>>()?,
            nodes,
            edges,
        })
    }

    /// The document on one line: releases and edges in the order of versions, so that equal graphs
    /// have equal bytes. Edges without a node at both ends are left out.
    pub fn print(&self) -> Vec<u8> {
        let numbers: BTreeMap<&Version, u64> = self.nodes.keys().zip(0..).collect();
        let nodes = self.nodes.iter().map(|(version, node)| WireNode {
            version: version.to_string(),
            payload: node.payload.clone(),
            metadata: node.metadata.clone(),
        });
        let number = |version: &Version| numbers.get(version).copied();
        let edges = self.edges.iter();
        let edges = edges.filter_map(|edge| number(&edge.from).zip(number(&edge.to)));
        let has_ends =
            |edge: &&UpdateEdge| numbers.contains_key(&edge.from) && numbers.contains_key(&edge.to);
        let groups = self.conditional.iter().map(|group| WireGroup {
            edges: group
                .edges
                .iter()
                .filter(has_ends)
                .map(|edge| WireEdge {
                    from: edge.from.to_string(),
                    to: edge.to.to_string(),
                })
                .collect(),
            risks: group.risks.iter().map(WireRisk::of).collect(),
        });
        crate::json::print_line(&Wire {
            version: FORM,
            nodes: nodes.collect(),
            edges: edges.collect(),
            conditional: groups.filter(|group| !group.edges.is_empty()).collect(),
        })
    }
}

impl ConditionalEdges {
    /// Reads a group; none where it has updates, and none of them counts.
    fn read(
        path: &str,
        group: WireGroup,
        nodes: &BTreeMap<Version, UpdateNode>,
        counts: &impl Fn(Option<&Version>) -> bool,
    ) -> Result<Option<Self>, Error> {
        let mut edges = BTreeSet::new();
        let mut is_passed_over = false;
        for (index, wire) in group.edges.into_iter().enumerate() {
            if !counts(wire.from.parse().ok().as_ref()) {
                is_passed_over = true;
                continue;
            }
            let path = format!("{path}.edges[{index}]");
            let end = |side: &str, text: &str| {
                let field = format!("{path}.{side}");
                let version = parse_version(&field, text)?;
                if nodes.contains_key(&version) {
                    return Ok(version);
                }
                Err(Error::NoRelease { version, field })
            };
            let (from, to) = (end("from", &wire.from)?, end("to", &wire.to)?);
            edges.insert(edge(path, from, to)?);
        }
        if is_passed_over && edges.is_empty() {
            return Ok(None);
        }
        if group.risks.is_empty() {
            let field = format!("{path}.risks");
            return Err(Error::NoRisk { field });
        }
        Ok(Some(Self {
            edges,
            risks: group.risks.into_iter().map(UpdateRisk::from).collect(),
        }))
    }
}

fn parse_version(field: &str, text: &str) -> Result<Version, Error> {
    text.parse().map_err(|source| Error::Version {
        field: field.to_owned(),
        source,
    })
}

fn edge(field: String, from: Version, to: Version) -> Result<UpdateEdge, Error> {
    if from == to {
        let version = from;
        return Err(Error::Loop { field, version });
    }
    Ok(UpdateEdge { from, to })
}

impl WireRisk {
    fn of(risk: &UpdateRisk) -> Self {
        Self {
            url: risk.url.clone(),
            name: risk.name.clone(),
            message: risk.message.clone(),
            matching_rules: risk.rules.iter().map(WireRule::of).collect(),
        }
    }
}

impl From<WireRisk> for UpdateRisk {
    fn from(wire: WireRisk) -> Self {
        Self {
            url: wire.url,
            name: wire.name,
            message: wire.message,
            rules: wire
                .matching_rules
                .into_iter()
                .map(RiskRule::from)
                .collect(),
        }
    }
}

const ALWAYS: &str = "Always";
const PROMQL: &str = "PromQL";

impl WireRule {
    fn of(rule: &RiskRule) -> Self {
        let (r#type, promql) = match rule {
            RiskRule::Always => (ALWAYS, None),
            RiskRule::PromQl(query) => (PROMQL, Some(query.clone())),
            RiskRule::Unknown { r#type, .. } => (r#type.as_str(), None),
        };
        Self {
            r#type: r#type.to_owned(),
            promql: promql.map(|promql| WireQuery { promql }),
        }
    }
}

impl From<WireRule> for RiskRule {
    fn from(wire: WireRule) -> Self {
        let query = wire.promql.map(|query| query.promql);
        let why = match (wire.r#type.as_str(), query) {
            (ALWAYS, None) => return Self::Always,
            (PROMQL, Some(query)) if !query.is_empty() => return Self::PromQl(query),
            (ALWAYS, Some(_)) => "promql is set".to_owned(),
            (PROMQL, _) => "promql.promql is empty".to_owned(),
            (r#type, _) => format!("type {type:?} is not known"),
        };
        Self::Unknown {
            r#type: wire.r#type,
            why,
        }
    }
}

#[cfg(test)]
mod tests;
