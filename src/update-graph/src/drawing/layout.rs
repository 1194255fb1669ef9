//! Which releases and updates are drawn, and where.
//!
//! A column is a minor release, a row a patch, the newest on top. Updates that follow from a chain
//! of others are not drawn, unless all are requested: a channel has thousands.

use std::collections::{BTreeMap, BTreeSet};

use release::Version;
use release::update_graph::{UpdateEdge, UpdateGraph, UpdateRisk};

use crate::annotated::SilencedEdge;
use crate::path::{self, Hop, Updates};

/// What is to be drawn of a channel.
#[derive(Clone, Debug, Default)]
pub struct DrawingRequest {
    /// The release that runs: only what it can be updated to is drawn.
    pub from: Option<Version>,
    /// Where it is to get: only what lies on a path there is drawn. The newest release, if none is
    /// named.
    pub to: Option<Version>,
    /// Whether updates that follow from a chain of others are drawn, too.
    pub all: bool,
}

/// A picture: places in units of one row and one column.
#[derive(Clone, Debug)]
pub struct Drawing<'a> {
    /// Its columns, oldest minor release first: name and number of rows.
    pub columns: Vec<(String, usize)>,
    pub releases: Vec<DrawnRelease<'a>>,
    /// Updates, by numbers of releases.
    pub updates: Vec<DrawnUpdate<'a>>,
    /// The shortest path, where two releases are named.
    pub path: Option<(Version, Vec<Hop>)>,
    /// Updates that are there and not drawn.
    pub hidden: usize,
}

/// A release of a picture.
#[derive(Clone, Debug)]
pub struct DrawnRelease<'a> {
    pub version: &'a Version,
    /// Page that describes it.
    pub url: Option<&'a str>,
    pub column: usize,
    /// Its row; the newest release of a column is in row 0.
    pub row: usize,
    /// Whether it is on the path.
    pub is_on_path: bool,
}

/// An update of a picture.
#[derive(Clone, Debug)]
pub struct DrawnUpdate<'a> {
    /// Number of the release that it starts from.
    pub from: usize,
    /// Number of the release that it leads to.
    pub to: usize,
    pub kind: UpdateKind<'a>,
    /// Whether it is on the path.
    pub is_on_path: bool,
}

/// What an update of a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind<'a> {
    Recommended,
    /// Recommended to clusters to which none of these applies.
    Conditional(&'a [UpdateRisk]),
    /// Blocked silently, by this.
    Silenced(&'a str),
}

impl<'a> Drawing<'a> {
    /// Lays out a channel.
    pub fn new(
        graph: &'a UpdateGraph,
        silenced: &'a [SilencedEdge],
        request: &DrawingRequest,
    ) -> Self {
        // Built once: a channel has thousands of updates.
        let updates = path::updates(graph);
        let shown = shown(graph, &updates, request);
        let path = path_of(&updates, request, &shown);
        let (columns, mut releases) = places(graph, &shown);
        let number: BTreeMap<&Version, usize> = releases
            .iter()
            .map(|release| release.version)
            .zip(0..)
            .collect();
        let on_path = steps(path.as_ref(), &number);
        for end in on_path.iter().flat_map(|(from, to)| [*from, *to]) {
            if let Some(release) = releases.get_mut(end) {
                release.is_on_path = true;
            }
        }
        let mut drawing = Self {
            columns,
            releases,
            updates: Vec::new(),
            path,
            hidden: 0,
        };
        let is_implied = implied(&updates, &number);
        let mut add = |edge: &UpdateEdge, kind| {
            let (Some(from), Some(to)) = (number.get(&edge.from), number.get(&edge.to)) else {
                return;
            };
            let (from, to) = (*from, *to);
            let is_on_path = on_path.contains(&(from, to));
            if request.all || is_on_path || !is_implied.contains(&(from, to)) {
                drawing.updates.push(DrawnUpdate {
                    from,
                    to,
                    kind,
                    is_on_path,
                });
            } else {
                drawing.hidden += 1;
            }
        };
        for blocked in silenced {
            add(&blocked.edge, UpdateKind::Silenced(&blocked.by));
        }
        for group in &graph.conditional {
            for edge in &group.edges {
                add(edge, UpdateKind::Conditional(&group.risks));
            }
        }
        for edge in &graph.edges {
            add(edge, UpdateKind::Recommended);
        }
        drawing
    }
}

/// The releases that are drawn.
fn shown<'a>(
    graph: &'a UpdateGraph,
    updates: &Updates<'a>,
    request: &DrawingRequest,
) -> BTreeSet<&'a Version> {
    let release_of = |version: &Option<Version>| {
        let version = version.as_ref()?;
        graph
            .nodes
            .get_key_value(version)
            .map(|(version, _)| version)
    };
    let all = || graph.nodes.keys().collect();
    let mut shown = match release_of(&request.from) {
        Some(from) => path::reachable(updates, from),
        None => all(),
    };
    if let Some(to) = release_of(&request.to) {
        let leading = path::leading_to(updates, to);
        shown.retain(|version| leading.contains(version));
    }
    shown
}

