//! ContainerRuntimeConfigs: options of the container runtimes of pools.
//!
//! Each setting is a drop-in of its own, so that several objects combine: of two that set the same,
//! the last name wins. What has no drop-in, `storage.conf`, is made of all objects up to its own.

use std::collections::BTreeMap;

use api::machineconfiguration::{AdditionalStore, ContainerRuntimeConfig, RuntimeOptions};
use api::{IntOrString, quantity};
use toml::{Table, Value};

use crate::naming::{self, Claimant, NamedPools, SelectingKind, claims};
use crate::object::{API_VERSION, GeneratedConfig, GeneratedFile, Maker, SettingOutcome};
use crate::pools::PoolFacts;

/// Where the runtime's storage is configured.
pub const STORAGE: &str = "/etc/containers/storage.conf";

/// The storage's configuration where the base writes none.
///
/// Source: `containers-storage.conf(5)`, the defaults of a host.
pub(crate) const DEFAULT_STORAGE: &str = "\
[storage]
driver = \"overlay\"
graphroot = \"/var/lib/containers/storage\"
runroot = \"/run/containers/storage\"
";

/// Levels of the runtime's log.
const LEVELS: [&str; 7] = ["error", "fatal", "panic", "warn", "info", "debug", "trace"];

/// The smallest number of processes that a container can live with.
const MIN_PIDS: i64 = 20;

/// Bytes that a log holds at least: what the runtime reads at once.
const MIN_LOG_BYTES: i128 = 8192;

/// Longest path of a store.
const MAX_PATH: usize = 256;

