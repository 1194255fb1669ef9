//! The files of a pool: `kubelet.conf`, the log level and the system's reservation.

use std::sync::Arc;

use api::machineconfiguration::TlsSecurityProfile;
use serde_json::{Map, Value, json};

use super::options::{Options, overlay};
use super::schema::shown;
use super::{Error, KubeletBase};
use crate::object::GeneratedFile;
use crate::pools::PoolFacts;
use crate::tls;

pub const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";

/// Verbosity of its log.
const LOGGING: &str = "/etc/systemd/system/kubelet.service.d/20-logging.conf";

/// What the system gets on a node.
pub(crate) const NODE_SIZING: &str = "/etc/node-sizing-enabled.env";

/// What the system gets where a user does not say: variable, resource, amount.
///
/// Source: `docs/reference/controller.md`, "KubeletConfig".
const RESERVED: [(&str, &str, &str); 3] = [
    ("SYSTEM_RESERVED_MEMORY", "memory", "1Gi"),
    ("SYSTEM_RESERVED_CPU", "cpu", "500m"),
    ("SYSTEM_RESERVED_ES", "ephemeral-storage", "1Gi"),
];

/// Why a text is no `kubelet.conf`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ParseError {
    #[error("{KUBELET_CONF} is not YAML")]
    NotYaml(#[source] Arc<serde_saphyr::Error>),
    /// It is YAML, but no object.
    #[error("{KUBELET_CONF} is no KubeletConfiguration")]
    NoObject,
}

/// Reads a `kubelet.conf`.
///
/// # Errors
/// [`ParseError`].
pub fn base_of(text: &str) -> Result<Value, ParseError> {
    // Without a snippet: the message must not show what is in the file.
    let options = serde_saphyr::options! { with_snippet: false };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| ParseError::NotYaml(Arc::new(error)))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(ParseError::NoObject)
    }
}

/// The files of a pool, from its base and all options.
///
/// # Errors
/// The field, and why it is refused.
pub(super) fn files(
    base: &Value,
    options: &Options,
    cluster: &KubeletBase,
    pool: &PoolFacts,
) -> Result<Vec<GeneratedFile>, Error> {
    let mut fields = options.fields.clone();
    let reserved = take_reserved(&mut fields);
    let mut conf = of_cluster(base, cluster, options.tls.as_ref(), pool)?;
    overlay(&mut conf, &fields);
    if let Some(cgroup) = fields.get("systemReservedCgroup") {
        let system = conf.get("systemCgroups");
        if system != Some(cgroup) {
            let system = system.map(shown).unwrap_or_default();
            return Err(Error::OtherCgroup(shown(cgroup), system));
        }
    }
    if fields.contains_key("enforceNodeAllocatable") && !enforces_system(&conf) {
        // The base's group belongs to what is no longer enforced.
        conf.remove("systemReservedCgroup");
    }
    reserve_cpus(&mut conf);
    let mut files = vec![printed(&conf)?];
    if let Some(level) = options.log_level {
        files.push(GeneratedFile {
            path: LOGGING.to_owned(),
            text: format!("[Service]\nEnvironment=\"KUBELET_LOG_LEVEL={level}\"\n"),
        });
    }
    let is_automatic = reserved.is_empty() && options.auto_sizing.unwrap_or(!pool.is_control_plane);
    files.push(GeneratedFile {
        path: NODE_SIZING.to_owned(),
        text: sizing(is_automatic, &reserved),
    });
    Ok(files)
}

/// `kubelet.conf` without options: the base, and what the cluster asks of every kubelet.
///
/// # Errors
/// A TLS profile of the cluster that there is not.
pub(crate) fn bare(
    base: &Value,
    cluster: &KubeletBase,
    pool: &PoolFacts,
) -> Result<GeneratedFile, Error> {
    printed(&of_cluster(base, cluster, None, pool)?)
}

fn of_cluster(
    base: &Value,
    cluster: &KubeletBase,
    tls: Option<&TlsSecurityProfile>,
    pool: &PoolFacts,
) -> Result<Map<String, Value>, Error> {
    let mut conf = base.as_object().cloned().unwrap_or_default();
    let profile = cluster.node.and_then(|node| node.profile);
    if let Some(profile) = profile.filter(|_| pool.has_workers()) {
        let frequency = json!(profile.frequency());
        conf.insert("nodeStatusUpdateFrequency".to_owned(), frequency);
    }
    if let Some(gates) = &cluster.gates {
        conf.insert("featureGates".to_owned(), json!(gates));
    }
    if let Some(profile) = tls.or(cluster.tls.as_ref()) {
        let profile = tls::of_profile(profile)?;
        conf.insert("tlsMinVersion".to_owned(), json!(profile.min_version));
        conf.insert("tlsCipherSuites".to_owned(), json!(profile.ciphers));
    }
    Ok(conf)
}

/// As YAML, which tools read by its lines.
fn printed(conf: &Map<String, Value>) -> Result<GeneratedFile, Error> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(conf, options)
        .map_err(|error| Error::Print(Arc::new(error)))?;
    Ok(GeneratedFile {
        path: KUBELET_CONF.to_owned(),
        text,
    })
}

/// Whether the kubelet holds the system to what is reserved for it.
fn enforces_system(conf: &Map<String, Value>) -> bool {
    let enforced = conf.get("enforceNodeAllocatable").and_then(Value::as_array);
    let mut parts = enforced.into_iter().flatten().filter_map(Value::as_str);
    parts.any(|part| part.starts_with("system-reserved"))
}

/// Takes out what the node's own service reserves from [`NODE_SIZING`].
fn take_reserved(fields: &mut Map<String, Value>) -> Map<String, Value> {
    let mut taken = Map::new();
    if let Some(Value::Object(reserved)) = fields.get_mut("systemReserved") {
        for (_, resource, _) in RESERVED {
            if let Some(amount) = reserved.remove(resource) {
                taken.insert(resource.to_owned(), amount);
            }
        }
        if reserved.is_empty() {
            fields.remove("systemReserved");
        }
    }
    taken
}

/// CPUs that are reserved by number take the place of a cgroup with shares.
fn reserve_cpus(conf: &mut Map<String, Value>) {
    let cpus = conf.get("reservedSystemCPUs").and_then(Value::as_str);
    if cpus.is_none_or(str::is_empty) {
        return;
    }
    conf.remove("systemReservedCgroup");
    let enforced = conf.get("enforceNodeAllocatable").and_then(Value::as_array);
    let mut enforced = enforced.cloned().unwrap_or_default();
    enforced.retain(|part| {
        !part
            .as_str()
            .is_some_and(|part| part.starts_with("system-reserved"))
    });
    if !enforced.iter().any(|part| part == "pods") {
        enforced.push(json!("pods"));
    }
    conf.insert("enforceNodeAllocatable".to_owned(), Value::Array(enforced));
}

/// What the system gets on a node whose user does not say.
pub(crate) fn node_sizing(is_automatic: bool) -> String {
    sizing(is_automatic, &Map::new())
}

fn sizing(is_automatic: bool, reserved: &Map<String, Value>) -> String {
    let mut lines = vec![format!("NODE_SIZING_ENABLED={is_automatic}\n")];
    lines.extend(RESERVED.iter().map(|(variable, resource, default)| {
        let amount = reserved.get(*resource).map(shown);
        format!("{variable}={}\n", amount.as_deref().unwrap_or(default))
    }));
    lines.concat()
}