fn path_of(
    updates: &Updates<'_>,
    request: &DrawingRequest,
    shown: &BTreeSet<&Version>,
) -> Option<(Version, Vec<Hop>)> {
    let from = request.from.as_ref()?;
    let to = request.to.as_ref().or_else(|| shown.last().copied())?;
    let hops = path::shortest_of(updates, from, to)?;
    Some((from.clone(), hops))
}

/// The updates of a path, by numbers of releases.
fn steps(
    path: Option<&(Version, Vec<Hop>)>,
    number: &BTreeMap<&Version, usize>,
) -> BTreeSet<(usize, usize)> {
    let Some((from, hops)) = path else {
        return BTreeSet::new();
    };
    let starts = std::iter::once(from).chain(hops.iter().map(|hop| &hop.to));
    let steps = starts
        .zip(hops)
        .filter_map(|(from, hop)| Some((*number.get(from)?, *number.get(&hop.to)?)));
    steps.collect()
}

fn places<'a>(
    graph: &'a UpdateGraph,
    shown: &BTreeSet<&'a Version>,
) -> (Vec<(String, usize)>, Vec<DrawnRelease<'a>>) {
    let mut minors: BTreeMap<(u64, u64), Vec<&Version>> = BTreeMap::new();
    for version in shown.iter().rev() {
        minors.entry(version.minor()).or_default().push(version);
    }
    let mut columns = Vec::new();
    let mut releases = Vec::new();
    for (column, ((major, minor), versions)) in minors.into_iter().enumerate() {
        columns.push((format!("{major}.{minor}"), versions.len()));
        for (row, version) in versions.into_iter().enumerate() {
            let metadata = graph.nodes.get(version).map(|node| &node.metadata);
            releases.push(DrawnRelease {
                version,
                url: metadata
                    .and_then(|metadata| metadata.get("url"))
                    .map(String::as_str),
                column,
                row,
                is_on_path: false,
            });
        }
    }
    (columns, releases)
}

/// Updates between drawn releases that a chain of other updates, of any kind, stands for.
fn implied(updates: &Updates<'_>, number: &BTreeMap<&Version, usize>) -> BTreeSet<(usize, usize)> {
    let count = number.len();
    let mut direct: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (from, targets) in updates {
        let Some(list) = number.get(from).and_then(|from| direct.get_mut(*from)) else {
            continue;
        };
        list.extend(targets.keys().filter_map(|to| number.get(to)));
    }
    // Releases in the order of versions: without updates to lower ones, each is complete before
    // those below it. Other updates stand for no chain, and are drawn.
    let mut order: Vec<(&Version, usize)> = number
        .iter()
        .map(|(version, number)| (*version, *number))
        .collect();
    order.sort_by(|(one, _), (other, _)| other.cmp(one));
    let mut reach = vec![Marks::new(count); count];
    for (_, from) in &order {
        let targets = direct.get(*from).map(Vec::as_slice).unwrap_or_default();
        let mut own = by_chain(targets, &reach, count);
        for to in targets {
            own.set(*to);
        }
        if let Some(slot) = reach.get_mut(*from) {
            *slot = own;
        }
    }
    let mut implied = BTreeSet::new();
    for (from, targets) in direct.iter().enumerate() {
        let led = by_chain(targets, &reach, count);
        let by_others = targets.iter().filter(|to| led.has(**to));
        implied.extend(by_others.map(|to| (from, *to)));
    }
    implied
}

/// What these releases lead to. In a cycle a release leads to itself, which stands for no update
/// to it.
fn by_chain(targets: &[usize], reach: &[Marks], count: usize) -> Marks {
    let mut led = Marks::new(count);
    for target in targets {
        if let Some(reached) = reach.get(*target) {
            led.add(reached, *target);
        }
    }
    led
}

