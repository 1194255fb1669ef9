//! Response bodies of one scrape, built once and stored as gzip.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use images::Tree;
use images::tree::EntryContent;
use jiff::Timestamp;
use release::ImageDigest;
use release::update_graph::UpdateGraph;
use serde_json::json;
use update_graph::graph_data::SourceFiles;
use update_graph::{AnnotatedGraph, GraphData, SourceProblem, block_effect, scraped};

use crate::body::PackedBody;
use crate::kept_drawings::KeptDrawings;
use crate::releases::KnownRelease;

/// Bytes of bodies that are kept unpacked, beside the packed ones: those that were requested
/// first. The largest real body has 400 kB.
const UNPACKED_BYTES: usize = 4 << 20;

/// Mode of a file in the archive of graph data.
const FILE_MODE: u32 = 0o644;

/// The graph of a channel as a body, and the digest of its sources.
#[derive(Clone, Debug)]
struct KeptGraph {
    made_of: ImageDigest,
    body: Arc<PackedBody>,
}

/// All bodies of one scrape. They do not change; a scrape that finds other sources builds new
/// ones, and shares those of unchanged channels.
#[derive(Debug)]
pub struct GraphResponses {
    /// By architecture and channel.
    graphs: BTreeMap<String, BTreeMap<String, KeptGraph>>,
    /// How many graphs of a channel and architecture were built, not shared with the scrape before.
    pub rebuilt: usize,
    empty: PackedBody,
    /// What of the sources was left out, as JSON.
    pub problems: PackedBody,
    pub problem_count: usize,
    /// The graph data, as a tar.
    pub data: Bytes,
    pub channels: Vec<String>,
    /// Releases that were read, and those that are in a channel.
    pub releases: (usize, usize),
    pub made: Timestamp,
    pub drawings: KeptDrawings,
    unpacked: Mutex<(usize, BTreeMap<String, Bytes>)>,
}

impl GraphResponses {
    /// Builds the bodies. Those of channels in which nothing differs from `before` are shared with
    /// it.
    ///
    /// # Errors
    /// Memory or a temporary file.
    pub fn new(
        releases: &[Arc<KnownRelease>],
        data: &GraphData,
        files: &SourceFiles,
        mut problems: Vec<SourceProblem>,
        made: Timestamp,
        before: Option<&Self>,
    ) -> std::io::Result<Self> {
        let versions: BTreeSet<_> = releases
            .iter()
            .map(|release| release.version().clone())
            .collect();
        problems.extend(data.unknown_releases(&versions));
        let architectures: BTreeSet<&str> = releases
            .iter()
            .map(|release| release.architecture())
            .collect();
        let mut responses: BTreeMap<String, BTreeMap<String, KeptGraph>> = BTreeMap::new();
        let mut rebuilt = 0;
        let mut channels: BTreeSet<String> = data.channels.keys().cloned().collect();
        let mut in_channels = 0;
        let mut blocks = BTreeMap::new();
        // One after the other: the neighbours of all releases are never in memory at once.
        for architecture in architectures {
            let own = releases
                .iter()
                .filter(|release| release.architecture() == architecture);
            let read: Result<Vec<_>, _> = own.map(|release| release.read()).collect();
            let (graphs, found) = scraped::graphs(&read.map_err(std::io::Error::other)?);
            problems.extend(found);
            for graph in graphs.into_values() {
                let annotated = AnnotatedGraph::new(graph, data, &mut problems);
                for (file, effect) in annotated.blocks() {
                    let strongest = blocks.entry(file.clone()).or_insert_with(|| effect.clone());
                    *strongest = effect.max(&*strongest).clone();
                }
                let own = responses.entry(architecture.to_owned()).or_default();
                for channel in annotated.channel_names() {
                    channels.insert(channel.to_owned());
                    let built = before.and_then(|before| before.kept(channel, architecture));
                    let made_of = annotated.channel_digest(channel);
                    let kept = match built {
                        Some(built) if built.made_of == made_of => built.clone(),
                        Some(_) | None => {
                            rebuilt += 1;
                            let (graph, silenced) = annotated.channel(channel);
                            let body = Arc::new(PackedBody::new(&graph.print(), silenced)?);
                            KeptGraph { made_of, body }
                        }
                    };
                    own.insert(channel.to_owned(), kept);
                }
                in_channels += annotated.releases_in_channels();
            }
        }
        problems.extend(block_effect::without_effect(&blocks, &problems));
        problems.sort();
        problems.dedup();
        for problem in &problems {
            tracing::debug!(%problem, "left out");
        }
        let count = problems.len();
        let listed = json!({ "problems": problems }).to_string();
        Ok(Self {
            graphs: responses,
            rebuilt,
            empty: PackedBody::new(&UpdateGraph::default().print(), Vec::new())?,
            problems: PackedBody::new(listed.as_bytes(), Vec::new())?,
            problem_count: count,
            data: archive(files)?,
            channels: channels.into_iter().collect(),
            releases: (releases.len(), in_channels),
            made,
            drawings: KeptDrawings::default(),
            unpacked: Mutex::default(),
        })
    }

