//! The graph of releases with the graph data applied, of one architecture.
//!
//! Ends of edges are numbers inside: a channel is cut out of it for each of a hundred responses.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher};

use regex::Regex;
use release::update_graph::{ConditionalEdges, UpdateEdge, UpdateGraph, UpdateNode, UpdateRisk};
use release::{ImageDigest, Version};
use sha2::{Digest as _, Sha256};

use crate::KEY_PREFIX;
use crate::block_effect::BlockEffect;
use crate::blocked_edge::BlockedEdge;
use crate::channel_file::first_line;
use crate::graph_data::GraphData;
use crate::problem::SourceProblem;

/// Key of the channels of a release.
const CHANNELS: &str = "release.channels";

/// In `previous.remove`: all.
const ALL: &str = "*";

/// From and to, by number.
type Edge = (u32, u32);

/// A graph with the graph data applied.
#[derive(Clone, Debug, Default)]
pub struct AnnotatedGraph {
    versions: Vec<Version>,
    nodes: Vec<UpdateNode>,
    channels: Vec<BTreeSet<String>>,
    edges: Vec<Edge>,
    groups: Vec<(Vec<UpdateRisk>, Vec<Edge>)>,
    silenced: Vec<(Edge, String)>,
    blocks: BTreeMap<String, BlockEffect>,
}

/// An update that is blocked without a risk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilencedEdge {
    pub edge: UpdateEdge,
    /// The file, or the release, that blocks it.
    pub by: String,
}

/// What is done with the graph while the data is applied.
struct Work<'a> {
    versions: Vec<Version>,
    nodes: Vec<UpdateNode>,
    /// To and from, so that the parents of a release stand together.
    edges: BTreeSet<(u32, u32)>,
    /// By file of a blocked edge, if its target has an image.
    blocks: BTreeMap<String, BlockEffect>,
    problems: &'a mut Vec<SourceProblem>,
}

impl AnnotatedGraph {
    /// Applies the data, in this order: raw metadata and channels; edges that metadata adds; risks
    /// on the edges that there are; edges that metadata and silent blocks remove, whether or not a
    /// risk is on them.
    ///
    /// Source: `docs/reference/update-service.md`, "Build order".
    pub fn new(graph: UpdateGraph, data: &GraphData, problems: &mut Vec<SourceProblem>) -> Self {
        let number: BTreeMap<Version, u32> = graph.nodes.keys().cloned().zip(0..).collect();
        let edges = graph
            .edges
            .iter()
            .filter_map(|edge| Some((*number.get(&edge.to)?, *number.get(&edge.from)?)));
        let edges = edges.collect();
        let (versions, nodes) = graph.nodes.into_iter().unzip();
        let mut work = Work {
            versions,
            nodes,
            edges,
            blocks: BTreeMap::new(),
            problems,
        };
        work.append_raw(data);
        let channels = work.channels(data);
        work.add_edges(&number);
        let risks = work.risks(data);
        let silenced = work.remove_edges(&number, data);
        work.finish(channels, &risks, silenced)
    }

    /// Releases whose image was read.
    pub fn releases(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| !node.payload.is_empty())
            .count()
    }

    /// Releases whose image was read and that are in a channel.
    pub fn releases_in_channels(&self) -> usize {
        let nodes = self.nodes.iter().zip(&self.channels);
        nodes
            .filter(|(node, channels)| !node.payload.is_empty() && !channels.is_empty())
            .count()
    }

    /// What each blocked edge whose target is here does, by its file.
    pub fn blocks(&self) -> &BTreeMap<String, BlockEffect> {
        &self.blocks
    }

    /// Names of all channels that a release is in.
    pub fn channel_names(&self) -> BTreeSet<&str> {
        self.channels.iter().flatten().map(String::as_str).collect()
    }

    /// All edges, of all channels.
    pub fn edges(&self) -> impl Iterator<Item = (&Version, &Version)> {
        let version = |number: u32| self.versions.get(number as usize);
        let edges = self.edges.iter();
        edges.filter_map(move |(from, to)| version(*from).zip(version(*to)))
    }

    /// The channels of a release, as its metadata lists them.
    pub fn channels_of(&self, version: &Version) -> Option<&str> {
        let index = self.versions.binary_search(version).ok()?;
        let metadata = &self.nodes.get(index)?.metadata;
        metadata
            .get(&format!("{KEY_PREFIX}{CHANNELS}"))
            .map(String::as_str)
    }

    /// What a client of this channel gets: its releases without their architecture, and the edges
    /// between them; and which edges between them are blocked silently.
    pub fn channel(&self, channel: &str) -> (UpdateGraph, Vec<SilencedEdge>) {
        self.cut(channel).graph()
    }

    /// SHA-256 of all that [`Self::channel`] is made of. Equal ones are of equal channels, in one
    /// build of this program. It costs less than the channel itself.
    pub fn channel_digest(&self, channel: &str) -> ImageDigest {
        let mut hash = ShaHasher(Sha256::new());
        self.cut(channel).hash(&mut hash);
        ImageDigest::from_sha256(&hash.0.finalize())
    }

    fn cut(&self, channel: &str) -> ChannelCut<'_> {
        let is_in = |index: usize, node: &UpdateNode| {
            !node.payload.is_empty()
                && self
                    .channels
                    .get(index)
                    .is_some_and(|names| names.contains(channel))
        };
        let indexed = self.versions.iter().zip(&self.nodes).enumerate();
        let members = indexed.map(|(index, (version, node))| is_in(index, node).then_some(version));
        let members: Vec<Option<&Version>> = members.collect();
        let member = |number: u32| *members.get(number as usize)?;
        let edge = |(from, to): &Edge| Some((member(*from)?, member(*to)?));
        let nodes = members.iter().zip(&self.nodes);
        let groups = self.groups.iter().map(|(risks, edges)| {
            let edges: Vec<_> = edges.iter().filter_map(edge).collect();
            (edges, risks.as_slice())
        });
        let silenced = self.silenced.iter();
        ChannelCut {
            nodes: nodes
                .filter_map(|(version, node)| Some(((*version)?, node)))
                .collect(),
            edges: self.edges.iter().filter_map(edge).collect(),
            conditional: groups.filter(|(edges, _)| !edges.is_empty()).collect(),
            silenced: silenced
                .filter_map(|(blocked, by)| Some((edge(blocked)?, by.as_str())))
                .collect(),
        }
    }
}

