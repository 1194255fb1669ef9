//! `slipway watch`: pools and nodes while they change.
//!
//! Lists are read again and again, as `kubectl get` does, and not watched: a person reads the view
//! for minutes, and a lost connection costs nothing but a line.

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::config::{ClusterVersion, cluster_version};
use api::machineconfiguration::node_status::Reading;
use cluster::access::Access;
use cluster::path;
use display::ink::Ink;
use display::live::{LiveHeading, LiveNode, LiveView, Medium, ScreenSize};
use jiff::Timestamp;
use pool::membership::Membership;
use pool::node::NodeView;
use serde::Serialize;
use tokio::time::Instant;

use super::arguments::WatchArgs;
use super::read;
use crate::decide::object::{ClusterObject, ObjectCondition};
use crate::decide::pools::objects::PoolObjects;
use crate::decide::pools::view;
use crate::decide::upgrade::control_plane_only::ControlPlaneOnlyView;
use crate::failure::Ending;
use crate::output::{ViewForm, print, print_data};

/// Least time between two reads.
const EVERY: Duration = Duration::from_secs(1);

/// A read that took long is repeated after so many times as long, so that the view of a large
/// cluster does not keep its API server busy.
const PATIENCE: u32 = 10;

/// Columns and lines where the terminal does not report them.
const SIZE: (u16, u16) = (100, 50);

/// What is shown of one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Frame {
    #[serde(flatten)]
    heading: LiveHeading,
    nodes: Vec<LiveNode>,
}

pub(crate) async fn run(arguments: WatchArgs) -> anyhow::Result<Ending> {
    let access = arguments.cluster.access()?;
    let name = arguments.pool.as_deref();
    let first = observe(&access, name).await?;
    if let Some(name) = name
        && first.heading.notes.is_empty()
    {
        bail!("MachineConfigPool {name}: there is no such pool");
    }
    let mut show = Show::new(arguments.cluster.output);
    show.show(&first, Timestamp::now())?;
    let watch = async {
        let mut last = first;
        loop {
            tokio::time::sleep(EVERY).await;
            let began = Instant::now();
            let mut frame = match observe(&access, name).await {
                Ok(frame) => frame,
                Err(error) => stale(&last, &error),
            };
            show.show(&frame, Timestamp::now())?;
            // What is stale is replaced once, not piled up.
            frame.heading.notes.retain(|note| !note.starts_with(STALE));
            last = frame;
            tokio::time::sleep(began.elapsed() * PATIENCE).await;
        }
    };
    tokio::select! {
        ended = watch => ended,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("cannot wait for an interrupt")?;
            Ok(Ending::Done)
        }
    }
}

/// How the note of a failed read begins.
const STALE: &str = "cluster: cannot be read, ";

/// The last frame, with why there is no newer one.
fn stale(last: &Frame, error: &anyhow::Error) -> Frame {
    let mut frame = last.clone();
    let why = crate::failure::lines(error).join("; ");
    let note = format!("{STALE}this is how it was before: {why}");
    frame.heading.notes.insert(0, note);
    frame
}

async fn observe(access: &Access, name: Option<&str>) -> anyhow::Result<Frame> {
    let (objects, version) = tokio::join!(read(access), cluster_version(access));
    let (pools, nodes) = objects?;
    Ok(frame(
        &pools,
        &nodes,
        version?.as_ref(),
        name,
        Timestamp::now(),
    ))
}

/// ClusterVersion; none in a cluster that has none, or for a user who may not read it.
async fn cluster_version(access: &Access) -> anyhow::Result<Option<ClusterObject>> {
    let path = path::object::<ClusterVersion>(cluster_version::NAME);
    match access.find(&path).await {
        Err(error) if error.code() == Some(403) => Ok(None),
        Ok(version) => Ok(version),
        Err(error) => Err(error).context("cannot read ClusterVersion version"),
    }
}