    /// The graph of a channel and architecture; the empty one where there is none.
    pub fn graph(&self, channel: &str, architecture: &str) -> &PackedBody {
        self.kept(channel, architecture)
            .map_or(&self.empty, |kept| &kept.body)
    }

    fn kept(&self, channel: &str, architecture: &str) -> Option<&KeptGraph> {
        self.graphs.get(architecture)?.get(channel)
    }

    /// A body, unpacked. Those that were requested first are kept.
    ///
    /// # Errors
    /// Never for what this program has packed.
    pub fn unpacked(&self, body: &PackedBody) -> std::io::Result<Bytes> {
        let unpacked = || self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = unpacked().1.get(&body.tag) {
            return Ok(bytes.clone());
        }
        let bytes = Bytes::from(body.unpack()?);
        let mut kept = unpacked();
        if kept.0 + bytes.len() <= UNPACKED_BYTES && !kept.1.contains_key(&body.tag) {
            kept.0 += bytes.len();
            kept.1.insert(body.tag.clone(), bytes.clone());
        }
        Ok(bytes)
    }
}

/// The graph data as a tar, packed by gzip: the same bytes for the same files.
fn archive(files: &SourceFiles) -> std::io::Result<Bytes> {
    let mut tree = Tree::new();
    for (path, bytes) in files {
        let content = EntryContent::Bytes(bytes.clone());
        tree.put(path, FILE_MODE, content)
            .map_err(std::io::Error::other)?;
    }
    let layer = tree.layer(Timestamp::UNIX_EPOCH)?;
    Ok(layer.blob().bytes()?.into())
}

#[cfg(test)]
pub(crate) mod tests {
    use release::Metadata;

    use super::*;

    /// Bodies for channel `fast-1` with 1.0.0 and 1.0.1 of `amd64`.
    pub(crate) fn responses() -> GraphResponses {
        let channel = (
            "channels/fast-1.yaml",
            "name: fast-1\nversions: [1.0.0, 1.0.1, 1.0.2]\n",
        );
        let releases = [release("1.0.0", &[]), release("1.0.1", &["1.0.0"])];
        made(&releases, &[channel], None)
    }

    fn release(version: &str, previous: &[&str]) -> Arc<KnownRelease> {
        let mut metadata = Metadata::new(version.parse().unwrap());
        metadata.previous = previous.iter().map(|text| text.parse().unwrap()).collect();
        let digest = ImageDigest::of(version.as_bytes());
        let (architecture, repository) = ("amd64".to_owned(), "registry.example/releases");
        let file = metadata.print().into();
        let release = KnownRelease::new(architecture, &repository.into(), digest, file);
        Arc::new(release.unwrap())
    }

    /// Bodies of these releases and files of graph data.
    fn made(
        releases: &[Arc<KnownRelease>],
        data: &[(&str, &str)],
        before: Option<&GraphResponses>,
    ) -> GraphResponses {
        let mut files: SourceFiles = [("version", "1.1.0"), ("raw/metadata.json", "{}")]
            .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
            .into();
        for (path, text) in data {
            files.insert((*path).to_owned(), text.as_bytes().to_vec());
        }
        let (data, problems) = GraphData::parse(&files).unwrap();
        let time = Timestamp::UNIX_EPOCH;
        GraphResponses::new(releases, &data, &files, problems, time, before).unwrap()
    }

