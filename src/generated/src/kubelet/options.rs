//! One KubeletConfig, read and checked; several merged by field.

use api::machineconfiguration::{KubeletConfigSpec, TlsSecurityProfile};
use serde_json::{Map, Value};

use crate::pools::PoolFacts;
use crate::tls;

/// Fields that belong to the cluster: where one is set, kubelets would leave the cluster or start
/// with what the nodes do not have.
///
/// Source: `docs/reference/controller.md`, "KubeletConfig". The second is where the field lies.
const REFUSED: [(&str, &str); 6] = [
    ("cgroupDriver", "/cgroupDriver"),
    ("clusterDNS", "/clusterDNS"),
    ("clusterDomain", "/clusterDomain"),
    ("featureGates", "/featureGates"),
    ("failSwapOn", "/failSwapOn"),
    ("swapBehavior", "/memorySwap/swapBehavior"),
];

/// The highest verbosity of a log.
const MAX_LOG_LEVEL: i32 = 10;

/// What KubeletConfigs ask for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Options {
    /// Fields of the KubeletConfiguration.
    pub(super) fields: Map<String, Value>,
    pub(super) log_level: Option<i32>,
    pub(super) auto_sizing: Option<bool>,
    pub(super) tls: Option<TlsSecurityProfile>,
}

impl Options {
    /// Reads what one asks for.
    ///
    /// # Errors
    /// The field, and why it is refused.
    pub(super) fn read(spec: &KubeletConfigSpec) -> Result<Self, String> {
        let mut fields = match &spec.kubelet_config {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(fields)) => fields.clone(),
            Some(_) => return Err("spec.kubeletConfig is not an object".to_owned()),
        };
        let expected = [
            ("apiVersion", "kubelet.config.k8s.io/v1beta1"),
            ("kind", "KubeletConfiguration"),
        ];
        for (field, expected) in expected {
            match fields.remove(field) {
                None | Some(Value::Null) => {}
                Some(Value::String(found)) if found == expected => {}
                Some(found) => {
                    return Err(format!(
                        "spec.kubeletConfig.{field} is not {expected}, but {}",
                        shown(&found)
                    ));
                }
            }
        }
        drop_nulls(&mut fields);
        let all = Value::Object(fields);
        for (field, pointer) in REFUSED {
            if let Some(found) = all.pointer(pointer).filter(|value| !is_unset(value)) {
                return Err(not_allowed(field, found));
            }
        }
        let Value::Object(fields) = all else {
            return Err("spec.kubeletConfig is not an object".to_owned());
        };
        if let Some(level) = spec
            .log_level
            .filter(|level| !(0..=MAX_LOG_LEVEL).contains(level))
        {
            return Err(format!(
                "spec.logLevel {level} is not in 0 to {MAX_LOG_LEVEL}"
            ));
        }
        if let Some(profile) = &spec.tls_security_profile {
            tls::of_profile(profile).map_err(|why| format!("spec.{why}"))?;
        }
        let options = Self {
            fields,
            log_level: spec.log_level,
            auto_sizing: spec.auto_sizing_reserved,
            tls: spec.tls_security_profile.clone(),
        };
        if options.auto_sizing == Some(true) && options.reserves() {
            return Err(BOTH.to_owned());
        }
        Ok(options)
    }

    /// Checks what depends on the pool.
    ///
    /// # Errors
    /// The field, and why it is refused.
    pub(super) fn check_for(&self, pool: &PoolFacts) -> Result<(), String> {
        match self.fields.get("staticPodPath") {
            // The pods of the control plane itself lie there.
            Some(path) if pool.is_control_plane || !is_unset(path) => {
                Err(not_allowed("staticPodPath", path))
            }
            _ => Ok(()),
        }
    }

    /// Lays others over these.
    pub(super) fn overlay(&mut self, upper: &Self) {
        overlay(&mut self.fields, &upper.fields);
        self.log_level = upper.log_level.or(self.log_level);
        self.auto_sizing = upper.auto_sizing.or(self.auto_sizing);
        if upper.tls.is_some() {
            self.tls.clone_from(&upper.tls);
        }
    }

    /// The first field that both set, to different values.
    pub(super) fn conflict_with(&self, other: &Self) -> Option<String> {
        let fields = || {
            let field = conflict(&self.fields, &other.fields)?;
            Some(format!("spec.kubeletConfig.{field}"))
        };
        let differ = |name: &str, is: bool| is.then(|| name.to_owned());
        differ(
            "spec.logLevel",
            differs(self.log_level.as_ref(), other.log_level.as_ref()),
        )
        .or_else(|| {
            let is = differs(self.auto_sizing.as_ref(), other.auto_sizing.as_ref());
            differ("spec.autoSizingReserved", is)
        })
        .or_else(|| {
            let is = differs(self.tls.as_ref(), other.tls.as_ref());
            differ("spec.tlsSecurityProfile", is)
        })
        .or_else(|| {
            let is = |one: &Self, other: &Self| one.auto_sizing == Some(true) && other.reserves();
            differ(
                "spec.autoSizingReserved",
                is(self, other) || is(other, self),
            )
        })
        .or_else(fields)
    }

    /// Whether they reserve resources for the system by hand.
    fn reserves(&self) -> bool {
        let reserved = self.fields.get("systemReserved");
        reserved.is_some_and(|reserved| !is_unset(reserved))
    }
}

/// OpenShift's words, its slip included.
const BOTH: &str = "autoSizingReserved and systemdReserved cannot be set together";

fn differs<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

fn not_allowed(field: &str, found: &Value) -> String {
    format!(
        "KubeletConfiguration: {field} is not allowed to be set, but contains: {}",
        shown(found)
    )
}

/// A value as a person writes it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// Whether a field has a value that means nothing.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn drop_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null());
    for value in fields.values_mut() {
        if let Value::Object(fields) = value {
            drop_nulls(fields);
        }
    }
}

/// Lays objects over each other, member by member; a list is one value.
pub(super) fn overlay(under: &mut Map<String, Value>, upper: &Map<String, Value>) {
    for (name, value) in upper {
        match (under.get_mut(name), value) {
            (Some(Value::Object(under)), Value::Object(upper)) => overlay(under, upper),
            _ => {
                under.insert(name.clone(), value.clone());
            }
        }
    }
}

/// The path of the first member that both have, with different values.
fn conflict(one: &Map<String, Value>, other: &Map<String, Value>) -> Option<String> {
    one.iter().find_map(|(name, value)| {
        let second = other.get(name)?;
        match (value, second) {
            (Value::Object(one), Value::Object(other)) => {
                Some(format!("{name}.{}", conflict(one, other)?))
            }
            _ => (value != second).then(|| name.clone()),
        }
    })
}
