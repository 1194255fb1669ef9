//! The two hops, and the pools that are paused.

use std::collections::{BTreeMap, BTreeSet};

use api::condition::ConditionStatus;
use api::machineconfiguration::label::REQUIRED_FOR_UPGRADE;
use api::machineconfiguration::machine_config_pool::PoolConditionType;
use jiff::{SignedDuration, Timestamp};
use pool::kubelet_skew::KubeletSkew;
use release::Version;
use release::update_graph::UpdateGraph;
use serde::Serialize;

use super::facts::{CpoCluster, PoolFacts, PoolPause};
use super::obstacle::{CpoObstacle, Obstacles};
use crate::decide::upgrade::version::OfferedUpdate;

/// Longest time that a pool is paused; the alert for a paused pool has the same.
pub(super) const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(60 * 24);

/// What is requested.
#[derive(Clone, Debug)]
pub(crate) struct CpoWish {
    pub(crate) to: Version,
    /// The release between; none, the graph says which.
    pub(crate) through: Option<Version>,
    pub(crate) allow_not_recommended: bool,
}

/// An update that can begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CpoPlan {
    pub(crate) from: String,
    pub(crate) through: String,
    pub(crate) to: String,
    /// Pools that are paused until both hops are done.
    pub(crate) pools: BTreeSet<String>,
    /// Pools that others paused: they stay so.
    pub(crate) stay_paused: BTreeSet<String>,
    /// Risks that may apply to the second hop.
    pub(crate) risks: Vec<String>,
}

impl CpoPlan {
    /// Plans from the cluster as it is, and the graph of a channel with its name; none where the
    /// release between is named.
    ///
    /// # Errors
    /// All that forbids it.
    pub(crate) fn new(
        cluster: &CpoCluster,
        wish: &CpoWish,
        graph: Option<(&str, &UpdateGraph)>,
    ) -> Result<Self, Obstacles> {
        let (from, is_completed) = cluster.head()?;
        let mut obstacles = Vec::new();
        if !is_completed {
            obstacles.push(CpoObstacle::UnderWay {
                version: from.clone(),
            });
        }
        two_minors(&from, wish)?;
        obstacles.extend(states(cluster));
        let requested = cluster.requested();
        if !requested.is_empty() && requested != from.to_string() {
            let version = requested.to_owned();
            obstacles.push(CpoObstacle::Requested { version });
        }
        let hop = first_hop(cluster, wish, &from, graph);
        let pools = cluster.pools();
        obstacles.extend(pools.iter().flat_map(|pool| of_pool(pool, cluster.now)));
        obstacles.extend(kubelets(cluster, &pools));
        let (through, risks) = match hop {
            Ok(found) => found,
            Err(obstacle) => {
                obstacles.push(obstacle);
                return Err(Obstacles(obstacles));
            }
        };
        if !obstacles.is_empty() {
            return Err(Obstacles(obstacles));
        }
        let others = |is: fn(PoolPause) -> bool| {
            let pools = pools.iter().filter(|pool| !pool.is_control_plane);
            let pools = pools.filter(|pool| is(pool.pause));
            pools.map(|pool| pool.name.to_owned()).collect()
        };
        Ok(Self {
            from: from.to_string(),
            through: through.to_string(),
            to: wish.to.to_string(),
            pools: others(|pause| pause != PoolPause::Other),
            stay_paused: others(|pause| pause == PoolPause::Other),
            risks,
        })
    }

    pub(crate) fn text(&self) -> String {
        let Self {
            from, through, to, ..
        } = self;
        let list = |names: &BTreeSet<String>| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        };
        let mut text = format!(
            "Control plane only: {from} -> {through} -> {to}\n  Paused until then: {}\n",
            list(&self.pools)
        );
        if !self.stay_paused.is_empty() {
            let names = list(&self.stay_paused);
            text.extend([format!("  Paused by others, and left so: {names}\n")]);
        }
        if !self.risks.is_empty() {
            let risks = self.risks.join(", ");
            text.extend([format!("  Risks that may apply to hop 2: {risks}\n")]);
        }
        text
    }
}