/// The frame of what was read; of one pool, if it is named.
pub(super) fn frame(
    pools: &PoolObjects,
    nodes: &[NodeView],
    version: Option<&ClusterObject>,
    name: Option<&str>,
    now: Timestamp,
) -> Frame {
    let (mut details, _) = view::pools(pools, nodes, now);
    details.retain(|pool| name.is_none_or(|name| pool.name() == name));
    let mut heading: Vec<String> = details.iter().flat_map(view::PoolDetails::notes).collect();
    let moves = version.and_then(|version| version.condition("Progressing"));
    if let Some(progressing) = moves.filter(ObjectCondition::is_true)
        && !heading.is_empty()
    {
        heading.insert(0, format!("release: {}", progressing.message));
    }
    let both_hops = version.and_then(|version| ControlPlaneOnlyView::of(version, &pools.pools));
    if let Some(both_hops) = both_hops {
        heading.insert(0, both_hops.line());
    }

    let views = pools.views();
    let members = Membership::sort(nodes, &views);
    let of = |node: &NodeView| {
        let found = details.iter().position(|pool| {
            let of_pool = members.of(pool.name());
            of_pool.iter().any(|member| member.name == node.name)
        });
        found.map(|place| {
            (
                place,
                details.get(place).map_or("", view::PoolDetails::name),
            )
        })
    };
    let mut shown: Vec<(usize, LiveNode)> = nodes
        .iter()
        .filter_map(|node| {
            let (place, pool) = match of(node) {
                Some(found) => found,
                None if name.is_none() => (usize::MAX, ""),
                None => return None,
            };
            Some((place, live_node(node, pool)))
        })
        .collect();
    shown.sort_by(|(one, node), (other, next)| (one, &node.name).cmp(&(other, &next.name)));
    Frame {
        heading: LiveHeading {
            title: match name {
                Some(name) => format!("Pool {name}"),
                None => "All pools".to_owned(),
            },
            notes: heading,
        },
        nodes: shown.into_iter().map(|(_, node)| node).collect(),
    }
}

fn live_node(node: &NodeView, pool: &str) -> LiveNode {
    let status = &node.status;
    // OpenShift's daemon reports no phase, but the state.
    let phase = match &status.phase {
        Some(Reading::Known(phase)) => phase.as_str().to_owned(),
        Some(Reading::Unknown(text)) => text.clone(),
        None if pool.is_empty() => String::new(),
        None => status.state().as_str().to_owned(),
    };
    let waits_for = status.waits_for.clone();
    let hold = node.hold.as_ref().map(ToString::to_string);
    LiveNode {
        name: node.name.clone(),
        pool: pool.to_owned(),
        phase,
        waits_for: waits_for.or(hold).unwrap_or_default(),
        reason: status.reason.clone(),
        since: status.since.as_ref().and_then(Reading::known).copied(),
        is_out: !node.is_ready(),
    }
}

/// Standard output, and what of it was shown.
enum Show {
    Text(LiveView),
    Form(ViewForm, Option<Frame>),
}

impl Show {
    fn new(form: Option<ViewForm>) -> Self {
        match form {
            Some(form) => Self::Form(form, None),
            None => Self::Text(LiveView::new(medium())),
        }
    }

    fn show(&mut self, frame: &Frame, now: Timestamp) -> anyhow::Result<()> {
        match self {
            Self::Text(view) => {
                let text = view.show(&frame.heading, frame.nodes.clone(), now, size());
                // A drawing moves the cursor, and its parts are painted.
                match view.medium() {
                    Medium::Terminal(_) => print_data(text),
                    Medium::Lines => print(text),
                }
            }
            Self::Form(_, Some(last)) if last == frame => Ok(()),
            Self::Form(form, last) => {
                *last = Some(frame.clone());
                print_data(document(*form, frame, now)?)
            }
        }
    }
}

/// A moment for programs: one line of JSON, or one document of a stream of YAML.
fn document(form: ViewForm, frame: &Frame, now: Timestamp) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct Moment<'a> {
        time: Timestamp,
        #[serde(flatten)]
        frame: &'a Frame,
    }
    let moment = serde_json::to_value(Moment { time: now, frame })?;
    Ok(match form {
        ViewForm::Json => format!("{moment}\n"),
        ViewForm::Yaml => format!("---\n{}", serde_saphyr::to_string(&moment)?),
    })
}

fn medium() -> Medium {
    let asks_for = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let is_dumb = asks_for("TERM").is_some_and(|terminal| terminal == "dumb");
    if !std::io::stdout().is_terminal() || is_dumb {
        Medium::Lines
    } else if asks_for("NO_COLOR").is_some() {
        Medium::Terminal(Ink::Plain)
    } else {
        Medium::Terminal(Ink::Coloured)
    }
}

fn size() -> ScreenSize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    let (columns, lines) = size.map_or(SIZE, |size| (size.ws_col, size.ws_row));
    // A terminal without a size reports zero.
    let given = |count: u16, least: u16| if count == 0 { least } else { count };
    ScreenSize {
        columns: usize::from(given(columns, SIZE.0)),
        lines: usize::from(given(lines, SIZE.1)),
    }
}

#[cfg(test)]
mod tests;
