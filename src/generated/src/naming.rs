//! Which MachineConfigs an object has, by name: one for each pool that it selects, all with the
//! same number at the end.

use std::cmp::Reverse;

use api::machineconfiguration::annotation;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use pool::selector::{InvalidSelector, Selector};

use crate::pools::PoolFacts;

/// The field by which an object selects pools.
const SELECTOR: &str = "spec.machineConfigPoolSelector";

/// The highest number at the end of a name.
const LAST: u32 = 9;

/// Why an object has no MachineConfigs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The selector cannot be read.
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
    /// A KubeletConfig selects no pool.
    #[error("could not find any MachineConfigPool set for KubeletConfig")]
    NoKubeletPool,
    /// A ContainerRuntimeConfig of this name selects no pool.
    #[error("could not find any MachineConfigPool set for ContainerRuntimeConfig {0}")]
    NoRuntimePool(String),
    /// The named pool would not get what is generated for it.
    #[error(
        "MachineConfigPool {0}: spec.machineConfigSelector does not select role {0}, so the pool would not get the options"
    )]
    DeafPool(String),
    /// Its pools have as many objects of the kind as there are numbers.
    #[error(
        "max number of supported {0} config ({count}) has been reached. Please delete old {0} configs before retrying",
        count = LAST + 1
    )]
    TooMany(&'static str),
    /// The number that it was given before is none.
    #[error("annotation {suffix} has no number from 1 to {LAST}, but {0:?}", suffix = annotation::MC_NAME_SUFFIX)]
    NoNumber(String),
    /// The number that it was given before is that of the named object.
    #[error(
        "annotation {suffix} is that of {kind} {1}, which shares a pool: remove the annotation",
        kind = .0.as_str(),
        suffix = annotation::MC_NAME_SUFFIX
    )]
    NumberTaken(SelectingKind, String),
}

/// A kind whose objects select pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectingKind {
    Kubelet,
    Runtime,
}

impl SelectingKind {
    /// The name of the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubelet => "KubeletConfig",
            Self::Runtime => "ContainerRuntimeConfig",
        }
    }

    /// The name of the MachineConfig of a pool.
    ///
    /// Source: `docs/reference/controller.md`, "Generated configurations".
    pub fn config_name(self, pool: &str, number: u32) -> String {
        let stem = self.stem();
        match number {
            0 => format!("99-{pool}-generated-{stem}"),
            number => format!("99-{pool}-generated-{stem}-{number}"),
        }
    }

    /// Whether a MachineConfig has a name of this kind.
    pub fn has_name(self, name: &str) -> bool {
        let Some((before, stem)) = name.rsplit_once("-generated-") else {
            return false;
        };
        let stem = stem.trim_end_matches(|end: char| end.is_ascii_digit());
        before.starts_with("99-") && stem.trim_end_matches('-') == self.stem()
    }

    const fn stem(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::Runtime => "containerruntime",
        }
    }

    fn selects_nothing(self, name: &str) -> Error {
        match self {
            Self::Kubelet => Error::NoKubeletPool,
            Self::Runtime => Error::NoRuntimePool(name.to_owned()),
        }
    }

    const fn too_many(self) -> Error {
        Error::TooMany(match self {
            Self::Kubelet => "kubelet",
            Self::Runtime => "container runtime",
        })
    }
}

/// An object that selects pools.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    pub metadata: &'a ObjectMeta,
    pub selector: Option<&'a LabelSelector>,
}

impl<'a> Claimant<'a> {
    pub fn name(&self) -> &'a str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The number that it was given before.
    fn number(&self) -> Option<Result<u32, Error>> {
        let annotations = self.metadata.annotations.as_ref()?;
        let text = annotations.get(annotation::MC_NAME_SUFFIX)?;
        if text.is_empty() {
            return Some(Ok(0));
        }
        let number = text
            .parse()
            .ok()
            .filter(|number| (1..=LAST).contains(number));
        Some(number.ok_or_else(|| Error::NoNumber(text.clone())))
    }

