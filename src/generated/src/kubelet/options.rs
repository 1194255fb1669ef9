//! One KubeletConfig, read and checked; several merged by field.

use api::machineconfiguration::{KubeletConfigSpec, TlsSecurityProfile};
use serde_json::{Map, Value};

use super::Error;
use super::schema::{self, shown};
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
    pub(super) fn read(spec: &KubeletConfigSpec) -> Result<Self, Error> {
        let mut fields = match &spec.kubelet_config {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(fields)) => fields.clone(),
            Some(_) => return Err(Error::NoObject),
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
                    return Err(Error::WrongType(field, expected, shown(&found)));
                }
            }
        }
        let fields = schema::take(fields, schema::FIELDS, "spec.kubeletConfig")?;
        let all = Value::Object(fields);
        for (field, pointer) in REFUSED {
            if let Some(found) = all.pointer(pointer) {
                return Err(not_allowed(field, found));
            }
        }
        let Value::Object(fields) = all else {
            return Err(Error::NoObject);
        };
        if let Some(level) = spec
            .log_level
            .filter(|level| !(0..=MAX_LOG_LEVEL).contains(level))
        {
            return Err(Error::OutOfRange(
                "spec.logLevel".to_owned(),
                level.into(),
                0..=MAX_LOG_LEVEL.into(),
            ));
        }
        let tls = spec.tls_security_profile.as_ref();
        // Without a type it asks for nothing, and must not weaken what the cluster has.
        let tls = tls.filter(|profile| **profile != TlsSecurityProfile::default());
        if let Some(profile) = tls {
            if profile.r#type.is_empty() {
                return Err(Error::NoTlsType);
            }
            tls::of_profile(profile).map_err(Error::OwnTls)?;
        }
        let options = Self {
            fields,
            log_level: spec.log_level,
            auto_sizing: spec.auto_sizing_reserved,
            tls: tls.cloned(),
        };
        if options.auto_sizing == Some(true) && options.reserves() {
            return Err(Error::ReservedTwice);
        }
        Ok(options)
    }

    /// Checks what depends on the pool.
    ///
    /// # Errors
    /// The field, and why it is refused.
    pub(super) fn check_for(&self, pool: &PoolFacts) -> Result<(), Error> {
        match self.fields.get("staticPodPath") {
            // The pods of the control plane itself lie there.
            Some(path) if pool.is_control_plane || path.as_str() != Some("") => {
                Err(not_allowed("staticPodPath", path))
            }
            _ => Ok(()),
        }
    }

    /// Lays others over these. Of a reservation by hand and one by size, the upper is in force.
    pub(super) fn overlay(&mut self, upper: &Self) {
        if upper.auto_sizing == Some(true) {
            self.fields.remove("systemReserved");
        } else if upper.reserves() && self.auto_sizing == Some(true) {
            self.auto_sizing = None;
        }
        overlay(&mut self.fields, &upper.fields);
        self.log_level = upper.log_level.or(self.log_level);
        self.auto_sizing = upper.auto_sizing.or(self.auto_sizing);
        if upper.tls.is_some() {
            self.tls.clone_from(&upper.tls);
        }
    }

    /// The fields that both set, to different values.
    pub(super) fn conflicts_with(&self, other: &Self) -> Vec<String> {
        let sizes = |one: &Self, other: &Self| one.auto_sizing == Some(true) && other.reserves();
        let differ = [
            (
                "spec.logLevel",
                differs(self.log_level.as_ref(), other.log_level.as_ref()),
            ),
            (
                "spec.autoSizingReserved",
                differs(self.auto_sizing.as_ref(), other.auto_sizing.as_ref())
                    || sizes(self, other)
                    || sizes(other, self),
            ),
            (
                "spec.tlsSecurityProfile",
                differs(self.tls.as_ref(), other.tls.as_ref()),
            ),
        ];
        let own = differ.iter().filter(|(_, is)| *is);
        let mut found: Vec<String> = own.map(|(name, _)| (*name).to_owned()).collect();
        conflicts(
            &self.fields,
            &other.fields,
            "spec.kubeletConfig",
            &mut found,
        );
        found
    }

    /// Whether they reserve resources for the system by hand.
    fn reserves(&self) -> bool {
        self.fields.contains_key("systemReserved")
    }
}

fn differs<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

fn not_allowed(field: &'static str, found: &Value) -> Error {
    Error::NotAllowed(field, shown(found))
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

/// Adds the paths of members that both have, with different values.
fn conflicts(
    one: &Map<String, Value>,
    other: &Map<String, Value>,
    at: &str,
    found: &mut Vec<String>,
) {
    for (name, value) in one {
        match (value, other.get(name)) {
            (Value::Object(one), Some(Value::Object(other))) => {
                conflicts(one, other, &format!("{at}.{name}"), found);
            }
            (value, Some(second)) if value != second => found.push(format!("{at}.{name}")),
            (_, Some(_) | None) => {}
        }
    }
}
