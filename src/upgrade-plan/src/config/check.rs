//! Which keys of the settings cannot be used, and why.

use std::collections::BTreeMap;

use api::upgrade::UpgradeType;
use jiff::SignedDuration;
use pool::recurrence::{RecurringWindow, WindowText};
use regex::Regex;

use super::glob::Glob;
use super::written::{MergedConfig, WrittenHook, WrittenRecurrence};
use super::{
    ConfigSource, InvalidKey, LONGEST_MINUTES, MOST_MACHINES, PRE_HEALTH_CHECK, SERVICE_LOG,
};
use crate::fleet::{FleetRoutes, FleetSettings};
use crate::hook::{Hook, HookTime};
use crate::step::{StepName, UpgradeStep};

/// What was found wrong so far.
#[derive(Default)]
pub(super) struct Check(pub(super) Vec<InvalidKey>);

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

    pub(super) fn positive(
        &mut self,
        field: &str,
        words: &str,
        minutes: Option<i64>,
    ) -> SignedDuration {
        let Some(minutes) = minutes else {
            self.add(field, words, "it is missing and has no default");
            return SignedDuration::ZERO;
        };
        self.minutes(field, words, minutes, 1)
    }

    pub(super) fn or_never(
        &mut self,
        field: &str,
        words: &str,
        minutes: i64,
    ) -> Option<SignedDuration> {
        let found = self.minutes(field, words, minutes, 0);
        Some(found).filter(SignedDuration::is_positive)
    }

    pub(super) fn machines(&mut self, written: i64) -> u32 {
        let machines = u32::try_from(written).unwrap_or_default();
        if !(1..=MOST_MACHINES).contains(&machines) {
            let why = format!("{written} is not between 1 and {MOST_MACHINES} machines");
            let words = "config scale extraMachines is invalid";
            self.add("scale.extraMachines", words, why);
        }
        machines
    }

    pub(super) fn source(&mut self, merged: &MergedConfig) -> ConfigSource {
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

    pub(super) fn upgrade_type(&mut self, name: &str) -> UpgradeType {
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
    pub(super) fn fleet(
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
        let routes = FleetRoutes::of(base);
        Some(FleetSettings {
            base: base.to_owned(),
            routes,
            upgrade_type,
            has_service_logs: routes == FleetRoutes::Manager
                && merged.gates.iter().any(|gate| gate == SERVICE_LOG),
        })
    }

    pub(super) fn globs(&mut self, patterns: &[String]) -> Vec<Glob> {
        let mut globs = Vec::new();
        for (number, pattern) in patterns.iter().enumerate() {
            match Glob::parse(pattern) {
                Ok(glob) => globs.push(glob),
                Err(why) => {
                    let words = format!(
                        "config scale extraMachinePools contains invalid pattern {pattern:?}"
                    );
                    self.add(
                        format!("scale.extraMachinePools[{number}]"),
                        &words,
                        why.to_string(),
                    );
                }
            }
        }
        globs
    }

    pub(super) fn patterns(&mut self, patterns: &[String]) -> Vec<Regex> {
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

    pub(super) fn gates(&mut self, gates: &[String]) {
        for (number, gate) in gates.iter().enumerate() {
            if ![PRE_HEALTH_CHECK, SERVICE_LOG].contains(&gate.as_str()) {
                let why = format!("{gate:?} is neither {PRE_HEALTH_CHECK} nor {SERVICE_LOG}");
                self.gate(number, why);
            }
        }
    }

    /// Service logs are an addition: without them upgrades are what they are.
    pub(super) fn service_log(&mut self, gates: &[String], fleet: Option<&FleetSettings>) {
        let why = match fleet.map(|fleet| fleet.routes) {
            Some(FleetRoutes::Manager) => return,
            Some(FleetRoutes::Agent) => format!("{SERVICE_LOG}: the agent takes no service logs"),
            None => format!("{SERVICE_LOG} needs the source OCM"),
        };
        if let Some(number) = gates.iter().position(|gate| gate == SERVICE_LOG) {
            self.gate(number, why);
        }
    }

    fn gate(&mut self, number: usize, why: String) {
        let field = format!("featureGate.enabled[{number}]");
        self.add(field, "config featureGate enabled is invalid", why);
    }

    pub(super) fn windows(&mut self, written: &[WrittenRecurrence]) -> Vec<RecurringWindow> {
        const WORDS: &str = "config windows is invalid";
        let mut windows: Vec<RecurringWindow> = Vec::new();
        for (number, window) in written.iter().enumerate() {
            let field = |key: &str| format!("windows[{number}].{key}");
            if window.name.is_empty() || windows.iter().any(|other| other.name == window.name) {
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

    pub(super) fn hooks(&mut self, written: &[WrittenHook]) -> Vec<Hook> {
        const WORDS: &str = "config hooks is invalid";
        let mut hooks: Vec<Hook> = Vec::new();
        for (number, hook) in written.iter().enumerate() {
            let field = |key: &str| format!("hooks[{number}].{key}");
            if let Err((key, why)) = Hook::check(&hook.name, &hook.job) {
                self.add(field(key), WORDS, why);
            }
            if hooks.iter().any(|other| other.name == hook.name) {
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

    pub(super) fn steps(
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
                    Some(name) if steps.contains(&name) => {
                        self.add(field, WORDS, format!("step {step:?} stands twice"));
                    }
                    Some(name) => steps.push(name),
                }
            }
            if let Err(why) = crate::step::check_order(&steps) {
                self.add(format!("steps.{name}"), WORDS, why.to_string());
            }
            found.insert(r#type, steps.into_iter().map(StepName::step).collect());
        }
        found
    }

    pub(super) fn dependencies(&mut self, merged: &MergedConfig) {
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

    pub(super) fn cloud_events(&mut self, url: Option<&str>) {
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
