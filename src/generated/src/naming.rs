//! Which MachineConfigs an object has, by name: one for each pool that it selects, all with the
//! same number at the end.

use std::cmp::Reverse;

use api::machineconfiguration::annotation;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use pool::selector::Selector;

use crate::pools::PoolFacts;

/// The field by which an object selects pools.
const SELECTOR: &str = "spec.machineConfigPoolSelector";

/// The highest number at the end of a name.
const LAST: u32 = 9;

/// A kind whose objects select pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectingKind {
    /// KubeletConfig.
    Kubelet,
    /// ContainerRuntimeConfig.
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

    fn selects_nothing(self, name: &str) -> String {
        match self {
            Self::Kubelet => {
                "could not find any MachineConfigPool set for KubeletConfig".to_owned()
            }
            Self::Runtime => {
                format!(
                    "could not find any MachineConfigPool set for ContainerRuntimeConfig {name}"
                )
            }
        }
    }

    fn too_many(self) -> String {
        let what = match self {
            Self::Kubelet => "kubelet",
            Self::Runtime => "container runtime",
        };
        format!(
            "max number of supported {what} config ({}) has been reached. Please delete old {what} configs before retrying",
            LAST + 1
        )
    }
}

/// An object that selects pools.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// Which pools it selects.
    pub selector: Option<&'a LabelSelector>,
}

impl<'a> Claimant<'a> {
    /// Its name.
    pub fn name(&self) -> &'a str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The number that it was given before.
    fn number(&self) -> Option<Result<u32, String>> {
        let annotations = self.metadata.annotations.as_ref()?;
        let text = annotations.get(annotation::MC_NAME_SUFFIX)?;
        if text.is_empty() {
            return Some(Ok(0));
        }
        let number = text
            .parse()
            .ok()
            .filter(|number| (1..=LAST).contains(number));
        Some(number.ok_or_else(|| {
            format!(
                "annotation {} has no number from 1 to {LAST}, but {text:?}",
                annotation::MC_NAME_SUFFIX
            )
        }))
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
    /// The pools.
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
) -> Vec<Result<NamedPools<'p>, String>> {
    let mut claims: Vec<Result<NamedPools<'p>, String>> = objects
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
            let known = claims.get(*other)?.as_ref().ok()?;
            let shares = known.shares_a_pool_with(&claim);
            shares.then_some((known.number, objects.get(*other)?.name()))
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
            Err(format!(
                "annotation {} is that of {} {other}, which shares a pool: remove the annotation",
                annotation::MC_NAME_SUFFIX,
                kind.as_str()
            ))
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
) -> Result<Vec<&'p PoolFacts>, String> {
    let selector =
        Selector::parse(SELECTOR, object.selector).map_err(|refusal| refusal.to_string())?;
    let pools: Vec<&PoolFacts> = pools
        .iter()
        .filter(|pool| selector.matches(&pool.labels))
        .collect();
    if pools.is_empty() {
        return Err(kind.selects_nothing(object.name()));
    }
    if let Some(deaf) = pools.iter().find(|pool| !pool.selects_own_role) {
        return Err(format!(
            "MachineConfigPool {}: spec.machineConfigSelector does not select role {}, so the pool would not get the options",
            deaf.name, deaf.name
        ));
    }
    Ok(pools)
}

/// Whether an object selects a pool. One whose selector cannot be read selects none.
pub fn selects(selector: Option<&LabelSelector>, pool: &PoolFacts) -> bool {
    Selector::parse(SELECTOR, selector).is_ok_and(|selector| selector.matches(&pool.labels))
}

#[cfg(test)]
mod tests;