/// Refuses a target that is not two minor releases on, and a release between that is not.
fn two_minors(from: &Version, wish: &CpoWish) -> Result<(), CpoObstacle> {
    let (from, to) = (from.clone(), wish.to.clone());
    let ((major, minor), (to_major, to_minor)) = (from.minor(), to.minor());
    let steps = (to_major == major)
        .then(|| to_minor.checked_sub(minor))
        .flatten();
    match (steps, &wish.through) {
        (Some(2), Some(through)) if through.minor() != (major, minor + 1) => {
            let through = through.clone();
            Err(CpoObstacle::NotBetween { from, through, to })
        }
        (Some(2), _) => Ok(()),
        (Some(1), _) => Err(CpoObstacle::OneMinor { from, to }),
        (_, _) => Err(CpoObstacle::NotTwoMinors { from, to }),
    }
}

/// Conditions of the ClusterVersion that forbid a hop. One that must be there, and is not, forbids
/// it, too.
pub(super) fn states(cluster: &CpoCluster) -> Vec<CpoObstacle> {
    let version = cluster.view();
    let rules = [
        ("Invalid", "False", true),
        ("Failing", "False", false),
        ("Progressing", "False", false),
        ("Upgradeable", "True", true),
        ("RetrievedUpdates", "True", false),
    ];
    let states =
        rules
            .into_iter()
            .filter_map(|(kind, good, is_optional)| match version.condition(kind) {
                None if is_optional => None,
                None => Some(CpoObstacle::NoCondition { kind }),
                Some(found) if found.status == good => None,
                Some(found) => Some(CpoObstacle::VersionCondition {
                    kind,
                    status: found.status.to_owned(),
                    reason: found.reason.to_owned(),
                    message: found.message.to_owned(),
                }),
            });
    states.collect()
}

/// The newest release of the minor release between that is offered and leads to the target, and the
/// risks of the second hop.
fn first_hop(
    cluster: &CpoCluster,
    wish: &CpoWish,
    from: &Version,
    graph: Option<(&str, &UpdateGraph)>,
) -> Result<(Version, Vec<String>), CpoObstacle> {
    if let Some(through) = &wish.through {
        offered(cluster, through, wish.allow_not_recommended)?;
        return Ok((through.clone(), Vec::new()));
    }
    let (major, minor) = from.minor();
    let is_between = |update: &OfferedUpdate| {
        let version = update.version.parse::<Version>().ok()?;
        (version.minor() == (major, minor + 1)).then_some(version)
    };
    let version = cluster.view();
    let mut between: BTreeSet<Version> =
        version.available().iter().filter_map(is_between).collect();
    let risky: BTreeSet<Version> = version
        .conditional()
        .iter()
        .filter_map(is_between)
        .collect();
    let mut conditional = Vec::new();
    if wish.allow_not_recommended {
        between.extend(risky);
    } else {
        conditional.extend(risky.iter().map(ToString::to_string));
    }
    if between.is_empty() {
        let minor = minor + 1;
        return Err(CpoObstacle::NoFirstHop {
            major,
            minor,
            conditional,
        });
    }
    second_hop(&between, wish, graph)
}

