//! `registries.conf`, its drop-in and `policy.json`.

use std::collections::{BTreeMap, BTreeSet};

use api::config::RegistrySources;
use release::scope::{contains, repository};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::mirrors::{MirrorTable, PullBy};
use super::signatures::{Demands, Signatures};
use crate::object::GeneratedFile;

/// Where the container runtime reads how to reach registries.
pub(crate) const REGISTRIES: &str = "/etc/containers/registries.conf";

/// What of it names where short names are looked for.
const SEARCH: &str = "/etc/containers/registries.conf.d/01-image-searchRegistries.conf";

pub(crate) const POLICY: &str = "/etc/containers/policy.json";

/// That signatures lie beside images in their registries.
const ATTACHMENTS: &str = "/etc/containers/registries.d/sigstore-registries.yaml";

/// Folder of the policies of namespaces.
const NAMESPACES: &str = "/etc/crio/policies";

/// Where short names are looked for if the cluster does not say.
///
/// Source: OpenShift documentation, "Image configuration resources".
const DEFAULT_SEARCH: [&str; 2] = ["registry.access.redhat.com", "docker.io"];

/// Source: `containers-registries.conf(5)`, version 2.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct RegistriesConf {
    unqualified_search_registries: Vec<String>,
    short_name_mode: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    registry: Vec<Registry>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Registry {
    prefix: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    location: String,
    #[serde(skip_serializing_if = "is_false")]
    insecure: bool,
    #[serde(skip_serializing_if = "is_false")]
    blocked: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mirror: Vec<Mirror>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Mirror {
    location: String,
    #[serde(skip_serializing_if = "is_false")]
    insecure: bool,
    #[serde(rename = "pull-from-mirror")]
    pull: &'static str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// The files; none where no setting needs one.
pub(super) fn files(
    sources: &RegistrySources,
    mirrors: &MirrorTable,
    signatures: &Signatures,
) -> Vec<GeneratedFile> {
    let mut files = Vec::new();
    let registry = registries(sources, mirrors);
    if !registry.is_empty() {
        let conf = RegistriesConf {
            unqualified_search_registries: DEFAULT_SEARCH.map(str::to_owned).into(),
            short_name_mode: "",
            registry,
        };
        files.push(of_toml(REGISTRIES, &conf));
    }
    let search = &sources.container_runtime_search_registries;
    if !search.is_empty() {
        let conf = RegistriesConf {
            unqualified_search_registries: search.clone(),
            short_name_mode: "",
            registry: Vec::new(),
        };
        files.push(of_toml(SEARCH, &conf));
    }
    let is_limited =
        !sources.allowed_registries.is_empty() || !sources.blocked_registries.is_empty();
    if is_limited || !signatures.cluster.is_empty() {
        files.push(of_json(
            POLICY.to_owned(),
            &policy(sources, [&signatures.cluster]),
        ));
    }
    for (namespace, own) in &signatures.namespaces {
        let path = format!("{NAMESPACES}/{namespace}.json");
        files.push(of_json(path, &policy(sources, [&signatures.cluster, own])));
    }
    let attached = attached(mirrors, signatures);
    if !attached.is_empty() {
        let scopes = attached.iter();
        let scopes: Vec<String> = scopes
            .map(|scope| format!("  {scope:?}:\n    use-sigstore-attachments: true\n"))
            .collect();
        files.push(GeneratedFile {
            path: ATTACHMENTS.to_owned(),
            text: format!("docker:\n{}", scopes.concat()),
        });
    }
    files
}

/// `registries.conf` of a cluster that asks for nothing.
pub(crate) fn default_registries() -> String {
    let conf = RegistriesConf {
        unqualified_search_registries: DEFAULT_SEARCH.map(str::to_owned).into(),
        short_name_mode: "",
        registry: Vec::new(),
    };
    of_toml(REGISTRIES, &conf).text
}

/// `policy.json` of a cluster that asks for nothing.
pub(crate) fn default_policy() -> String {
    of_json(POLICY.to_owned(), &policy(&RegistrySources::default(), [])).text
}

/// Scopes whose signatures are read from registries: those with a demand, and where their mirrors
/// are.
fn attached(mirrors: &MirrorTable, signatures: &Signatures) -> BTreeSet<String> {
    let mut attached = BTreeSet::new();
    for scope in signatures.scopes().map(repository) {
        attached.insert(scope.to_owned());
        for (source, entry) in &mirrors.sources {
            let below = if contains(scope, source) {
                ""
            } else if contains(source, scope) && !source.starts_with('*') {
                scope.strip_prefix(source.as_str()).unwrap_or_default()
            } else {
                continue;
            };
            let locations = entry.mirrors.iter().map(|(mirror, _)| mirror);
            attached.extend(locations.map(|mirror| format!("{mirror}{below}")));
        }
    }
    attached
}

fn of_json(path: String, value: &Value) -> GeneratedFile {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    GeneratedFile {
        path,
        text: text + "\n",
    }
}

fn of_toml(path: &str, conf: &RegistriesConf) -> GeneratedFile {
    GeneratedFile {
        path: path.to_owned(),
        // Tables and texts only: there is no value that TOML lacks.
        text: toml::to_string(conf).unwrap_or_default(),
    }
}

/// One entry for each scope with a setting. The runtime follows the longest that has an image, and
/// no other; so each has the settings of those above it, too.
fn registries(sources: &RegistrySources, mirrors: &MirrorTable) -> Vec<Registry> {
    let has = |list: &[String], name: &str| list.iter().any(|entry| contains(entry, name));
    let named = mirrors.sources.keys();
    let named = named.chain(&sources.insecure_registries);
    let scopes: BTreeSet<&String> = named.chain(&sources.blocked_registries).collect();
    scopes
        .into_iter()
        .map(|scope| {
            let entry = mirrors.sources.get(scope);
            let is_only_mirrored = entry.is_some_and(|entry| entry.is_only_mirrored);
            let is_domain = scope.starts_with("*.");
            let mirror = entry.into_iter().flat_map(|entry| &entry.mirrors);
            Registry {
                prefix: if is_domain {
                    scope.clone()
                } else {
                    String::new()
                },
                location: if is_domain {
                    String::new()
                } else {
                    scope.clone()
                },
                insecure: has(&sources.insecure_registries, scope),
                blocked: is_only_mirrored || has(&sources.blocked_registries, scope),
                mirror: mirror
                    .map(|(location, by)| Mirror {
                        location: location.clone(),
                        insecure: has(&sources.insecure_registries, location),
                        pull: match by {
                            PullBy::Digest => "digest-only",
                            PullBy::Tag => "tag-only",
                        },
                    })
                    .collect(),
            }
        })
        .collect()
}

/// Which images may run, and which of them must be signed. The runtime follows the longest scope
/// that has an image, and no other.
///
/// Source: `containers-policy.json(5)`.
fn policy<'a>(sources: &RegistrySources, demands: impl IntoIterator<Item = &'a Demands>) -> Value {
    let accept = json!([{ "type": "insecureAcceptAnything" }]);
    let reject = json!([{ "type": "reject" }]);
    let (allowed, blocked) = (&sources.allowed_registries, &sources.blocked_registries);
    let demands: BTreeMap<&String, &Vec<Value>> = demands.into_iter().flatten().collect();
    let default = if allowed.is_empty() { &accept } else { &reject };
    let mut scopes = Map::new();
    for entry in allowed {
        // What is allowed below a scope with a demand must be signed, too.
        let above = demands.iter().filter(|(scope, _)| contains(scope, entry));
        let longest = above.max_by_key(|(scope, _)| scope.len());
        let verdict = longest.map_or_else(|| accept.clone(), |(_, demand)| json!(demand));
        scopes.insert(entry.clone(), verdict);
    }
    scopes.extend(blocked.iter().map(|entry| (entry.clone(), reject.clone())));
    for (scope, demand) in demands {
        let has = |entry: &String| contains(entry, repository(scope));
        let is_reached = allowed.is_empty() || allowed.iter().any(has);
        // A signature brings no image in that is kept out.
        if is_reached && !blocked.iter().any(has) {
            scopes.insert(scope.clone(), json!(demand));
        }
    }
    json!({
        "default": default,
        "transports": {
            "atomic": scopes,
            "docker": scopes,
            "docker-daemon": { "": accept }
        }
    })
}
