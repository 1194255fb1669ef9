//! Which pool a node belongs to.

use std::collections::BTreeMap;
use std::fmt;

use api::machineconfiguration::label::role::{ARBITER, MASTER, WORKER};

use crate::node::{NodeView, is_windows};
use crate::view::PoolView;

/// The pool whose nodes vote in the same etcd as those of `pool`, if there is such a pool: they
/// share one budget.
pub fn partner(pool: &str) -> Option<&'static str> {
    match pool {
        MASTER => Some(ARBITER),
        ARBITER => Some(MASTER),
        _ => None,
    }
}

/// The pool of `pool` and its partner that holds the claims of both.
pub fn claim_holder(pool: &str) -> &str {
    if pool == ARBITER { MASTER } else { pool }
}

/// The pool of a node, or why it has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement<'a> {
    Pool(&'a str),
    /// To `master`, though a custom pool selects it too.
    MasterOverCustom {
        custom: &'a str,
    },
    /// To no pool, because more than one custom pool selects it.
    Conflict(Conflict),
    /// To no pool, because none selects it or it runs Windows.
    Unmanaged,
}

impl<'a> Placement<'a> {
    /// Finds the pool of a node with these labels among the pools that select it.
    ///
    /// Shape: `master`, the control plane's, over the one custom pool over `worker`; every pool of
    /// another name is custom.
    ///
    /// Source: upstream's node controller.
    pub fn among(
        node: &str,
        labels: &BTreeMap<String, String>,
        selecting: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        if is_windows(labels) {
            return Self::Unmanaged;
        }
        let mut master = None;
        let mut worker = None;
        let mut custom = Vec::new();
        for pool in selecting {
            match pool {
                MASTER => master = Some(pool),
                WORKER => worker = Some(pool),
                name => custom.push(name),
            }
        }
        custom.sort_unstable();
        match (master, custom.as_slice(), worker) {
            (_, [_, _, ..], _) => Self::Conflict(Conflict {
                node: node.to_owned(),
                pools: custom.into_iter().map(ToOwned::to_owned).collect(),
            }),
            (Some(_), [custom], _) => Self::MasterOverCustom { custom },
            (None, [pool], _) => Self::Pool(pool),
            (Some(pool), [], _) | (None, [], Some(pool)) => Self::Pool(pool),
            (None, [], None) => Self::Unmanaged,
        }
    }

    /// The node's pool, if it has one.
    pub const fn pool(&self) -> Option<&'a str> {
        match self {
            Self::Pool(pool) => Some(pool),
            Self::MasterOverCustom { .. } => Some(MASTER),
            Self::Conflict(_) | Self::Unmanaged => None,
        }
    }
}

/// A node that more than one custom pool selects. None may touch it: their configurations
/// contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub node: String,
    /// Names of the pools, sorted.
    pub pools: Vec<String>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "node {} belongs to {} custom roles, cannot proceed with this Node: pools {} select it by spec.nodeSelector",
            self.node,
            self.pools.len(),
            self.pools.join(", ")
        )
    }
}

/// Finds the pool of a node, as [`Placement::among`] does. A pool whose selector is absent, `{}` or
/// cannot be read selects nothing.
pub fn place<'a>(node: &NodeView, pools: impl IntoIterator<Item = &'a PoolView>) -> Placement<'a> {
    let selecting = pools.into_iter().filter(|pool| pool.selects(node));
    let selecting = selecting.map(|pool| pool.name.as_str());
    Placement::among(&node.name, &node.labels, selecting)
}