/// The newest of these that leads to the target, and the risks of that update.
fn second_hop(
    between: &BTreeSet<Version>,
    wish: &CpoWish,
    graph: Option<(&str, &UpdateGraph)>,
) -> Result<(Version, Vec<String>), CpoObstacle> {
    let to = wish.to.clone();
    let Some((channel, graph)) = graph else {
        return Err(CpoObstacle::NoChannel { to });
    };
    let channel = channel.to_owned();
    if !graph.nodes.keys().any(|version| version.is_release(&to)) {
        return Err(CpoObstacle::NotInChannel { channel, to });
    }
    let leads = |edge: &release::update_graph::UpdateEdge, from: &Version| {
        edge.to.is_release(&to) && edge.from.is_release(from)
    };
    let newest = between.iter().rev();
    if let Some(version) = newest
        .clone()
        .find(|version| graph.edges.iter().any(|edge| leads(edge, version)))
    {
        return Ok((version.clone(), Vec::new()));
    }
    // Which of the risks apply is only known once the first hop is done.
    let risks = |version: &Version| {
        let groups = graph.conditional.iter();
        let groups = groups.filter(|group| group.edges.iter().any(|edge| leads(edge, version)));
        let risks = groups.flat_map(|group| group.risks.iter().map(|risk| risk.name.clone()));
        risks.collect::<Vec<String>>()
    };
    let cautioned: Vec<(&Version, Vec<String>)> = newest
        .map(|version| (version, risks(version)))
        .filter(|(_, risks)| !risks.is_empty())
        .collect();
    match cautioned.first() {
        Some((version, risks)) if wish.allow_not_recommended => {
            Ok(((*version).clone(), risks.clone()))
        }
        _ => {
            let offered: Vec<String> = between.iter().map(ToString::to_string).collect();
            let conditional = cautioned
                .iter()
                .map(|(version, risks)| format!("{version} ({})", risks.join(", ")));
            Err(CpoObstacle::NoSecondHop {
                channel,
                offered: offered.join(", "),
                conditional: conditional.collect(),
                to,
            })
        }
    }
}

/// The update to a release, if it is offered now.
pub(super) fn offered(
    cluster: &CpoCluster,
    version: &Version,
    allow_not_recommended: bool,
) -> Result<OfferedUpdate, CpoObstacle> {
    let view = cluster.view();
    let is_it = |update: &OfferedUpdate| update.version == version.to_string();
    if let Some(update) = view.available().into_iter().find(is_it) {
        return Ok(update);
    }
    let conditional = view.conditional().into_iter().find(is_it);
    let why = match conditional {
        Some(update) if allow_not_recommended => return Ok(update),
        Some(OfferedUpdate {
            caution: Some(caution),
            ..
        }) => format!(
            "Recommended={}: {}: {}",
            caution.recommended, caution.reason, caution.message
        ),
        Some(OfferedUpdate { caution: None, .. }) => "it is not recommended".to_owned(),
        None => {
            let channel = cluster.version.text("/spec/channel");
            format!("it is none of the updates of channel {channel:?}")
        }
    };
    let version = version.clone();
    Err(CpoObstacle::NotOffered { version, why })
}

/// What a pool has against it.
fn of_pool(pool: &PoolFacts<'_>, now: Timestamp) -> Vec<CpoObstacle> {
    let mut found: Vec<CpoObstacle> = health(pool).into_iter().collect();
    let name = || pool.name.to_owned();
    if pool.is_control_plane {
        if pool.object.spec.paused {
            found.push(CpoObstacle::ControlPlanePaused { pool: name() });
        }
        return found;
    }
    let labels = pool.object.metadata.labels.as_ref();
    if labels.is_some_and(|labels| labels.contains_key(REQUIRED_FOR_UPGRADE)) {
        found.push(CpoObstacle::Required { pool: name() });
    }
    found.extend(certificates(pool, now));
    found
}