/// Ends of an edge.
type Ends<'a> = (&'a Version, &'a Version);

/// What of a graph is in a channel. The channel's response is built from this and nothing else.
#[derive(Hash)]
struct ChannelCut<'a> {
    nodes: Vec<(&'a Version, &'a UpdateNode)>,
    edges: Vec<Ends<'a>>,
    conditional: Vec<(Vec<Ends<'a>>, &'a [UpdateRisk])>,
    silenced: Vec<(Ends<'a>, &'a str)>,
}

impl ChannelCut<'_> {
    fn graph(self) -> (UpdateGraph, Vec<SilencedEdge>) {
        let edge = |(from, to): Ends<'_>| UpdateEdge {
            from: from.without_architecture(),
            to: to.without_architecture(),
        };
        let nodes = self.nodes.into_iter();
        let groups = self.conditional.into_iter();
        let silenced = self.silenced.into_iter().map(|(blocked, by)| SilencedEdge {
            edge: edge(blocked),
            by: by.to_owned(),
        });
        let silenced = silenced.collect();
        let graph = UpdateGraph {
            nodes: nodes
                .map(|(version, node)| (version.without_architecture(), node.clone()))
                .collect(),
            edges: self.edges.into_iter().map(edge).collect(),
            conditional: groups
                .map(|(edges, risks)| ConditionalEdges {
                    edges: edges.into_iter().map(edge).collect(),
                    risks: risks.to_vec(),
                })
                .collect(),
        };
        (graph, silenced)
    }
}

/// Takes what is hashed into a SHA-256.
struct ShaHasher(Sha256);

impl Hasher for ShaHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let hash = self.0.clone().finalize();
        hash.iter()
            .take(8)
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