/// Why a ContainerRuntimeConfig is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Its pools or its number.
    #[error(transparent)]
    Naming(#[from] naming::Error),
    /// The base of this role cannot be read.
    #[error("MachineConfig 01-{0}-container-runtime: {STORAGE} is not TOML")]
    NotToml(String),
    /// The base of this role has something else in the place of the named table.
    #[error("MachineConfig 01-{0}-container-runtime: {STORAGE} has {1}, which is no table")]
    NoTable(String, &'static str),
    /// A level that there is not.
    #[error("invalid LogLevel {0:?}, must be one of {levels}", levels = LEVELS.join(", "))]
    LogLevel(String),
    /// Too few processes.
    #[error("invalid PidsLimit {0}")]
    PidsLimit(i64),
    /// Less than the runtime reads at once.
    #[error("invalid LogSizeMax \"{0}\", cannot be less than 8kB")]
    LogSizeMax(String),
    /// A runtime that there is not.
    #[error("invalid DefaultRuntime {0:?}, must be crun or runc")]
    DefaultRuntime(String),
    #[error("invalid OverlaySize \"{0}\", cannot be less than 0")]
    OverlaySize(String),
    /// Field and value.
    #[error("spec.containerRuntimeConfig.{0} {1} is no quantity")]
    NoQuantity(&'static str, IntOrString),
    /// Field, how many there are, and how many there may be.
    #[error("spec.containerRuntimeConfig.{0} has {1} stores, more than {2}")]
    TooManyStores(&'static str, usize, usize),
    /// Field, index and path.
    #[error("spec.containerRuntimeConfig.{0}[{1}].path {2:?} is no plain absolute path")]
    NoPath(&'static str, usize, String),
    /// Field, index and path.
    #[error("spec.containerRuntimeConfig.{0}[{1}].path {2} is there twice")]
    RepeatedPath(&'static str, usize, String),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimePlan {
    /// MachineConfigs of those that are followed.
    pub configs: Vec<GeneratedConfig>,
    /// What becomes of each that is not under deletion.
    pub outcomes: Vec<SettingOutcome<Error>>,
}

/// Makes the MachineConfigs that ContainerRuntimeConfigs ask for. `storage` has the `storage.conf`
/// of each role whose base writes one.
///
/// Source: `docs/reference/controller.md`, "ContainerRuntimeConfig".
pub fn plan(
    configs: &[&ContainerRuntimeConfig],
    pools: &[PoolFacts],
    storage: &BTreeMap<String, String>,
) -> RuntimePlan {
    let claimants: Vec<Claimant<'_>> = configs
        .iter()
        .map(|config| Claimant {
            metadata: &config.metadata,
            selector: config.spec.machine_config_pool_selector.as_ref(),
        })
        .collect();
    let names = claims(SelectingKind::Runtime, &claimants, pools);
    let mut candidates: Vec<(
        &ContainerRuntimeConfig,
        Result<NamedPools<'_>, naming::Error>,
    )> = configs.iter().copied().zip(names).collect();
    candidates.retain(|(config, _)| config.metadata.deletion_timestamp.is_none());
    candidates.sort_by_key(|(_, names)| names.as_ref().map_or(u32::MAX, |names| names.number));
    let mut plan = RuntimePlan::default();
    // The storage settings of each pool so far.
    let mut below: BTreeMap<String, Storage> = BTreeMap::new();
    for (config, names) in candidates {
        let suffix = names.as_ref().ok().map(NamedPools::suffix);
        let made = names
            .map_err(Error::from)
            .and_then(|names| make(config, &names, &mut below, storage));
        let (configs, result) = match made {
            Ok(configs) => (configs, Ok(())),
            Err(why) => (Vec::new(), Err(why)),
        };
        plan.outcomes.push(SettingOutcome {
            name: config.metadata.name.clone().unwrap_or_default(),
            suffix,
            configs: configs.iter().map(|config| config.name.clone()).collect(),
            remarks: Vec::new(),
            result,
        });
        plan.configs.extend(configs);
    }
    plan
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Storage {
    overlay_bytes: Option<i128>,
    images: Vec<String>,
    layers: Vec<String>,
}

impl Storage {
    fn overlay(&mut self, upper: &Self) {
        self.overlay_bytes = upper.overlay_bytes.or(self.overlay_bytes);
        if !upper.images.is_empty() {
            self.images.clone_from(&upper.images);
        }
        if !upper.layers.is_empty() {
            self.layers.clone_from(&upper.layers);
        }
    }
}

fn make(
    config: &ContainerRuntimeConfig,
    names: &NamedPools<'_>,
    below: &mut BTreeMap<String, Storage>,
    storage: &BTreeMap<String, String>,
) -> Result<Vec<GeneratedConfig>, Error> {
    let options = &config.spec.container_runtime_config;
    let own = drop_ins(options)?;
    let own_storage = storage_of(options)?;
    let mut made = Vec::new();
    for pool in &names.pools {
        let mut files = own.clone();
        if own_storage != Storage::default() {
            let mut merged = below.get(&pool.name).cloned().unwrap_or_default();
            merged.overlay(&own_storage);
            let base = storage.get(pool.role()).map(String::as_str);
            let text = storage_conf(base.unwrap_or(DEFAULT_STORAGE), &merged, pool.role())?;
            files.push(GeneratedFile {
                path: STORAGE.to_owned(),
                text,
            });
        }
        made.push(GeneratedConfig::of_files(
            SelectingKind::Runtime.config_name(&pool.name, names.number),
            &pool.name,
            Some(Maker {
                api_version: API_VERSION,
                kind: SelectingKind::Runtime.as_str(),
                name: config.metadata.name.clone().unwrap_or_default(),
                uid: config.metadata.uid.clone().unwrap_or_default(),
            }),
            &files,
        ));
    }
    for pool in &names.pools {
        below
            .entry(pool.name.clone())
            .or_default()
            .overlay(&own_storage);
    }
    Ok(made)
}

/// The drop-ins of the runtime, one for each setting.
fn drop_ins(options: &RuntimeOptions) -> Result<Vec<GeneratedFile>, Error> {
    let mut files = Vec::new();
    let mut add = |path: &'static str, table: &str, option: &str, value: Value| {
        let inner = Table::from_iter([(option.to_owned(), value)]);
        let middle = Table::from_iter([(table.to_owned(), Value::Table(inner))]);
        let outer = Table::from_iter([("crio".to_owned(), Value::Table(middle))]);
        let text = toml::to_string(&outer).unwrap_or_default();
        files.push(GeneratedFile {
            path: path.to_owned(),
            text,
        });
    };
    let level = options.log_level.as_str();
    if !level.is_empty() {
        if !LEVELS.contains(&level) {
            return Err(Error::LogLevel(level.to_owned()));
        }
        add(
            "/etc/crio/crio.conf.d/01-ctrcfg-logLevel",
            "runtime",
            "log_level",
            level.into(),
        );
    }
    // OpenShift counts 0 as absent.
    if let Some(limit) = options.pids_limit.filter(|limit| *limit != 0) {
        if limit < MIN_PIDS {
            return Err(Error::PidsLimit(limit));
        }
        add(
            "/etc/crio/crio.conf.d/01-ctrcfg-pidsLimit",
            "runtime",
            "pids_limit",
            limit.into(),
        );
    }
    if let Some(size) = &options.log_size_max {
        let bytes = bytes_of("logSizeMax", size)?;
        if (1..=MIN_LOG_BYTES).contains(&bytes) {
            return Err(Error::LogSizeMax(written(size)));
        }
        if bytes != 0 {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            add(
                "/etc/crio/crio.conf.d/01-ctrcfg-logSizeMax",
                "runtime",
                "log_size_max",
                bytes.into(),
            );
        }
    }
    let runtime = options.default_runtime.as_str();
    if !runtime.is_empty() {
        if !["crun", "runc"].contains(&runtime) {
            return Err(Error::DefaultRuntime(runtime.to_owned()));
        }
        let path = "/etc/crio/crio.conf.d/01-ctrcfg-defaultRuntime";
        add(path, "runtime", "default_runtime", runtime.into());
    }
    let stores = paths(
        "additionalArtifactStores",
        &options.additional_artifact_stores,
        10,
    )?;
    if !stores.is_empty() {
        let path = "/etc/crio/crio.conf.d/01-ctrcfg-additionalArtifactStores";
        add(path, "image", "additional_artifact_stores", stores.into());
    }
    Ok(files)
}

fn storage_of(options: &RuntimeOptions) -> Result<Storage, Error> {
    let size = options.overlay_size.as_ref();
    let bytes = size.map(|size| bytes_of("overlaySize", size)).transpose()?;
    if let (Some(size), Some(..0)) = (size, bytes) {
        return Err(Error::OverlaySize(written(size)));
    }
    Ok(Storage {
        overlay_bytes: bytes.filter(|bytes| *bytes != 0),
        images: paths(
            "additionalImageStores",
            &options.additional_image_stores,
            10,
        )?,
        layers: paths("additionalLayerStores", &options.additional_layer_stores, 5)?,
    })
}

/// Lays the settings over the base of a role.
fn storage_conf(base: &str, settings: &Storage, role: &str) -> Result<String, Error> {
    let mut conf: Table = base.parse().map_err(|_| Error::NotToml(role.to_owned()))?;
    let table =
        |parent, name| table(parent, name).ok_or_else(|| Error::NoTable(role.to_owned(), name));
    let storage = table(&mut conf, "storage")?;
    let options = table(storage, "options")?;
    if !settings.images.is_empty() {
        options.insert(
            "additionalimagestores".to_owned(),
            settings.images.clone().into(),
        );
    }
    if !settings.layers.is_empty() {
        // Layers are found by the image's reference: what lazy stores understand.
        let layers: Vec<String> = settings
            .layers
            .iter()
            .map(|path| format!("{path}:ref"))
            .collect();
        options.insert("additionallayerstores".to_owned(), layers.into());
    }
    if let Some(bytes) = settings.overlay_bytes {
        let overlay = table(options, "overlay")?;
        overlay.insert("size".to_owned(), bytes.to_string().into());
    }
    Ok(toml::to_string(&conf).unwrap_or_default())
}

/// The table of a name, made where it is not there; nothing where it is no table.
fn table<'a>(parent: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    let entry = parent
        .entry(name.to_owned())
        .or_insert_with(|| Value::Table(Table::new()));
    entry.as_table_mut()
}

fn bytes_of(field: &'static str, size: &IntOrString) -> Result<i128, Error> {
    quantity::bytes(&written(size)).ok_or_else(|| Error::NoQuantity(field, size.clone()))
}

fn written(size: &IntOrString) -> String {
    match size {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

fn paths(
    field: &'static str,
    stores: &[AdditionalStore],
    most: usize,
) -> Result<Vec<String>, Error> {
    if stores.len() > most {
        return Err(Error::TooManyStores(field, stores.len(), most));
    }
    let mut paths: Vec<String> = Vec::new();
    for (index, store) in stores.iter().enumerate() {
        let path = &store.path;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let is_good = path.starts_with('/')
            && (2..=MAX_PATH).contains(&path.len())
            && path.chars().all(is_plain)
            && !path.contains("//");
        if !is_good {
            return Err(Error::NoPath(field, index, path.clone()));
        }
        if paths.contains(path) {
            return Err(Error::RepeatedPath(field, index, path.clone()));
        }
        paths.push(path.clone());
    }
    Ok(paths)
}

#[cfg(test)]
mod tests;
