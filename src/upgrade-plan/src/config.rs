//! The operator's ConfigMap: as written, merged with the defaults, and validated. Only the last
//! form leaves this module.

mod check;
mod glob;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use api::upgrade::upgrade_config::LONGEST_FORCE_DRAIN_MINUTES;
use api::upgrade::{UpgradeConfigSpec, UpgradeType};
use jiff::SignedDuration;
use pool::recurrence::RecurringWindow;
use regex::Regex;

use self::check::Check;
use self::glob::Glob;
pub use self::written::WrittenError;
use self::written::{MergedConfig, WrittenConfig};
use crate::fleet::FleetSettings;
use crate::hook::Hook;
use crate::step::UpgradeStep;

/// Most machines that each copy of a MachineSet may have.
const MOST_MACHINES: u32 = 100;

/// Name of the ConfigMap in the operator's namespace, and its key.
pub const CONFIG_MAP: &str = "managed-upgrade-operator-config";
/// Key of the ConfigMap.
pub const KEY: &str = "config.yaml";

/// The settings, validated. `docs/reference/managed-upgrade.md` describes each key.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "keys of a file, independent of each other"
)]
pub struct OperatorConfig {
    /// Where an UpgradeConfig comes from.
    pub source: ConfigSource,
    /// The fleet manager, if that is the source.
    pub fleet: Option<FleetSettings>,
    /// Time between two looks at the source.
    pub watch_interval: SignedDuration,
    /// How long a control plane may take.
    pub control_plane_time: SignedDuration,
    /// Critical alerts that are silenced with the control plane.
    pub control_plane_criticals: Vec<String>,
    /// How long extra machines may take.
    pub scale_timeout: SignedDuration,
    /// How many machines each copy of a MachineSet has.
    pub extra_machines: u32,
    /// Labels of machine pools beside `worker` that get extra machines.
    pub extra_machine_pools: Vec<Glob>,
    /// Time after which an upgrade that has not changed the cluster is given up; none for never.
    pub window: Option<SignedDuration>,
    /// Time after which an upgrade that has not changed the cluster counts as delayed; none for
    /// never.
    pub delay_trigger: Option<SignedDuration>,
    /// How long a drain may take.
    pub node_drain_timeout: SignedDuration,
    /// How long a drain takes that nothing blocks.
    pub expected_drain_time: SignedDuration,
    /// Whether drains that are stuck are helped.
    pub helps_drains: bool,
    /// Namespaces whose pods are not removed by force.
    pub ignored_drains: Vec<Regex>,
    /// Critical alerts that do not hold an upgrade.
    pub ignored_criticals: Vec<String>,
    /// Namespaces whose alerts do not hold an upgrade.
    pub ignored_namespaces: Vec<String>,
    /// Addresses that must respond before the cluster is changed.
    pub dependencies: Vec<String>,
    /// How long each may take.
    pub dependency_timeout: SignedDuration,
    /// Whether a version of another channel is looked up in the update service.
    pub verifies_graph: bool,
    /// Whether the file integrity database is initialised after the upgrade.
    pub is_fedramp: bool,
    /// Whether all health checks run, not only alerts and operators.
    pub has_all_health_checks: bool,
    /// Names of risks that do not hold a conditional update.
    pub accepted_risks: BTreeSet<String>,
    /// Where announcements are sent as `CloudEvents`, if anywhere.
    pub cloud_events: Option<String>,
    /// Windows in which the cluster may be changed; none for at any time.
    pub windows: Vec<RecurringWindow>,
    /// Jobs before and after steps, in order.
    pub hooks: Vec<Hook>,
    /// Lists of steps in place of the usual ones.
    custom_steps: BTreeMap<UpgradeType, Vec<UpgradeStep>>,
    /// Keys that cannot be used, of features that these settings do not need.
    pub unused: Vec<InvalidKey>,
    /// Keys that cannot be used and are needed to add machines.
    pub scale_faults: Vec<InvalidKey>,
}

/// Where an UpgradeConfig comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// It is created by an administrator and stays.
    Unmanaged,
    /// The same, and a finished one is deleted.
    Local,
    /// Policies of the fleet manager ask for it.
    Fleet,
}

/// A key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}: field {field}: {why}")]
pub struct InvalidKey {
    /// What upstream calls the fault.
    words: String,
    /// Path of the key.
    field: String,
    why: String,
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ConfigMap or its key is missing.
    #[error("there is no ConfigMap {CONFIG_MAP} with a key {KEY} in namespace {0}")]
    Missing(String),
    /// The text is no YAML of this shape.
    #[error("check config map {CONFIG_MAP} for incorrect yaml formatting")]
    Syntax(#[source] WrittenError),
    /// Some keys cannot be used.
    #[error("{}", list(.0))]
    Invalid(Vec<InvalidKey>),
}

/// Keys that cannot be used, in one line.
pub fn list(keys: &[InvalidKey]) -> String {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    keys.join("; ")
}

impl OperatorConfig {
    /// Reads the text of the ConfigMap.
    ///
    /// # Errors
    /// [`Error::Syntax`]; [`Error::Invalid`] with all keys that cannot be used.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let merged = WrittenConfig::parse(text).map_err(Error::Syntax)?.merge();
        Self::validate(merged).map_err(Error::Invalid)
    }