impl Work<'_> {
    /// A release whose image is not there gets no metadata: it stands only for a name in an edge.
    fn append_raw(&mut self, data: &GraphData) {
        for (version, node) in self.versions.iter().zip(&mut self.nodes) {
            if node.payload.is_empty() {
                continue;
            }
            for (key, value) in data
                .raw
                .get(&version.without_architecture())
                .into_iter()
                .flatten()
            {
                let joined = node.metadata.entry(key.clone()).or_default();
                if !joined.is_empty() {
                    joined.push(',');
                }
                joined.push_str(value);
            }
        }
    }

    /// Writes the channels of each release into its metadata. A release without an image is in
    /// none.
    fn channels(&mut self, data: &GraphData) -> Vec<BTreeSet<String>> {
        let mut all = Vec::with_capacity(self.nodes.len());
        for (version, node) in self.versions.iter().zip(&mut self.nodes) {
            let key = format!("{KEY_PREFIX}{CHANNELS}");
            let own = list(node.metadata.get(&key));
            let mut names: BTreeSet<String> = own.map(str::to_owned).collect();
            let holding = data
                .channels
                .values()
                .filter(|channel| !node.payload.is_empty() && channel.holds(version));
            names.extend(holding.map(|channel| channel.name.clone()));
            if !names.is_empty() {
                let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
                sorted.sort_by_key(|name| name.split_once('-').map(|(_, rest)| rest.to_owned()));
                node.metadata.insert(key, sorted.join(","));
            }
            all.push(names);
        }
        all
    }

    /// The list of versions in a release's metadata, as numbers. Those of unknown releases have no
    /// effect; what is no version is listed.
    fn named(&mut self, index: usize, key: &str, number: &BTreeMap<Version, u32>) -> Vec<u32> {
        let (Some(own), Some(node)) = (self.versions.get(index), self.nodes.get(index)) else {
            return Vec::new();
        };
        let architecture = own.architecture().unwrap_or_default();
        let mut named = Vec::new();
        for text in list(node.metadata.get(&format!("{KEY_PREFIX}{key}"))) {
            let version =
                text.parse::<Version>()
                    .and_then(|version| match version.architecture() {
                        Some(_) => Ok(version),
                        None => version.with_architecture(architecture),
                    });
            match version {
                Ok(version) => named.extend(number.get(&version)),
                Err(error) => self.problems.push(SourceProblem::new(
                    format!("release {own}"),
                    format!("metadata.{KEY_PREFIX}{key}"),
                    error.to_string(),
                )),
            }
        }
        named
    }

    fn add_edges(&mut self, number: &BTreeMap<Version, u32>) {
        for (index, own) in (0..self.nodes.len()).zip(0_u32..) {
            for previous in self.named(index, "previous.add", number) {
                self.add_edge(previous, own);
            }
            for next in self.named(index, "next.add", number) {
                self.add_edge(own, next);
            }
        }
    }

    /// Adds an edge, unless a release would lead to itself or to a lower one that leads back.
    fn add_edge(&mut self, from: u32, to: u32) {
        if from == to || (to < from && self.leads_to(to, from)) {
            let name = |number: u32| {
                let version = self.versions.get(number as usize);
                version.map_or_else(String::new, ToString::to_string)
            };
            let reason = format!("the edge to {} closes a cycle and is left out", name(to));
            let field = format!("metadata.{KEY_PREFIX}next.add");
            let object = format!("release {}", name(from));
            self.problems
                .push(SourceProblem::new(object, field, reason));
            return;
        }
        self.edges.insert((to, from));
    }

    fn leads_to(&self, from: u32, to: u32) -> bool {
        let mut seen = BTreeSet::from([to]);
        let mut next = vec![to];
        while let Some(number) = next.pop() {
            if number == from {
                return true;
            }
            next.extend(
                self.parents(number)
                    .into_iter()
                    .filter(|parent| seen.insert(*parent)),
            );
        }
        false
    }

    fn parents(&self, to: u32) -> Vec<u32> {
        let parents = self.edges.range((to, 0)..=(to, u32::MAX));
        parents.map(|(_, from)| *from).collect()
    }

    /// The edges into a release from those that the expression matches.
    fn matching(&self, to: u32, from: &Regex) -> Vec<(u32, u32)> {
        let parents = self.parents(to).into_iter().filter(|parent| {
            let version = self.versions.get(*parent as usize);
            version.is_some_and(|version| from.is_match(&version.to_string()))
        });
        parents.map(|parent| (to, parent)).collect()
    }

    /// The edges into a release that a file blocks.
    fn blocked(&mut self, target: u32, blocked: &BlockedEdge) -> Vec<(u32, u32)> {
        let edges = self.matching(target, &blocked.from);
        let has_image = |node: &UpdateNode| !node.payload.is_empty();
        if self.nodes.get(target as usize).is_some_and(has_image) {
            let effect = if edges.is_empty() {
                let parents = self.parents(target).into_iter();
                let bare = parents.filter_map(|parent| {
                    let version = self.versions.get(parent as usize)?;
                    Some(version.without_architecture())
                });
                bare.into_iter()
                    .find(|version| blocked.from.is_match(&version.to_string()))
                    .map_or(BlockEffect::Nothing, BlockEffect::Bare)
            } else {
                BlockEffect::Blocks
            };
            let strongest = self.blocks.entry(blocked.file.clone());
            let strongest = strongest.or_insert(BlockEffect::Nothing);
            *strongest = effect.max(strongest.clone());
        }
        edges
    }

    /// Releases that a blocked edge is about.
    fn targets(&self, edge: &BlockedEdge) -> Vec<u32> {
        let versions = self.versions.iter().zip(0..);
        let targets = versions.filter(|(version, _)| edge.is_about(version));
        targets.map(|(_, number)| number).collect()
    }

    /// The risks on each edge, in the order of files; each name once.
    fn risks<'d>(&mut self, data: &'d GraphData) -> BTreeMap<(u32, u32), Vec<&'d UpdateRisk>> {
        let mut risks: BTreeMap<(u32, u32), Vec<&UpdateRisk>> = BTreeMap::new();
        for blocked in &data.blocked {
            let Some(risk) = &blocked.risk else { continue };
            for target in self.targets(blocked) {
                for edge in self.blocked(target, blocked) {
                    let listed = risks.entry(edge).or_default();
                    if listed.iter().all(|other| other.name != risk.name) {
                        listed.push(risk);
                    }
                }
            }
        }
        risks
    }

    fn remove_edges(
        &mut self,
        number: &BTreeMap<Version, u32>,
        data: &GraphData,
    ) -> BTreeMap<(u32, u32), String> {
        let mut gone: BTreeMap<(u32, u32), String> = BTreeMap::new();
        for blocked in data.blocked.iter().filter(|blocked| blocked.risk.is_none()) {
            for target in self.targets(blocked) {
                for edge in self.blocked(target, blocked) {
                    gone.entry(edge).or_insert_with(|| blocked.file.clone());
                }
            }
        }
        for (index, own) in (0..self.nodes.len()).zip(0_u32..) {
            let mut edges = self.removed_previous(index, own, number);
            let next = self.named(index, "next.remove", number);
            edges.extend(next.into_iter().map(|next| (next, own)));
            let by = self
                .versions
                .get(index)
                .map_or_else(String::new, ToString::to_string);
            for edge in edges {
                if self.edges.contains(&edge) {
                    gone.entry(edge).or_insert_with(|| by.clone());
                }
            }
        }
        self.edges.retain(|edge| !gone.contains_key(edge));
        gone
    }

    fn removed_previous(
        &mut self,
        index: usize,
        own: u32,
        number: &BTreeMap<Version, u32>,
    ) -> Vec<(u32, u32)> {
        let text = |work: &Self, key: &str| {
            let node = work.nodes.get(index)?;
            node.metadata.get(&format!("{KEY_PREFIX}{key}")).cloned()
        };
        let mut edges = Vec::new();
        if text(self, "previous.remove").is_some_and(|list| list.trim() == ALL) {
            edges.extend(self.parents(own).into_iter().map(|from| (own, from)));
        } else {
            let previous = self.named(index, "previous.remove", number);
            edges.extend(previous.into_iter().map(|from| (own, from)));
        }
        let key = "previous.remove_regex";
        if let Some(pattern) = text(self, key) {
            match Regex::new(&pattern) {
                Ok(regex) => edges.extend(self.matching(own, &regex)),
                Err(error) => {
                    let own = self
                        .versions
                        .get(index)
                        .map_or_else(String::new, ToString::to_string);
                    self.problems.push(SourceProblem::new(
                        format!("release {own}"),
                        format!("metadata.{KEY_PREFIX}{key}"),
                        first_line(&error),
                    ));
                }
            }
        }
        edges
    }

    fn finish(
        self,
        channels: Vec<BTreeSet<String>>,
        risks: &BTreeMap<(u32, u32), Vec<&UpdateRisk>>,
        silenced: BTreeMap<(u32, u32), String>,
    ) -> AnnotatedGraph {
        let Self {
            versions,
            mut nodes,
            edges,
            blocks,
            ..
        } = self;
        for node in &mut nodes {
            let is_removed = node
                .metadata
                .get(&format!("{KEY_PREFIX}release.remove"))
                .is_some_and(|value| value.trim() == "true");
            if is_removed {
                node.payload.clear();
            }
            node.metadata.retain(|key, _| !is_consumed(key));
        }
        let mut groups: BTreeMap<Vec<&UpdateRisk>, Vec<Edge>> = BTreeMap::new();
        let mut plain = Vec::new();
        for (to, from) in edges {
            match risks.get(&(to, from)) {
                Some(risks) => groups.entry(risks.clone()).or_default().push((from, to)),
                None => plain.push((from, to)),
            }
        }
        let groups = groups.into_iter().map(|(risks, edges)| {
            let risks: Vec<UpdateRisk> = risks.into_iter().cloned().collect();
            (risks, edges)
        });
        let silenced = silenced
            .into_iter()
            .map(|((to, from), by)| ((from, to), by));
        AnnotatedGraph {
            versions,
            nodes,
            channels,
            edges: plain,
            groups: groups.collect(),
            silenced: silenced.collect(),
            blocks,
        }
    }
}

/// Whether a key is for the graph's own rules, and of no use to clients.
fn is_consumed(key: &str) -> bool {
    let Some(key) = key.strip_prefix(KEY_PREFIX) else {
        return false;
    };
    matches!(
        key,
        "release.arch"
            | "release.remove"
            | "previous.add"
            | "next.add"
            | "previous.remove"
            | "next.remove"
            | "previous.remove_regex"
    )
}

/// The parts of a comma list, without blanks and empty ones.
fn list(text: Option<&String>) -> impl Iterator<Item = &str> {
    let parts = text.map_or("", String::as_str).split(',').map(str::trim);
    parts.filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests;