/// A set of numbers of releases. A large channel has some 500, and as many of these sets.
#[derive(Clone, Debug)]
struct Marks(Vec<u64>);

impl Marks {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn set(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / 64) {
            *word |= 1 << (number % 64);
        }
    }

    fn has(&self, number: usize) -> bool {
        let word = self.0.get(number / 64);
        word.is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Adds all of another set but this number.
    fn add(&mut self, other: &Self, but: usize) {
        for (index, (own, other)) in self.0.iter_mut().zip(&other.0).enumerate() {
            let mask = if index == but / 64 {
                !(1 << (but % 64))
            } else {
                u64::MAX
            };
            *own |= other & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::graph;

    fn toy() -> UpdateGraph {
        graph(
            &["4.1.0 4.1.1", "4.1.1 4.1.2", "4.1.0 4.1.2", "4.1.2 4.2.0"],
            &["4.1.1 4.2.0", "4.2.0 4.2.1"],
        )
    }

    #[test]
    fn columns_are_minors_and_the_newest_is_on_top() {
        let graph = toy();
        let drawing = Drawing::new(&graph, &[], &DrawingRequest::default());
        assert_eq!(
            drawing.columns,
            [("4.1".to_owned(), 3), ("4.2".to_owned(), 2)]
        );
        let places: Vec<String> = drawing
            .releases
            .iter()
            .map(|release| format!("{} {} {}", release.version, release.column, release.row))
            .collect();
        let expected = [
            "4.1.2 0 0",
            "4.1.1 0 1",
            "4.1.0 0 2",
            "4.2.1 1 0",
            "4.2.0 1 1",
        ];
        assert_eq!(places, expected);
        // 4.1.0 to 4.1.2 and 4.1.1 to 4.2.0 follow from others.
        assert_eq!((drawing.updates.len(), drawing.hidden), (4, 2));
        let all = DrawingRequest {
            all: true,
            ..DrawingRequest::default()
        };
        assert_eq!(Drawing::new(&graph, &[], &all).updates.len(), 6);
    }

    #[test]
    fn a_named_release_limits_the_picture_and_has_a_path() {
        let graph = toy();
        let request = DrawingRequest {
            from: Some("4.1.1".parse().unwrap()),
            to: Some("4.2.0".parse().unwrap()),
            all: false,
        };
        let drawing = Drawing::new(&graph, &[], &request);
        let versions: Vec<String> = drawing
            .releases
            .iter()
            .map(|release| release.version.to_string())
            .collect();
        assert_eq!(versions, ["4.1.2", "4.1.1", "4.2.0"]);
        let (_, hops) = drawing.path.unwrap();
        assert_eq!(
            hops.iter()
                .map(|hop| hop.to.to_string())
                .collect::<Vec<_>>(),
            ["4.1.2", "4.2.0"]
        );
        assert!(hops.iter().all(|hop| hop.risks.is_empty()));
    }

    /// Each of 400 releases may be updated to the 80 after it.
    fn large() -> UpdateGraph {
        let names: Vec<String> = (0..400).map(|patch| format!("4.1.{patch}")).collect();
        let from = names.iter().enumerate();
        let pairs: Vec<String> = from
            .flat_map(|(at, from)| {
                let later = names.iter().skip(at + 1).take(80);
                later.map(move |to| format!("{from} {to}"))
            })
            .collect();
        graph(&pairs.iter().map(String::as_str).collect::<Vec<_>>(), &[])
    }

    #[test]
    fn of_a_large_channel_the_updates_to_one_release_are_the_chain() {
        let graph = large();
        for to in [None, Some("4.1.399")] {
            let request = DrawingRequest {
                to: to.map(|to| to.parse().unwrap()),
                ..DrawingRequest::default()
            };
            let drawing = Drawing::new(&graph, &[], &request);
            assert_eq!(drawing.releases.len(), 400);
            // All but the chain follow from it.
            assert_eq!(drawing.updates.len(), 399);
        }
    }

    #[test]
    fn of_a_cycle_each_update_is_drawn() {
        let graph = graph(&["4.1.0 4.1.1", "4.1.1 4.1.0"], &[]);
        let drawing = Drawing::new(&graph, &[], &DrawingRequest::default());
        assert_eq!((drawing.updates.len(), drawing.hidden), (2, 0));
    }
}