/// The initial pool of a node whose first configuration was a custom pool's, until it has that
/// pool's labels once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InitialPool<'a> {
    /// The pool's labels make the node its member.
    Labels(&'a PoolView),
    /// A person has given it the labels of a custom pool.
    Labelled(&'a PoolView),
    /// The pool's selector tells no labels that would: the node is left alone.
    Unknown(&'a PoolView),
}

impl<'a> InitialPool<'a> {
    /// The pool that the node was made for.
    pub const fn pool(self) -> &'a PoolView {
        match self {
            Self::Labels(pool) | Self::Labelled(pool) | Self::Unknown(pool) => pool,
        }
    }

    /// Whether the node is in a pool by labels that it is to keep.
    pub const fn is_labelled(self) -> bool {
        matches!(self, Self::Labelled(_))
    }
}

fn is_custom(pool: &str) -> bool {
    ![MASTER, WORKER].contains(&pool)
}

/// The custom pool of a node's initial configuration, while the node lacks the pool's labels.
///
/// A machine joins with the configuration of a custom pool before any program can label its Node.
/// `owner` returns the uid of the pool that a rendered configuration was made for.
///
/// Source: `docs/reference/controller.md`, "First labels".
pub fn initial_pool<'a>(
    node: &NodeView,
    pools: impl IntoIterator<Item = &'a PoolView>,
    owner: impl Fn(&str) -> Option<String>,
) -> Option<InitialPool<'a>> {
    let uid = owner(node.initial_config.as_deref()?)?;
    let pools = pools.into_iter();
    let custom = pools.filter(|pool| is_custom(&pool.name) && !pool.is_deleted);
    let custom: Vec<&PoolView> = custom.collect();
    let pool = custom.iter().copied().find(|pool| pool.uid == uid)?;
    Some(if pool.selects(node) {
        InitialPool::Labelled(pool)
    } else if pool.would_select(node) {
        InitialPool::Labels(pool)
    } else if custom.iter().any(|other| other.selects(node)) {
        InitialPool::Labelled(pool)
    } else {
        InitialPool::Unknown(pool)
    })
}

/// The name of the custom pool that a node was made for, where that pool is gone before the node
/// had its labels. The rendered configuration goes with its pool, and has its name.
pub fn lost_pool<'a>(
    node: &'a NodeView,
    mut pools: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let config = node.initial_config.as_deref()?;
    let (pool, _hash) = config.strip_prefix("rendered-")?.rsplit_once('-')?;
    (is_custom(pool) && pools.all(|other| other != pool)).then_some(pool)
}

/// All nodes, sorted into their pools.
#[derive(Debug, Default)]
pub struct Membership<'a> {
    /// Nodes by the name of their pool.
    pub members: BTreeMap<&'a str, Vec<&'a NodeView>>,
    /// Nodes that no pool may touch.
    pub conflicts: Vec<Conflict>,
    /// Nodes of `master` that a custom pool selects too, each with that pool.
    pub alerts: Vec<(&'a str, &'a str)>,
    /// Nodes that were managed once and that no pool selects any more.
    pub orphans: Vec<&'a str>,
}

impl<'a> Membership<'a> {
    pub fn sort(nodes: impl IntoIterator<Item = &'a NodeView>, pools: &'a [PoolView]) -> Self {
        let mut sorted = Self::default();
        for node in nodes {
            match place(node, pools) {
                Placement::Pool(pool) => sorted.members.entry(pool).or_default().push(node),
                Placement::MasterOverCustom { custom } => {
                    sorted.members.entry(MASTER).or_default().push(node);
                    sorted.alerts.push((&node.name, custom));
                }
                Placement::Conflict(conflict) => sorted.conflicts.push(conflict),
                Placement::Unmanaged => {
                    if node.status.current_config.is_some() && !node.is_windows() {
                        sorted.orphans.push(&node.name);
                    }
                }
            }
        }
        sorted
    }

    /// Nodes of a pool.
    pub fn of(&self, pool: &str) -> &[&'a NodeView] {
        self.members.get(pool).map_or(&[], Vec::as_slice)
    }

    /// Conflicts that a pool takes part in.
    pub fn conflicts_of(&self, pool: &str) -> impl Iterator<Item = &Conflict> {
        self.conflicts
            .iter()
            .filter(move |conflict| conflict.pools.iter().any(|name| name == pool))
    }
}

#[cfg(test)]
mod tests;
