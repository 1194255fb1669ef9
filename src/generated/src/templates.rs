//! Base configurations of the roles of a cluster on no cloud: what every node has before anything
//! is asked for.
//!
//! - `host`: `00-<role>`: trust, proxy, the API server's address
//! - `kubelet`: `01-<role>-kubelet`: `kubelet.conf` and the kubelet's service
//! - `container_runtime`: `01-<role>-container-runtime`: CRI-O, its storage and registries

mod container_runtime;
mod host;
mod kubelet;

use api::machineconfiguration::ControllerConfig;
use api::machineconfiguration::controller_config::{self, ControllerConfigSpec};
use ignition::{Config, File, Resource, Unit, content};
use serde_json::{Value, json};

use crate::object::{API_VERSION, GeneratedConfig, Maker};
use crate::pools::PoolFacts;

/// The kind that base configurations are made from.
pub const MAKER: &str = "ControllerConfig";

/// The platform whose base configurations are built.
pub(crate) const PLATFORM: &str = "None";

/// What of a ControllerConfig goes into files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    /// Address of the cluster's DNS.
    dns: String,
    /// CA of the cluster, PEM.
    root_ca: String,
    /// Certificates of the administrator, PEM.
    trust_bundle: String,
    /// Variables of the proxy.
    proxy: Vec<(&'static str, String)>,
    /// Host and port of the API server, as nodes reach it.
    api_server: Option<(String, u16)>,
    /// Image of a pod's sandbox.
    pause_image: Option<String>,
}

/// Whether base configurations are made of a ControllerConfig: those of other platforms are another
/// program's.
pub fn is_made_of(config: &ControllerConfig) -> bool {
    platform(&config.spec) == Some(PLATFORM)
}

fn platform(spec: &ControllerConfigSpec) -> Option<&str> {
    at(spec.infra.as_ref(), "/status/platformStatus/type")
}

/// Names of the base configurations of a role.
pub fn config_names(role: &str) -> [String; 3] {
    [
        format!("00-{role}"),
        format!("01-{role}-container-runtime"),
        format!("01-{role}-kubelet"),
    ]
}

/// Makes the base configurations of the built-in pools; a custom pool has the workers'.
///
/// Source: `docs/reference/controller.md`, "Base configurations".
///
/// # Errors
/// The field of the ControllerConfig, and why it is refused.
pub fn plan(
    config: &ControllerConfig,
    pools: &[PoolFacts],
) -> Result<Vec<GeneratedConfig>, String> {
    let facts = Facts::read(&config.spec)
        .map_err(|why| format!("ControllerConfig {}: spec.{why}", controller_config::NAME))?;
    let maker = Maker {
        api_version: API_VERSION,
        kind: MAKER,
        name: config.metadata.name.clone().unwrap_or_default(),
        uid: config.metadata.uid.clone().unwrap_or_default(),
    };
    let mut made = Vec::new();
    for pool in pools.iter().filter(|pool| pool.is_built_in()) {
        let contents = [
            host::config(&facts),
            container_runtime::config(&facts),
            kubelet::config(&facts, pool),
        ];
        for (name, content) in config_names(&pool.name).into_iter().zip(contents) {
            made.push(GeneratedConfig {
                name,
                role: pool.name.clone(),
                maker: Some(maker.clone()),
                spec: json!({ "config": content.to_value() }),
            });
        }
    }
    Ok(made)
}

impl Facts {
    /// Reads what is used. The error begins with the field.
    fn read(spec: &ControllerConfigSpec) -> Result<Self, String> {
        if spec.cluster_dns_ip.is_empty() {
            return Err("clusterDNSIP is empty, and kubelets need it".to_owned());
        }
        // An address is a value; nothing is asked there.
        let dns: core::net::IpAddr = spec
            .cluster_dns_ip
            .parse()
            .map_err(|_| format!("clusterDNSIP {:?} is no address", spec.cluster_dns_ip))?;
        let text = |field: &str, bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec());
            text.map_err(|_| format!("{field} is not text"))
        };
        let bundle = spec.additional_trust_bundle.as_ref();
        Ok(Self {
            dns: dns.to_string(),
            root_ca: text("rootCAData", &spec.root_ca_data.0)?,
            trust_bundle: match bundle {
                Some(bundle) => text("additionalTrustBundle", &bundle.0)?,
                None => String::new(),
            },
            proxy: proxy(spec.proxy.as_ref())?,
            api_server: at(spec.infra.as_ref(), "/status/apiServerInternalURI")
                .map(api_server)
                .transpose()?,
            pause_image: spec.images.get("infraImageKey").cloned(),
        })
    }
}

/// The variables of a proxy.
fn proxy(object: Option<&Value>) -> Result<Vec<(&'static str, String)>, String> {
    let fields = [
        ("httpProxy", "HTTP_PROXY"),
        ("httpsProxy", "HTTPS_PROXY"),
        ("noProxy", "NO_PROXY"),
    ];
    let mut variables = Vec::new();
    for (field, variable) in fields {
        let Some(value) = at(object, &format!("/status/{field}")) else {
            continue;
        };
        // A line of a file of variables: anything else would end the value.
        if value
            .chars()
            .any(|c| c.is_control() || "\"'\\ ".contains(c))
        {
            return Err(format!(
                "proxy.status.{field} has a character that a variable cannot have"
            ));
        }
        variables.push((variable, value.to_owned()));
    }
    Ok(variables)
}

fn api_server(uri: &str) -> Result<(String, u16), String> {
    let fault = || format!("infra.status.apiServerInternalURI {uri:?} is no https://host:port");
    let rest = uri.strip_prefix("https://").ok_or_else(fault)?;
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| fault())?),
        _ => (rest, 443),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return Err(fault());
    }
    Ok((host.to_owned(), port))
}

/// A text of an object of another group; nothing where it is empty.
fn at<'a>(object: Option<&'a Value>, pointer: &str) -> Option<&'a str> {
    let text = object?.pointer(pointer)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// An Ignition configuration of files and units.
fn ignition(files: Vec<(&str, String)>, units: Vec<Unit>) -> Config {
    let mut config = Config::new();
    config.storage.files = files
        .into_iter()
        .map(|(path, text)| File {
            path: path.to_owned(),
            mode: Some(0o644),
            overwrite: Some(true),
            contents: Resource {
                source: Some(content::to_data_url(text.as_bytes())),
                ..Resource::default()
            },
            ..File::default()
        })
        .collect();
    config.systemd.units = units;
    config
}

#[cfg(test)]
mod tests;
