//! `slipway graph`: a channel of an update service, as a summary or as a picture.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use release::Version;
use release::update_graph::UpdateGraph;
use serde::Serialize;
use update_graph::drawing::layout::DrawingRequest;
use update_graph::drawing::{Drawing, dot, svg};
use update_graph::path::{self, Hop};

use crate::failure::{Ending, Usage};
use crate::kubeconfig::ClusterArgs;
use crate::output::{print_data, print_or_write, show};
use crate::update_service::{self, ServiceArgs};

/// `slipway graph`.
#[derive(Debug, Args)]
pub struct GraphArgs {
    /// Channel
    #[arg(long, value_name = "CHANNEL", required_unless_present = "file")]
    pub channel: Option<String>,
    /// The release that runs: only what it can be updated to
    #[arg(long, value_name = "VERSION")]
    pub from: Option<Version>,
    /// Where it is to get: only what lies on a path there [default: the newest release]
    #[arg(long, value_name = "VERSION", requires = "from")]
    pub to: Option<Version>,
    /// Draw updates that follow from a chain of others, too
    #[arg(long)]
    pub all: bool,
    /// Write the picture to this file, or to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub svg: Option<PathBuf>,
    /// Print the picture for graphviz
    #[arg(long, conflicts_with = "svg")]
    pub dot: bool,
    /// File with a graph, as an update service answers it; no service is asked
    #[arg(long, value_name = "FILE", conflicts_with_all = ["channel", "upstream"])]
    pub file: Option<PathBuf>,
    /// The update service.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// A channel in numbers, and the shortest path through it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChannelSummary {
    /// The channel; none for a file.
    channel: Option<String>,
    releases: usize,
    updates: usize,
    conditional_updates: usize,
    newest: Option<String>,
    /// The shortest path, if a release to start from is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<UpdatePath>,
}

#[derive(Debug, Serialize)]
struct UpdatePath {
    from: String,
    to: String,
    /// None if there is no path.
    hops: Option<Vec<PathHop>>,
}

#[derive(Debug, Serialize)]
struct PathHop {
    to: String,
    /// Names of the risks that may apply.
    risks: Vec<String>,
}

pub(crate) async fn run(arguments: GraphArgs) -> anyhow::Result<Ending> {
    if arguments.cluster.output.is_some() && (arguments.svg.is_some() || arguments.dot) {
        bail!(Usage("-o cannot be used with --svg or --dot".to_owned()));
    }
    let (graph, what) = read(&arguments).await?;
    for (option, version) in [("--from", &arguments.from), ("--to", &arguments.to)] {
        if let Some(version) = version
            && !graph.nodes.contains_key(version)
        {
            bail!("{option} {version}: it is not in {what}");
        }
    }
    let request = DrawingRequest {
        from: arguments.from.clone(),
        to: arguments.to.clone(),
        all: arguments.all,
    };
    // What an update service blocks silently is not in its response.
    let drawing = || Drawing::new(&graph, &[], &request);
    if let Some(target) = &arguments.svg {
        print_or_write(target, &svg::svg(&drawing()))?;
    } else if arguments.dot {
        print_data(dot::dot(&drawing()))?;
    } else {
        let summary = ChannelSummary::new(&graph, &arguments);
        show(arguments.cluster.output, &summary, || summary.text(&what))?;
    }
    Ok(Ending::Done)
}

/// The graph, and how it is named in messages.
async fn read(arguments: &GraphArgs) -> anyhow::Result<(UpdateGraph, String)> {
    if let Some(file) = &arguments.file {
        let shown = format!("file {}", file.display());
        let bytes = std::fs::read(file).with_context(|| format!("cannot read {shown}"))?;
        let graph = UpdateGraph::parse(&bytes).with_context(|| shown.clone())?;
        return Ok((graph, shown));
    }
    let channel = arguments.channel.as_deref().unwrap_or_default();
    let service = &arguments.service;
    let address = service.address(&arguments.cluster).await?;
    let (url, bytes) = update_service::read(&address, channel, service).await?;
    let graph = UpdateGraph::parse(&bytes).with_context(|| format!("answer of {url}"))?;
    Ok((graph, format!("channel {channel} ({})", service.arch)))
}

impl ChannelSummary {
    fn new(graph: &UpdateGraph, arguments: &GraphArgs) -> Self {
        let newest = graph.nodes.keys().next_back();
        let conditional = graph.conditional.iter().map(|group| group.edges.len());
        let ends = arguments
            .from
            .as_ref()
            .zip(arguments.to.as_ref().or(newest));
        Self {
            channel: arguments.channel.clone(),
            releases: graph.nodes.len(),
            updates: graph.edges.len(),
            conditional_updates: conditional.sum(),
            newest: newest.map(ToString::to_string),
            path: ends.map(|(from, to)| UpdatePath {
                from: from.to_string(),
                to: to.to_string(),
                hops: path::shortest(graph, from, to)
                    .map(|hops| hops.iter().map(PathHop::new).collect()),
            }),
        }
    }

    fn text(&self, what: &str) -> String {
        let mut text = format!(
            "{what}: {} releases, {} recommended updates, {} conditional updates\n",
            self.releases, self.updates, self.conditional_updates
        );
        if let Some(newest) = &self.newest {
            text.extend([format!("Newest release: {newest}\n")]);
        }
        if let Some(path) = &self.path {
            text.push_str(&path.text());
        }
        text
    }
}

impl UpdatePath {
    fn text(&self) -> String {
        let Self { from, to, hops } = self;
        match hops.as_deref() {
            None => format!("\nNo path leads from {from} to {to}.\n"),
            Some([]) => format!("\n{from} is already there.\n"),
            Some(hops) => {
                let mut text = format!("\nShortest path from {from} to {to}:\n");
                for hop in hops {
                    let risks = if hop.risks.is_empty() {
                        String::new()
                    } else {
                        format!("   may apply: {}", hop.risks.join(", "))
                    };
                    text.extend([format!("  {}{risks}\n", hop.to)]);
                }
                text
            }
        }
    }
}

impl PathHop {
    fn new(hop: &Hop) -> Self {
        Self {
            to: hop.to.to_string(),
            risks: hop.risks.iter().map(|risk| risk.name.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