    /// Older ones first.
    fn age(&self) -> (Reverse<bool>, Option<Timestamp>, &'a str) {
        let created = self.metadata.creation_timestamp.as_ref();
        let created = created.map(|time| time.0);
        (Reverse(created.is_some()), created, self.name())
    }
}

/// The pools of an object, and the number at the end of its names.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedPools<'p> {
    pub pools: Vec<&'p PoolFacts>,
    /// 0 for none.
    pub number: u32,
}

impl NamedPools<'_> {
    /// The annotation that keeps the number.
    pub fn suffix(&self) -> String {
        match self.number {
            0 => String::new(),
            number => number.to_string(),
        }
    }

    fn shares_a_pool_with(&self, other: &Self) -> bool {
        let mut pools = self.pools.iter();
        pools.any(|pool| other.pools.iter().any(|other| other.name == pool.name))
    }
}

/// Gives each object its pools and its number, in the order of `objects`.
///
/// A number once given stays. The first object of its pools has none, each later one the next after
/// the highest: numbers of deleted objects are not given again while a higher one is there. Objects
/// under deletion count.
///
/// # Errors
/// For each object: a selector that cannot be read or selects no pool, a pool that would not select
/// what is generated, an unreadable or repeated number, and the eleventh object of a pool.
pub fn claims<'p>(
    kind: SelectingKind,
    objects: &[Claimant<'_>],
    pools: &'p [PoolFacts],
) -> Vec<Result<NamedPools<'p>, Error>> {
    let mut claims: Vec<Result<NamedPools<'p>, Error>> = objects
        .iter()
        .map(|object| {
            let pools = selected(kind, object, pools)?;
            let number = object.number().transpose()?.unwrap_or_default();
            Ok(NamedPools { pools, number })
        })
        .collect();
    let mut order: Vec<usize> = (0..objects.len()).collect();
    let is_new = |index: &usize| {
        objects
            .get(*index)
            .is_none_or(|object| object.number().is_none())
    };
    // Who has a number keeps it, so it comes first.
    order.sort_by_key(|index| (is_new(index), objects.get(*index).map(Claimant::age)));
    let mut settled: Vec<usize> = Vec::new();
    for index in order {
        let Some(Ok(claim)) = claims.get(index) else {
            continue;
        };
        let mut claim = claim.clone();
        let others = settled.iter().filter_map(|other| {
            let earlier = claims.get(*other)?.as_ref().ok()?;
            let shares = earlier.shares_a_pool_with(&claim);
            shares.then_some((earlier.number, objects.get(*other)?.name()))
        });
        let others: Vec<(u32, &str)> = others.collect();
        let result = if is_new(&index) {
            let highest = others.iter().map(|(number, _)| *number).max();
            claim.number = highest.map_or(0, |highest| highest + 1);
            if claim.number > LAST {
                Err(kind.too_many())
            } else {
                Ok(claim)
            }
        } else if let Some((_, other)) = others.iter().find(|(number, _)| *number == claim.number) {
            Err(Error::NumberTaken(kind, (*other).to_owned()))
        } else {
            Ok(claim)
        };
        if result.is_ok() {
            settled.push(index);
        }
        if let Some(slot) = claims.get_mut(index) {
            *slot = result;
        }
    }
    claims
}

fn selected<'p>(
    kind: SelectingKind,
    object: &Claimant<'_>,
    pools: &'p [PoolFacts],
) -> Result<Vec<&'p PoolFacts>, Error> {
    let selector = Selector::parse(SELECTOR, object.selector)?;
    let pools: Vec<&PoolFacts> = pools
        .iter()
        .filter(|pool| selector.matches(&pool.labels))
        .collect();
    if pools.is_empty() {
        return Err(kind.selects_nothing(object.name()));
    }
    if let Some(deaf) = pools.iter().find(|pool| !pool.selects_own_role) {
        return Err(Error::DeafPool(deaf.name.clone()));
    }
    Ok(pools)
}

/// Whether an object selects a pool. One whose selector cannot be read selects none.
pub fn selects(selector: Option<&LabelSelector>, pool: &PoolFacts) -> bool {
    Selector::parse(SELECTOR, selector).is_ok_and(|selector| selector.matches(&pool.labels))
}

#[cfg(test)]
mod tests;
