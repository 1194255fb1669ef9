//! KubeletConfigs: the kubelet's options of pools.
//!
//! The MachineConfig of each holds a complete `kubelet.conf`, and the last by name is in force. So
//! each is made of the pool's base and all KubeletConfigs up to its own: several are merged by
//! field. Of two that set one field differently the last is in force, and the status of both says
//! so.
//!
//! - `options`: one KubeletConfig, read and checked
//! - `schema`: the fields of a KubeletConfiguration
//! - [`compose`]: the files of a pool

pub mod compose;
mod options;
mod schema;

use std::collections::BTreeMap;

use api::machineconfiguration::{KubeletConfig, TlsSecurityProfile};
use serde_json::Value;

use self::options::Options;
use crate::latency::NodeAsks;
use crate::naming::{Claimant, NamedPools, SelectingKind, claims};
use crate::object::{API_VERSION, GeneratedConfig, Maker, SettingOutcome};
use crate::pools::PoolFacts;

/// What KubeletConfigs are laid over.
#[derive(Debug, Clone, Default)]
pub struct KubeletBase {
    /// `kubelet.conf` of each role, or why there is none.
    pub roles: BTreeMap<String, Result<Value, String>>,
    /// Feature gates of the cluster.
    pub gates: Option<BTreeMap<String, bool>>,
    /// TLS of the cluster's servers.
    pub tls: Option<TlsSecurityProfile>,
    /// Settings that all nodes share.
    pub node: Option<NodeAsks>,
}

impl KubeletBase {
    /// The `kubelet.conf` of a pool.
    pub(crate) fn of(&self, pool: &PoolFacts) -> Result<&Value, String> {
        let of_role = self.roles.get(pool.role());
        let conf = of_role.ok_or_else(|| format!("there is no base for role {}", pool.role()))?;
        conf.as_ref().map_err(Clone::clone)
    }
}

/// What KubeletConfigs come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KubeletPlan {
    /// MachineConfigs of those that are followed.
    pub configs: Vec<GeneratedConfig>,
    /// What becomes of each that is not under deletion.
    pub outcomes: Vec<SettingOutcome>,
}

/// Makes the MachineConfigs that KubeletConfigs ask for.
///
/// A refused one contributes to none, and those of its pools wait for it; what it had before stays.
///
/// Source: `docs/reference/controller.md`, "KubeletConfig".
pub fn plan(configs: &[&KubeletConfig], pools: &[PoolFacts], base: &KubeletBase) -> KubeletPlan {
    let claimants: Vec<Claimant<'_>> = configs
        .iter()
        .map(|config| Claimant {
            metadata: &config.metadata,
            selector: config.spec.machine_config_pool_selector.as_ref(),
        })
        .collect();
    let names = claims(SelectingKind::Kubelet, &claimants, pools);
    let mut candidates: Vec<(&KubeletConfig, Result<NamedPools<'_>, String>)> =
        configs.iter().copied().zip(names).collect();
    candidates.retain(|(config, _)| config.metadata.deletion_timestamp.is_none());
    // The order of names, in which one lies over another.
    candidates.sort_by_key(|(_, names)| names.as_ref().map_or(u32::MAX, |names| names.number));
    let mut plan = KubeletPlan::default();
    let mut accepted: Vec<Accepted<'_>> = Vec::new();
    for (config, names) in candidates {
        let name = config.metadata.name.clone().unwrap_or_default();
        let suffix = names.as_ref().ok().map(NamedPools::suffix);
        let made = names.and_then(|names| make(config, names, &accepted, base));
        let (configs, result) = match made {
            Ok((own, configs)) => {
                accepted.push(own);
                (configs, Ok(()))
            }
            Err(why) => (Vec::new(), Err(why)),
        };
        plan.outcomes.push(SettingOutcome {
            name,
            suffix,
            configs: configs.iter().map(|config| config.name.clone()).collect(),
            remarks: Vec::new(),
            result,
        });
        plan.configs.extend(configs);
    }
    for (name, remark) in remarks(&accepted) {
        let mut outcomes = plan.outcomes.iter_mut();
        if let Some(outcome) = outcomes.find(|outcome| outcome.name == name) {
            outcome.remarks.push(remark);
        }
    }
    plan
}

/// What is said of KubeletConfigs of one pool that set a field differently: to both.
fn remarks<'a>(accepted: &[Accepted<'a>]) -> Vec<(&'a str, String)> {
    let mut all = Vec::new();
    for (index, upper) in accepted.iter().enumerate() {
        for under in accepted.iter().take(index) {
            let shared = upper.pools.iter();
            let shared: Vec<&str> = shared
                .filter(|pool| under.pools.iter().any(|other| other.name == pool.name))
                .map(|pool| pool.name.as_str())
                .collect();
            let fields = under.options.conflicts_with(&upper.options);
            if shared.is_empty() || fields.is_empty() {
                continue;
            }
            let remark = format!(
                "KubeletConfigs {} and {} of MachineConfigPool {} set {} differently: {}, the last, is in force",
                under.name,
                upper.name,
                shared.join(", "),
                fields.join(", "),
                upper.name
            );
            all.push((under.name, remark.clone()));
            all.push((upper.name, remark));
        }
    }
    all
}

/// A KubeletConfig that others lie over.
struct Accepted<'a> {
    name: &'a str,
    pools: Vec<&'a PoolFacts>,
    options: Options,
}

fn make<'a>(
    config: &'a KubeletConfig,
    names: NamedPools<'a>,
    accepted: &[Accepted<'a>],
    base: &KubeletBase,
) -> Result<(Accepted<'a>, Vec<GeneratedConfig>), String> {
    let name = config.metadata.name.as_deref().unwrap_or_default();
    let options = Options::read(&config.spec)?;
    let mut made = Vec::new();
    for pool in &names.pools {
        options.check_for(pool)?;
        let below = accepted
            .iter()
            .filter(|other| other.pools.iter().any(|known| known.name == pool.name));
        let mut merged = Options::default();
        for other in below {
            merged.overlay(&other.options);
        }
        merged.overlay(&options);
        let files = compose::files(base.of(pool)?, &merged, base, pool)?;
        made.push(GeneratedConfig::of_files(
            SelectingKind::Kubelet.config_name(&pool.name, names.number),
            &pool.name,
            Some(Maker {
                api_version: API_VERSION,
                kind: SelectingKind::Kubelet.as_str(),
                name: name.to_owned(),
                uid: config.metadata.uid.clone().unwrap_or_default(),
            }),
            &files,
        ));
    }
    let own = Accepted {
        name,
        pools: names.pools,
        options,
    };
    Ok((own, made))
}

#[cfg(test)]
mod tests;