/// Whether a pool is degraded, on its way, or not known to be neither.
fn health(pool: &PoolFacts<'_>) -> Option<CpoObstacle> {
    let name = pool.name.to_owned();
    let missing = |why: &str| CpoObstacle::PoolStatus {
        pool: pool.name.to_owned(),
        why: why.to_owned(),
    };
    let Some(status) = &pool.object.status else {
        return Some(missing("it is missing"));
    };
    if status.observed_generation != pool.object.metadata.generation {
        return Some(missing("observedGeneration is not the pool's"));
    }
    // The last one holds where one of the others does.
    let kinds = [
        PoolConditionType::RolloutDegraded,
        PoolConditionType::NodeDegraded,
        PoolConditionType::RenderDegraded,
        PoolConditionType::ImageBuildDegraded,
        PoolConditionType::Degraded,
    ];
    let holds = kinds.iter().filter_map(|kind| status.condition(kind));
    if let Some(condition) = holds
        .into_iter()
        .find(|condition| condition.status != ConditionStatus::False)
    {
        return Some(CpoObstacle::PoolCondition {
            pool: name,
            kind: condition.r#type.to_string(),
            status: condition.status.to_string(),
            reason: condition.reason.to_string(),
            message: condition.message.clone(),
        });
    }
    let Some(updated) = status.condition(&PoolConditionType::Updated) else {
        return Some(missing("there is no condition Updated"));
    };
    // Of one that others paused, and that stays so, the kubelets decide.
    let is_left = pool.pause == PoolPause::Other && !pool.is_control_plane;
    if updated.status == ConditionStatus::True || is_left {
        return None;
    }
    let updating = status.condition(&PoolConditionType::Updating);
    Some(CpoObstacle::PoolUpdating {
        pool: name,
        updated: status.updated_machine_count,
        total: status.machine_count,
        message: updating.map_or_else(String::new, |condition| condition.message.clone()),
    })
}

/// Bundles of the pool's nodes whose last certificate expires within the longest pause.
fn certificates(pool: &PoolFacts<'_>, now: Timestamp) -> Vec<CpoObstacle> {
    let status = pool.object.status.as_ref();
    let certificates = status.map_or(&[][..], |status| &status.cert_expirys);
    let mut last: BTreeMap<&str, Option<Timestamp>> = BTreeMap::new();
    for certificate in certificates {
        let expiry = certificate.expiry.as_ref().map(|time| time.0);
        let known = last.entry(&certificate.bundle).or_default();
        *known = expiry.max(*known);
    }
    let horizon = now.saturating_add(LONGEST_PAUSE).unwrap_or(Timestamp::MAX);
    let soon = last
        .into_iter()
        .filter(|(_, expiry)| expiry.is_none_or(|expiry| expiry < horizon));
    soon.map(|(bundle, expiry)| CpoObstacle::Certificates {
        pool: pool.name.to_owned(),
        bundle: bundle.to_owned(),
        expiry,
        days: LONGEST_PAUSE.as_hours() / 24,
    })
    .collect()
}

/// Kubelets that the API server would not support at the end of each hop. Those of the control
/// plane are updated with it.
fn kubelets(cluster: &CpoCluster, pools: &[PoolFacts<'_>]) -> Vec<CpoObstacle> {
    let api_server = match cluster.api_server() {
        Ok(version) => version,
        Err(obstacle) => return vec![obstacle],
    };
    let updated: BTreeSet<&str> = pools
        .iter()
        .filter(|pool| pool.is_control_plane)
        .flat_map(|pool| pool.members.iter().map(|node| node.name.as_str()))
        .collect();
    let (with_each_hop, at_the_end): (Vec<_>, Vec<_>) = cluster
        .nodes
        .iter()
        .partition(|node| updated.contains(node.name.as_str()));
    let skews = [
        (1, KubeletSkew::of(api_server.plus(1), with_each_hop)),
        (2, KubeletSkew::of(api_server.plus(2), at_the_end)),
    ];
    let skews = skews.into_iter().filter(|(_, skew)| !skew.is_supported());
    skews
        .map(|(hop, skew)| CpoObstacle::Kubelets { hop, skew })
        .collect()
}

/// Kubelets that the API server would not support once the next hop is done.
pub(super) fn kubelets_after_a_hop(cluster: &CpoCluster, hop: u8) -> Result<(), CpoObstacle> {
    let skew = KubeletSkew::of(cluster.api_server()?.plus(1), &cluster.nodes);
    if skew.is_supported() {
        Ok(())
    } else {
        Err(CpoObstacle::Kubelets { hop, skew })
    }
}

#[cfg(test)]
mod tests;