    /// The steps of an upgrade of that type, in order.
    pub fn steps(&self, r#type: &UpgradeType) -> Vec<UpgradeStep> {
        match self.custom_steps.get(r#type) {
            Some(steps) => steps.clone(),
            None => crate::step::usual(r#type),
        }
    }

    /// How long `pending` workers may take, each of them after the longer of both drain times: at
    /// most a year, so that the time of its end is one.
    pub fn worker_window(&self, pending: u32, force_drain: SignedDuration) -> SignedDuration {
        let longest = self.node_drain_timeout.max(force_drain);
        let each = longest.saturating_add(self.expected_drain_time);
        let all = each.saturating_mul(i32::try_from(pending).unwrap_or(i32::MAX));
        all.min(LONGEST)
    }

    fn validate(merged: MergedConfig) -> Result<Self, Vec<InvalidKey>> {
        let mut check = Check::default();
        let source = check.source(&merged);
        let upgrade_type = check.upgrade_type(&merged.upgrade_type);
        let fleet = check.fleet(&merged, source, upgrade_type);
        let mut scale = Check::default();
        let extra_machine_pools = scale.globs(&merged.extra_machine_pools);
        let mut unused = Check::default();
        let ignored_drains = check.patterns(&merged.ignored_namespace_patterns);
        check.gates(&merged.gates);
        unused.service_log(&merged.gates, fleet.as_ref());
        let windows = check.windows(&merged.windows);
        let hooks = check.hooks(&merged.hooks);
        let custom_steps = check.steps(&merged.steps);
        check.dependencies(&merged);
        let source_check = if source == ConfigSource::Unmanaged {
            &mut unused
        } else {
            &mut check
        };
        let watch_interval = source_check.positive(
            "configManager.watchInterval",
            "config configManager watchInterval is invalid",
            merged.watch_interval,
        );
        check.cloud_events(merged.cloud_events.as_deref());
        let config = Self {
            source,
            fleet,
            watch_interval,
            control_plane_time: check.positive(
                "maintenance.controlPlaneTime",
                "config maintenance controlPlaneTime out is invalid",
                merged.control_plane_time,
            ),
            control_plane_criticals: merged.control_plane_criticals,
            scale_timeout: scale.positive(
                "scale.timeOut",
                "config scale timeOut is invalid",
                merged.scale_timeout,
            ),
            extra_machines: scale.machines(merged.extra_machines),
            extra_machine_pools,
            window: check.or_never(
                "upgradeWindow.timeOut",
                "config upgrade window time out is invalid",
                merged.window_timeout,
            ),
            delay_trigger: check.or_never(
                "upgradeWindow.delayTrigger",
                "config upgrade window delay trigger is invalid",
                merged.delay_trigger,
            ),
            node_drain_timeout: check.positive(
                "nodeDrain.timeOut",
                "config nodeDrain timeOut is invalid",
                merged.node_drain_timeout,
            ),
            expected_drain_time: check.positive(
                "nodeDrain.expectedNodeDrainTime",
                "config nodeDrain expectedNodeDrainTime is invalid",
                merged.expected_drain_time,
            ),
            helps_drains: merged.helps_drains,
            ignored_drains,
            ignored_criticals: merged.ignored_criticals,
            ignored_namespaces: merged.ignored_namespaces,
            dependencies: merged.dependencies,
            dependency_timeout: SignedDuration::from_secs(merged.dependency_timeout),
            verifies_graph: merged.verifies_graph,
            is_fedramp: merged.is_fedramp,
            has_all_health_checks: merged.gates.iter().any(|gate| gate == PRE_HEALTH_CHECK),
            accepted_risks: merged.accepted_risks.into_iter().collect(),
            cloud_events: merged.cloud_events,
            windows,
            hooks,
            custom_steps,
            unused: unused.0,
            scale_faults: scale.0,
        };
        if check.0.is_empty() {
            Ok(config)
        } else {
            Err(check.0)
        }
    }
}

const PRE_HEALTH_CHECK: &str = "PreHealthCheck";
const SERVICE_LOG: &str = "ServiceLogNotification";

/// Longest time in minutes: a year. Sums of times stay far from what a timestamp can hold.
const LONGEST_MINUTES: i64 = LONGEST_FORCE_DRAIN_MINUTES as i64;
const LONGEST: SignedDuration = SignedDuration::from_mins(LONGEST_MINUTES);

/// How long an UpgradeConfig lets a budget block a drain. Its definition has not always limited
/// that.
pub fn force_drain(spec: &UpgradeConfigSpec) -> SignedDuration {
    let minutes = spec.pdb_force_drain_timeout;
    SignedDuration::from_mins(minutes.clamp(0, LONGEST_FORCE_DRAIN_MINUTES).into())
}

#[cfg(test)]
mod tests;
