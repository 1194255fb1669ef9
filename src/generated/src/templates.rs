//! Base configurations of the roles of a cluster on no cloud: what every node has before any
//! setting.
//!
//! - `host`: `00-<role>`: trust, proxy, the API server's address
//! - `kubelet`: `01-<role>-kubelet`: `kubelet.conf` and the kubelet's service
//! - `container_runtime`: `01-<role>-container-runtime`: CRI-O, its storage and registries

mod container_runtime;
mod host;
mod kubelet;

use std::fmt;

use api::machineconfiguration::ControllerConfig;
use api::machineconfiguration::controller_config::{self, ControllerConfigSpec};
use ignition::{Config, File, Resource, Unit, content};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Map, Value, json};

use crate::object::{API_VERSION, GeneratedConfig, Maker};
use crate::pools::PoolFacts;

/// The ControllerConfig's field that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ControllerConfig {}", controller_config::NAME)]
pub struct Error(#[source] Fault);

/// Why a field is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("spec.clusterDNSIP is empty, and kubelets need it")]
    NoDns,
    #[error("spec.clusterDNSIP {0:?} is no address")]
    Dns(String),
    #[error("spec.{0} is not text")]
    NotText(&'static str),
    #[error(
        "spec.pullSecret names Secret {0}/{1}, and only {namespace}/{name} is read",
        namespace = PULL_SECRET.0,
        name = PULL_SECRET.1
    )]
    OtherSecret(String, String),
    #[error("spec.pullSecret: Secret {namespace}/{name} {0}", namespace = PULL_SECRET.0, name = PULL_SECRET.1)]
    Secret(SecretFault),
    #[error("spec.proxy.status.{0} has a character that a variable cannot have")]
    ProxyCharacter(&'static str),
    #[error("spec.infra.status.apiServerInternalURI {0:?} is no https://host:port")]
    ApiServer(String),
}

/// Why a pull secret cannot be used. What it says is a secret: of an error only the place is named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum SecretFault {
    #[error("is not there")]
    Missing,
    #[error("has type {0:?}, expected {expected}", expected = PullSecret::TYPE)]
    Type(String),
    #[error("has no text in {}", PullSecret::KEY)]
    NotText,
    #[error("has no JSON object in {key}: line {line}, column {column}", key = PullSecret::KEY)]
    NoObject { line: usize, column: usize },
}

/// The kind that base configurations are made from.
pub const MAKER: &str = "ControllerConfig";

/// The platform whose base configurations are built.
const PLATFORM: &str = "None";

/// Namespace and name of the Secret that is read.
pub const PULL_SECRET: (&str, &str) = ("openshift-config", "pull-secret");

/// Logins of registries on a host, for kubelet, container runtime and daemon.
const PULL_SECRET_FILE: &str = "/var/lib/kubelet/config.json";

/// The Secret by which nodes pull images.
#[derive(Clone, PartialEq, Eq)]
pub struct PullSecret {
    pub r#type: String,
    /// Value of its key [`PullSecret::KEY`].
    pub value: Vec<u8>,
}

impl fmt::Debug for PullSecret {
    /// Without the value, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullSecret")
            .field("type", &self.r#type)
            .finish_non_exhaustive()
    }
}

impl PullSecret {
    /// The type that it must have.
    pub const TYPE: &str = "kubernetes.io/dockerconfigjson";

    /// The key that is used.
    pub const KEY: &str = ".dockerconfigjson";
}

/// What of a ControllerConfig goes into files. It holds a secret, and so is not printed.
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
    /// Logins of registries, JSON.
    pull_secret: Option<String>,
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

/// Makes the base configurations of the built-in pools; a custom pool has the workers'. `secret` is
/// the Secret [`PULL_SECRET`], if it is there.
///
/// Source: `docs/reference/controller.md`, "Base configurations".
///
/// # Errors
/// [`Error`].
pub fn plan(
    config: &ControllerConfig,
    pools: &[PoolFacts],
    secret: Option<&PullSecret>,
) -> Result<Vec<GeneratedConfig>, Error> {
    let facts = Facts::read(&config.spec, secret).map_err(Error)?;
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
                platform: Some(PLATFORM),
                spec: json!({ "config": content.to_value() }),
            });
        }
    }
    Ok(made)
}

impl Facts {
    fn read(spec: &ControllerConfigSpec, secret: Option<&PullSecret>) -> Result<Self, Fault> {
        if spec.cluster_dns_ip.is_empty() {
            return Err(Fault::NoDns);
        }
        // An address is a value; no request is sent there.
        let dns: core::net::IpAddr = spec
            .cluster_dns_ip
            .parse()
            .map_err(|_| Fault::Dns(spec.cluster_dns_ip.clone()))?;
        let text = |field, bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec());
            text.map_err(|_| Fault::NotText(field))
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
            pull_secret: match &spec.pull_secret {
                Some(reference) => Some(pull_secret(reference, secret)?),
                None => None,
            },
        })
    }
}

/// The logins of registries in a Secret.
fn pull_secret(reference: &ObjectReference, secret: Option<&PullSecret>) -> Result<String, Fault> {
    let named = [&reference.namespace, &reference.name].map(|it| it.as_deref().unwrap_or_default());
    if named != [PULL_SECRET.0, PULL_SECRET.1] {
        let [namespace, name] = named.map(str::to_owned);
        return Err(Fault::OtherSecret(namespace, name));
    }
    let secret = secret.ok_or(Fault::Secret(SecretFault::Missing))?;
    if secret.r#type != PullSecret::TYPE {
        return Err(Fault::Secret(SecretFault::Type(secret.r#type.clone())));
    }
    let text = String::from_utf8(secret.value.clone());
    let text = text.map_err(|_| Fault::Secret(SecretFault::NotText))?;
    serde_json::from_str::<Map<String, Value>>(&text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Fault::Secret(SecretFault::NoObject { line, column })
    })?;
    Ok(text)
}

/// The variables of a proxy.
fn proxy(object: Option<&Value>) -> Result<Vec<(&'static str, String)>, Fault> {
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
            return Err(Fault::ProxyCharacter(field));
        }
        variables.push((variable, value.to_owned()));
    }
    Ok(variables)
}

fn api_server(uri: &str) -> Result<(String, u16), Fault> {
    let fault = || Fault::ApiServer(uri.to_owned());
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
        .map(|(path, text)| file(path, &text, 0o644))
        .collect();
    config.systemd.units = units;
    config
}

fn file(path: &str, text: &str, mode: u32) -> File {
    File {
        path: path.to_owned(),
        mode: Some(mode),
        overwrite: Some(true),
        contents: Resource {
            source: Some(content::to_data_url(text.as_bytes())),
            ..Resource::default()
        },
        ..File::default()
    }
}

#[cfg(test)]
mod tests;
