//! The operator's ConfigMap: as written, merged with the defaults, and validated. Only the last
//! form leaves this module.

mod glob;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use api::upgrade::UpgradeType;
use jiff::SignedDuration;
use pool::recurrence::{RecurringWindow, WindowText};
use regex::Regex;

use self::glob::Glob;
use self::written::{MergedConfig, WrittenConfig, WrittenHook, WrittenRecurrence};
use crate::fleet::{FleetRoutes, FleetSettings};
use crate::hook::{Hook, HookTime};
use crate::step::{StepName, UpgradeStep};

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
    /// Addresses that must answer before the cluster is changed.
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
    /// What is wrong.
    why: String,
}

/// Why there are no settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The ConfigMap or its key is missing.
    #[error("there is no ConfigMap {CONFIG_MAP} with a key {KEY} in namespace {0}")]
    Missing(String),
    /// The text is no YAML of this shape.
    #[error("check config map {CONFIG_MAP} for incorrect yaml formatting: {0}")]
    Syntax(String),
    /// Some keys cannot be used.
    #[error("{}", list(.0))]
    Invalid(Vec<InvalidKey>),
}

fn list(keys: &[InvalidKey]) -> String {
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

    /// How long `pending` workers may take, each of them after the longer of both drain times.
    pub fn worker_window(&self, pending: u32, force_drain: SignedDuration) -> SignedDuration {
        let each = self.node_drain_timeout.max(force_drain) + self.expected_drain_time;
        each * i32::try_from(pending).unwrap_or(i32::MAX)
    }

    fn validate(merged: MergedConfig) -> Result<Self, Vec<InvalidKey>> {
        let mut check = Check::default();
        let source = check.source(&merged);
        let upgrade_type = check.upgrade_type(&merged.upgrade_type);
        let fleet = check.fleet(&merged, source, upgrade_type);
        let extra_machine_pools = check.globs(&merged.extra_machine_pools);
        let ignored_drains = check.patterns(&merged.ignored_namespace_patterns);
        check.gates(&merged.gates, fleet.as_ref());
        let windows = check.windows(&merged.windows);
        let hooks = check.hooks(&merged.hooks);
        let custom_steps = check.steps(&merged.steps);
        check.dependencies(&merged);
        check.cloud_events(merged.cloud_events.as_deref());
        let config = Self {
            source,
            fleet,
            watch_interval: check.positive(
                "configManager.watchInterval",
                "config configManager watchInterval is invalid",
                merged.watch_interval,
            ),
            control_plane_time: check.positive(
                "maintenance.controlPlaneTime",
                "config maintenance controlPlaneTime out is invalid",
                merged.control_plane_time,
            ),
            control_plane_criticals: merged.control_plane_criticals,
            scale_timeout: check.positive(
                "scale.timeOut",
                "config scale timeOut is invalid",
                merged.scale_timeout,
            ),
            extra_machines: check.machines(merged.extra_machines),
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
const LONGEST_MINUTES: i64 = 366 * 24 * 60;

/// What was found wrong so far.
#[derive(Default)]
struct Check(Vec<InvalidKey>);

impl Check {
    fn add(&mut self, field: impl Into<String>, words: &str, why: impl Into<String>) {
        self.0.push(InvalidKey {
            words: words.to_owned(),
            field: field.into(),
            why: why.into(),
        });
    }

    fn minutes(&mut self, field: &str, words: &str, minutes: i64, least: i64) -> SignedDuration {
        if (least..=LONGEST_MINUTES).contains(&minutes) {
            return SignedDuration::from_mins(minutes);
        }
        let why = format!("{minutes} is not between {least} and {LONGEST_MINUTES} minutes");
        self.add(field, words, why);
        SignedDuration::ZERO
    }

    fn positive(&mut self, field: &str, words: &str, minutes: Option<i64>) -> SignedDuration {
        let Some(minutes) = minutes else {
            self.add(field, words, "it is missing and has no default");
            return SignedDuration::ZERO;
        };
        self.minutes(field, words, minutes, 1)
    }

    fn or_never(&mut self, field: &str, words: &str, minutes: i64) -> Option<SignedDuration> {
        let found = self.minutes(field, words, minutes, 0);
        Some(found).filter(SignedDuration::is_positive)
    }

    fn machines(&mut self, written: i64) -> u32 {
        let machines = u32::try_from(written).unwrap_or_default();
        if !(1..=MOST_MACHINES).contains(&machines) {
            let why = format!("{written} is not between 1 and {MOST_MACHINES} machines");
            let words = "config scale extraMachines is invalid";
            self.add("scale.extraMachines", words, why);
        }
        machines
    }

    fn source(&mut self, merged: &MergedConfig) -> ConfigSource {
        const FIELD: &str = "configManager.source";
        const WORDS: &str = "invalid configManager spec provider type defined";
        match merged.source.to_ascii_uppercase().as_str() {
            "" => return ConfigSource::Unmanaged,
            "LOCAL" => {
                let expected = api::upgrade::upgrade_config::NAME;
                if merged.local_config_name != expected {
                    let words = "config configManager localConfigName is invalid";
                    let why = format!("{:?} is not {expected:?}", merged.local_config_name);
                    self.add("configManager.localConfigName", words, why);
                }
                return ConfigSource::Local;
            }
            "OCM" => return ConfigSource::Fleet,
            _ => {
                let why = format!("{:?} is neither LOCAL nor OCM", merged.source);
                self.add(FIELD, WORDS, why);
            }
        }
        ConfigSource::Unmanaged
    }

    fn upgrade_type(&mut self, name: &str) -> UpgradeType {
        match name {
            "ARO" => UpgradeType::Aro,
            "" | "OSD" => UpgradeType::Osd,
            _ => {
                let why = format!("{name:?} is neither OSD nor ARO");
                self.add("upgradeType", "config upgradeType is invalid", why);
                UpgradeType::Osd
            }
        }
    }

    /// The fleet manager, where it is the source.
    fn fleet(
        &mut self,
        merged: &MergedConfig,
        source: ConfigSource,
        upgrade_type: UpgradeType,
    ) -> Option<FleetSettings> {
        if source != ConfigSource::Fleet {
            return None;
        }
        let base = merged.fleet_base.trim_end_matches('/');
        let words = "config configManager ocmBaseUrl is invalid";
        self.address("configManager.ocmBaseUrl", words, base);
        Some(FleetSettings {
            base: base.to_owned(),
            routes: FleetRoutes::of(base),
            upgrade_type,
            has_service_logs: merged.gates.iter().any(|gate| gate == SERVICE_LOG),
        })
    }

    fn globs(&mut self, patterns: &[String]) -> Vec<Glob> {
        let mut globs = Vec::new();
        for (number, pattern) in patterns.iter().enumerate() {
            match Glob::parse(pattern) {
                Ok(glob) => globs.push(glob),
                Err(why) => {
                    let words = format!(
                        "config scale extraMachinePools contains invalid pattern {pattern:?}"
                    );
                    self.add(format!("scale.extraMachinePools[{number}]"), &words, why);
                }
            }
        }
        globs
    }

    fn patterns(&mut self, patterns: &[String]) -> Vec<Regex> {
        let mut found = Vec::new();
        for (number, pattern) in patterns.iter().enumerate() {
            match Regex::new(pattern) {
                Ok(pattern) => found.push(pattern),
                Err(error) => {
                    let field = format!("nodeDrain.ignoredNamespacePatterns[{number}]");
                    let words = "config nodeDrain ignoredNamespacePatterns is invalid";
                    // The library draws the pattern over several lines.
                    let why = error.to_string();
                    let why = why.lines().last().unwrap_or_default().trim();
                    self.add(field, words, format!("{pattern:?}: {why}"));
                }
            }
        }
        found
    }

    fn gates(&mut self, gates: &[String], fleet: Option<&FleetSettings>) {
        for (number, gate) in gates.iter().enumerate() {
            let why = match gate.as_str() {
                PRE_HEALTH_CHECK => continue,
                SERVICE_LOG => match fleet.map(|fleet| fleet.routes) {
                    Some(FleetRoutes::Manager) => continue,
                    Some(FleetRoutes::Agent) => format!("{gate}: the agent takes no service logs"),
                    None => format!("{gate} needs the source OCM"),
                },
                _ => format!("{gate:?} is neither {PRE_HEALTH_CHECK} nor {SERVICE_LOG}"),
            };
            let field = format!("featureGate.enabled[{number}]");
            self.add(field, "config featureGate enabled is invalid", why);
        }
    }

    fn windows(&mut self, written: &[WrittenRecurrence]) -> Vec<RecurringWindow> {
        const WORDS: &str = "config windows is invalid";
        let mut windows: Vec<RecurringWindow> = Vec::new();
        for (number, window) in written.iter().enumerate() {
            let field = |key: &str| format!("windows[{number}].{key}");
            if window.name.is_empty() || windows.iter().any(|known| known.name == window.name) {
                let why = format!("{:?} is empty or stands twice", window.name);
                self.add(field("name"), WORDS, why);
            }
            let text = WindowText {
                name: &window.name,
                days: &window.days,
                start: &window.start,
                minutes: window.minutes,
                time_zone: window.time_zone.as_deref(),
            };
            match RecurringWindow::parse(&text) {
                Ok(window) => windows.push(window),
                Err(faults) => {
                    for (key, why) in faults {
                        self.add(field(&key), WORDS, why);
                    }
                }
            }
        }
        windows
    }

    fn hooks(&mut self, written: &[WrittenHook]) -> Vec<Hook> {
        const WORDS: &str = "config hooks is invalid";
        let mut hooks: Vec<Hook> = Vec::new();
        for (number, hook) in written.iter().enumerate() {
            let field = |key: &str| format!("hooks[{number}].{key}");
            if let Err((key, why)) = Hook::check(&hook.name, &hook.job) {
                self.add(field(key), WORDS, why);
            }
            if hooks.iter().any(|known| known.name == hook.name) {
                let why = format!("{:?} stands twice", hook.name);
                self.add(field("name"), WORDS, why);
            }
            let step = StepName::named(&hook.step);
            if step.is_none() {
                let why = format!("unknown step {:?}", hook.step);
                self.add(field("step"), WORDS, why);
            }
            let when = match hook.when.as_str() {
                "before" => Some(HookTime::Before),
                "after" => Some(HookTime::After),
                other => {
                    let why = format!("{other:?} is neither before nor after");
                    self.add(field("when"), WORDS, why);
                    None
                }
            };
            if let (Some(step), Some(when)) = (step, when) {
                hooks.push(Hook {
                    name: hook.name.clone(),
                    step,
                    when,
                    job: hook.job.clone(),
                });
            }
        }
        hooks
    }

    fn steps(
        &mut self,
        lists: &BTreeMap<String, Vec<String>>,
    ) -> BTreeMap<UpgradeType, Vec<UpgradeStep>> {
        const WORDS: &str = "config steps is invalid";
        let mut found = BTreeMap::new();
        for (name, names) in lists {
            let r#type = UpgradeType::from(name.clone());
            if matches!(r#type, UpgradeType::Other(_)) {
                let why = format!("{name:?} is neither OSD nor ARO");
                self.add(format!("steps.{name}"), WORDS, why);
                continue;
            }
            let mut steps: Vec<StepName> = Vec::new();
            for (number, step) in names.iter().enumerate() {
                let field = format!("steps.{name}[{number}]");
                match StepName::named(step) {
                    None => self.add(field, WORDS, format!("unknown step {step:?}")),
                    Some(known) if steps.contains(&known) => {
                        self.add(field, WORDS, format!("step {step:?} stands twice"));
                    }
                    Some(known) => steps.push(known),
                }
            }
            if let Err(why) = crate::step::check_order(&steps) {
                self.add(format!("steps.{name}"), WORDS, why);
            }
            found.insert(r#type, steps.into_iter().map(StepName::step).collect());
        }
        found
    }

    fn dependencies(&mut self, merged: &MergedConfig) {
        const FIELD: &str = "extDependencyAvailabilityChecks.http.timeout";
        const WORDS: &str =
            "config HTTP timeout is invalid (Requires int between 1 - 60 inclusive)";
        let secs = merged.dependency_timeout;
        if secs > 60 || (secs < 1 && !merged.dependencies.is_empty()) {
            self.add(
                FIELD,
                WORDS,
                format!("{secs} is not between 1 and 60 seconds"),
            );
        }
        for (number, url) in merged.dependencies.iter().enumerate() {
            let field = format!("extDependencyAvailabilityChecks.http.urls[{number}]");
            self.address(&field, "config HTTP urls is invalid", url);
        }
    }

    fn cloud_events(&mut self, url: Option<&str>) {
        if let Some(url) = url {
            self.address("cloudEvents.url", "config cloudEvents is invalid", url);
        }
    }

    fn address(&mut self, field: &str, words: &str, url: &str) {
        let is_http =
            |url: http::Uri| ["http", "https"].contains(&url.scheme_str().unwrap_or_default());
        if !url.parse().is_ok_and(is_http) {
            self.add(field, words, format!("{url:?} is no http or https address"));
        }
    }
}

#[cfg(test)]
mod tests;