    #[test]
    fn only_graphs_of_channels_in_which_something_changed_are_made() {
        let releases = [
            release("1.0.0", &[]),
            release("1.0.1", &["1.0.0"]),
            release("2.0.0", &[]),
            release("2.0.1", &["2.0.0"]),
        ];
        let mut all = releases.to_vec();
        all.push(release("1.0.2", &["1.0.1"]));
        let base = [
            (
                "channels/fast-1.yaml",
                "name: fast-1\nversions: [1.0.0, 1.0.1, 1.0.2]\n",
            ),
            (
                "channels/fast-2.yaml",
                "name: fast-2\nversions: [2.0.0, 2.0.1]\n",
            ),
        ];
        let risk = "to: 2.0.1\nfrom: .*\nurl: https://a\nname: A\nmessage: m\n\
                    matchingRules: [{type: Always}]\n";
        let raw = |text| ("raw/metadata.json", text);
        let third = "name: fast-3\nversions: [1.0.0, 2.0.0]\n";
        let replaced = release("1.0.0", &["1.0.1"]);
        let swapped = [replaced, Arc::clone(&releases[2]), Arc::clone(&releases[3])];
        let first = made(&releases, &base, None);
        assert_eq!(first.rebuilt, 2);
        let of = |releases: &[Arc<KnownRelease>]| made(releases, &base, Some(&first));
        let with = |file| {
            made(
                &releases,
                &[base.as_slice(), &[file]].concat(),
                Some(&first),
            )
        };
        // What changes, and which of the two graphs are made for it, and how many in all.
        let cases = [
            ("nothing", of(&releases), [false, false], 0),
            ("a release", of(&all), [true, false], 1),
            ("a release less", of(&swapped), [true, false], 1),
            (
                "a risk",
                with(("blocked-edges/2.0.1-A.yaml", risk)),
                [false, true],
                1,
            ),
            (
                "a silent block",
                with(("blocked-edges/2.0.1.yaml", "to: 2.0.1\nfrom: .*\n")),
                [false, true],
                1,
            ),
            (
                "metadata",
                with(raw(r#"{"2.0.0": {"note": "a"}}"#)),
                [false, true],
                1,
            ),
            (
                "an edge",
                with(raw(
                    r#"{"1.0.1": {"io.openshift.upgrades.graph.previous.remove": "1.0.0"}}"#,
                )),
                [true, false],
                1,
            ),
            (
                "an edge from one channel to the other",
                with(raw(
                    r#"{"2.0.0": {"io.openshift.upgrades.graph.previous.add": "1.0.1"}}"#,
                )),
                [false, false],
                0,
            ),
            (
                "a channel, which the releases in it name",
                with(("channels/fast-3.yaml", third)),
                [true, true],
                3,
            ),
        ];
        for (what, next, expected, count) in cases {
            let is_new = |channel| {
                let body = |responses: &GraphResponses| {
                    Arc::clone(&responses.kept(channel, "amd64").unwrap().body)
                };
                !Arc::ptr_eq(&body(&first), &body(&next))
            };
            assert_eq!(["fast-1", "fast-2"].map(is_new), expected, "{what}");
            assert_eq!(next.rebuilt, count, "{what}");
        }
    }

    #[test]
    fn an_answer_unpacks_to_what_was_packed_and_unknown_channels_are_empty() {
        let responses = responses();
        let graph = responses.graph("fast-1", "amd64");
        let bytes = responses.unpacked(graph).unwrap();
        assert_eq!(bytes.len(), graph.length);
        assert_eq!(UpdateGraph::parse(&bytes).unwrap().edges.len(), 1);
        assert_eq!(responses.unpacked(graph).unwrap(), bytes);
        for (channel, architecture) in [("fast-2", "amd64"), ("fast-1", "arm64")] {
            let bytes = responses
                .unpacked(responses.graph(channel, architecture))
                .unwrap();
            assert_eq!(UpdateGraph::parse(&bytes).unwrap(), UpdateGraph::default());
        }
        let problems = responses.problems.unpack().unwrap();
        let problems = String::from_utf8(problems).unwrap();
        assert!(problems.contains("there is no release 1.0.2"), "{problems}");
        assert_eq!((responses.releases, responses.problem_count), ((2, 2), 1));
    }
}
