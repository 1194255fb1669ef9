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
use std::ops::RangeInclusive;
use std::sync::Arc;

use api::machineconfiguration::{KubeletConfig, TlsSecurityProfile};
use serde_json::Value;

use self::compose::{KUBELET_CONF, ParseError};
use self::options::Options;
use crate::latency::NodeAsks;
use crate::naming::{self, Claimant, NamedPools, SelectingKind, claims};
use crate::object::{self, API_VERSION, GeneratedConfig, Maker, SettingOutcome};
use crate::pools::PoolFacts;
use crate::tls;

/// Why a role has no `kubelet.conf` that options are laid over: its MachineConfig, by name.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BaseError {
    #[error(
        "MachineConfig {0} is missing, which has the {KUBELET_CONF} that options are laid over"
    )]
    Missing(String),
    /// It has no such file.
    #[error("MachineConfig {0}: it does not write {KUBELET_CONF}")]
    NoFile(String),
    /// The file cannot be read.
    #[error("MachineConfig {0}")]
    ReadFile(String, #[source] Arc<object::Error>),
    /// The text of the file is none.
    #[error("MachineConfig {0}")]
    ParseFile(String, #[source] ParseError),
}

/// Why options of kubelets are not followed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Pools or number of the KubeletConfig.
    #[error(transparent)]
    Naming(#[from] naming::Error),
    /// The role has no base.
    #[error("there is no base for role {0}")]
    NoBase(String),
    /// The base of the role cannot be read.
    #[error(transparent)]
    Base(#[from] BaseError),
    /// `kubelet.conf` cannot be printed.
    #[error("kubelet.conf cannot be written")]
    Print(#[source] Arc<serde_saphyr::ser::Error>),
    #[error(transparent)]
    ClusterTls(#[from] tls::Error),
    /// The KubeletConfig's TLS profile. Its field goes on in the message of the profile.
    #[error("spec.{0}")]
    OwnTls(tls::Error),
    /// A TLS profile without a type.
    #[error("spec.tlsSecurityProfile.type is empty")]
    NoTlsType,
    /// The options are no object.
    #[error("spec.kubeletConfig is not an object")]
    NoObject,
    /// They are of another kind or version: field, expected, found.
    #[error("spec.kubeletConfig.{0} is not {1}, but {2}")]
    WrongType(&'static str, &'static str, String),
    /// A path that the kubelet has with other capitals.
    #[error("{0} is no field of the kubelet's, which has {1}")]
    MisspelledField(String, &'static str),
    /// A path that the kubelet does not have.
    #[error("{0} is no field of the kubelet's")]
    UnknownField(String),
    /// An item of a list.
    #[error("{0} is empty")]
    EmptyItem(String),
    /// Path, value, and what it is not.
    #[error("{0} {1} is no {2}")]
    MistypedField(String, String, &'static str),
    /// Path, value, and the numbers that it has.
    #[error("{0} {1} is not in {least} to {most}", least = .2.start(), most = .2.end())]
    OutOfRange(String, i64, RangeInclusive<i64>),
    /// A field that belongs to the cluster, and its value.
    #[error("KubeletConfiguration: {0} is not allowed to be set, but contains: {1}")]
    NotAllowed(&'static str, String),
    /// A reservation by hand and one by size. OpenShift's words, its slip included.
    #[error("autoSizingReserved and systemdReserved cannot be set together")]
    ReservedTwice,
    /// What is reserved is not that of the system: both groups.
    #[error("spec.kubeletConfig.systemReservedCgroup {0} is not systemCgroups {1}")]
    OtherCgroup(String, String),
}

/// What KubeletConfigs are laid over.
#[derive(Debug, Clone, Default)]
pub struct KubeletBase {
    /// `kubelet.conf` of each role, or why there is none.
    pub roles: BTreeMap<String, Result<Value, BaseError>>,
    /// Feature gates of the cluster.
    pub gates: Option<BTreeMap<String, bool>>,
    /// TLS of the cluster's servers.
    pub tls: Option<TlsSecurityProfile>,
    /// Settings that all nodes share.
    pub node: Option<NodeAsks>,
}

impl KubeletBase {
    /// The `kubelet.conf` of a pool.
    pub(crate) fn of(&self, pool: &PoolFacts) -> Result<&Value, Error> {
        let of_role = self.roles.get(pool.role());
        let conf = of_role.ok_or_else(|| Error::NoBase(pool.role().to_owned()))?;
        Ok(conf.as_ref().map_err(Clone::clone)?)
    }
}

#[derive(Debug, Clone, Default)]
pub struct KubeletPlan {
    /// MachineConfigs of those that are followed.
    pub configs: Vec<GeneratedConfig>,
    /// What becomes of each that is not under deletion.
    pub outcomes: Vec<SettingOutcome<Error>>,
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
    let mut candidates: Vec<(&KubeletConfig, Result<NamedPools<'_>, naming::Error>)> =
        configs.iter().copied().zip(names).collect();
    candidates.retain(|(config, _)| config.metadata.deletion_timestamp.is_none());
    // The order of names, in which one lies over another.
    candidates.sort_by_key(|(_, names)| names.as_ref().map_or(u32::MAX, |names| names.number));
    let mut plan = KubeletPlan::default();
    let mut accepted: Vec<Accepted<'_>> = Vec::new();
    for (config, names) in candidates {
        let name = config.metadata.name.clone().unwrap_or_default();
        let suffix = names.as_ref().ok().map(NamedPools::suffix);
        let made = names
            .map_err(Error::from)
            .and_then(|names| make(config, names, &accepted, base));
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

/// Remarks about KubeletConfigs of one pool that set a field differently: to both.
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
) -> Result<(Accepted<'a>, Vec<GeneratedConfig>), Error> {
    let name = config.metadata.name.as_deref().unwrap_or_default();
    let options = Options::read(&config.spec)?;
    let mut made = Vec::new();
    for pool in &names.pools {
        options.check_for(pool)?;
        let below = accepted.iter().filter(|other| {
            other
                .pools
                .iter()
                .any(|selected| selected.name == pool.name)
        });
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
