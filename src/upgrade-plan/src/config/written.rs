//! The ConfigMap's text as written, and merged with the defaults.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// Why a text holds no settings.
#[derive(Debug, thiserror::Error)]
pub enum WrittenError {
    /// It is no YAML. The library draws the place over several lines, of which the first says what
    /// is wrong.
    #[error("{}", display::Chain(.0).to_string().lines().next().unwrap_or_default())]
    Yaml(Box<serde_saphyr::Error>),
    /// A key has a value of another kind.
    #[error("field {path}")]
    Field {
        /// Path of the key.
        path: String,
        /// What is wrong with its value.
        source: serde_json::Error,
    },
}

/// As written: absent keys are none. Unknown keys are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WrittenConfig {
    upgrade_type: Option<String>,
    config_manager: WrittenManager,
    maintenance: WrittenMaintenance,
    scale: WrittenScale,
    upgrade_window: WrittenWindow,
    node_drain: WrittenDrain,
    health_check: WrittenHealth,
    ext_dependency_availability_checks: WrittenDependencies,
    validation: WrittenValidation,
    environment: WrittenEnvironment,
    feature_gate: WrittenGates,
    conditional_updates: WrittenConditional,
    steps: BTreeMap<String, Vec<String>>,
    windows: Vec<WrittenRecurrence>,
    cloud_events: WrittenCloudEvents,
    hooks: Vec<WrittenHook>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenManager {
    source: Option<String>,
    ocm_base_url: Option<String>,
    local_config_name: Option<String>,
    watch_interval: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenMaintenance {
    control_plane_time: Option<i64>,
    ignored_alerts: WrittenIgnored,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenIgnored {
    control_plane_criticals: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenScale {
    time_out: Option<i64>,
    extra_machine_pools: Vec<String>,
    extra_machines: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenWindow {
    time_out: Option<i64>,
    delay_trigger: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenDrain {
    time_out: Option<i64>,
    expected_node_drain_time: Option<i64>,
    disable_drain_strategies: bool,
    ignored_namespace_patterns: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenHealth {
    ignored_criticals: Vec<String>,
    ignored_namespaces: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenDependencies {
    http: WrittenHttp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenHttp {
    urls: Vec<String>,
    timeout: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenValidation {
    cincinnati: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenEnvironment {
    fedramp: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenGates {
    enabled: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenConditional {
    accepted_risks: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WrittenHook {
    pub(super) name: String,
    pub(super) step: String,
    pub(super) when: String,
    pub(super) job: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenCloudEvents {
    url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WrittenRecurrence {
    pub(super) name: String,
    pub(super) days: Vec<String>,
    pub(super) start: String,
    pub(super) minutes: i64,
    pub(super) time_zone: Option<String>,
}

/// Merged with the defaults. Times are minutes, those of dependencies seconds; none where a key
/// without a default is absent.
#[derive(Debug)]
pub(super) struct MergedConfig {
    pub(super) upgrade_type: String,
    pub(super) source: String,
    pub(super) fleet_base: String,
    pub(super) local_config_name: String,
    pub(super) watch_interval: Option<i64>,
    pub(super) control_plane_time: Option<i64>,
    pub(super) control_plane_criticals: Vec<String>,
    pub(super) scale_timeout: Option<i64>,
    pub(super) extra_machine_pools: Vec<String>,
    pub(super) extra_machines: i64,
    pub(super) window_timeout: i64,
    pub(super) delay_trigger: i64,
    pub(super) node_drain_timeout: Option<i64>,
    pub(super) expected_drain_time: Option<i64>,
    pub(super) ignored_namespace_patterns: Vec<String>,
    pub(super) helps_drains: bool,
    pub(super) ignored_criticals: Vec<String>,
    pub(super) ignored_namespaces: Vec<String>,
    pub(super) dependencies: Vec<String>,
    pub(super) dependency_timeout: i64,
    pub(super) verifies_graph: bool,
    pub(super) is_fedramp: bool,
    pub(super) gates: Vec<String>,
    pub(super) accepted_risks: Vec<String>,
    pub(super) steps: BTreeMap<String, Vec<String>>,
    pub(super) windows: Vec<WrittenRecurrence>,
    pub(super) cloud_events: Option<String>,
    pub(super) hooks: Vec<WrittenHook>,
}

impl WrittenConfig {
    /// Reads YAML.
    ///
    /// # Errors
    /// [`WrittenError`].
    pub(super) fn parse(text: &str) -> Result<Self, WrittenError> {
        let value: Value =
            serde_saphyr::from_str(text).map_err(|error| WrittenError::Yaml(Box::new(error)))?;
        // An empty text, and a key without a value, are as if they were absent.
        let value = without_nulls(value).unwrap_or_else(|| Value::Object(Map::new()));
        serde_path_to_error::deserialize(value).map_err(|error| WrittenError::Field {
            path: error.path().to_string(),
            source: error.into_inner(),
        })
    }

    /// Puts defaults in the place of absent keys.
    pub(super) fn merge(self) -> MergedConfig {
        let http = self.ext_dependency_availability_checks.http;
        MergedConfig {
            upgrade_type: self.upgrade_type.unwrap_or_else(|| "ARO".to_owned()),
            source: self.config_manager.source.unwrap_or_default(),
            fleet_base: self.config_manager.ocm_base_url.unwrap_or_default(),
            local_config_name: self.config_manager.local_config_name.unwrap_or_default(),
            watch_interval: self.config_manager.watch_interval.or(Some(1)),
            control_plane_time: self.maintenance.control_plane_time.or(Some(90)),
            control_plane_criticals: self.maintenance.ignored_alerts.control_plane_criticals,
            scale_timeout: self.scale.time_out.or(Some(30)),
            extra_machine_pools: self.scale.extra_machine_pools,
            extra_machines: self.scale.extra_machines.unwrap_or(1),
            window_timeout: self.upgrade_window.time_out.unwrap_or(120),
            delay_trigger: self.upgrade_window.delay_trigger.unwrap_or(30),
            node_drain_timeout: self.node_drain.time_out,
            expected_drain_time: self.node_drain.expected_node_drain_time.or(Some(8)),
            ignored_namespace_patterns: self.node_drain.ignored_namespace_patterns,
            helps_drains: !self.node_drain.disable_drain_strategies,
            ignored_criticals: self.health_check.ignored_criticals,
            ignored_namespaces: self.health_check.ignored_namespaces,
            dependencies: http.urls,
            dependency_timeout: http.timeout.unwrap_or(15),
            verifies_graph: self.validation.cincinnati,
            is_fedramp: self.environment.fedramp,
            gates: self.feature_gate.enabled,
            accepted_risks: self.conditional_updates.accepted_risks,
            steps: self.steps,
            windows: self.windows,
            cloud_events: self.cloud_events.url,
            hooks: self.hooks,
        }
    }
}

/// The value without keys that have none; none for no value at all.
fn without_nulls(value: Value) -> Option<Value> {
    if let Value::Object(fields) = value {
        let fields = fields.into_iter();
        let kept = fields.filter_map(|(name, field)| Some((name, without_nulls(field)?)));
        return Some(Value::Object(kept.collect()));
    }
    Some(value).filter(|value| !value.is_null())
}
