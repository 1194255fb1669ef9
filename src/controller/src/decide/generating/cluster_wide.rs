//! What one object asks for all built-in pools: registries, node settings and feature gates. Such
//! an object has no status of its own here; what is wrong with it is in the conditions of the
//! pools.

use std::sync::Arc;

use chassis::program::BUILD;
use chassis::report::Chain;
use cluster::cache::Table;
use generated::object::GeneratedConfig;
use generated::pools::PoolFacts;
use generated::registries::{self, RegistryFacts};
use generated::{features, node_settings};

use super::ownership;
use crate::store::{Configs, Snapshot};

/// Images of the release, which every node pulls.
pub(crate) fn payload(snapshot: &Snapshot) -> Vec<&str> {
    let spec = snapshot.controller_config().map(|config| &config.spec);
    let images = spec.map(|spec| {
        [
            spec.release_image.as_str(),
            spec.base_os_container_image.as_str(),
        ]
    });
    let mut images: Vec<&str> = images.into_iter().flatten().collect();
    images.retain(|image| !image.is_empty());
    images
}

pub(crate) fn registries(
    snapshot: &Snapshot,
    pools: &[PoolFacts],
) -> Result<Vec<GeneratedConfig>, registries::Error> {
    registries::plan(&registry_facts(snapshot), pools)
}

pub(crate) fn registry_facts(snapshot: &Snapshot) -> RegistryFacts<'_> {
    let generators = &snapshot.generators;
    RegistryFacts {
        image: generators.images.values().next().map(Arc::as_ref),
        digest: generators
            .digest_mirrors
            .values()
            .map(Arc::as_ref)
            .collect(),
        tag: generators.tag_mirrors.values().map(Arc::as_ref).collect(),
        content_source: generators
            .content_sources
            .values()
            .map(Arc::as_ref)
            .collect(),
        cluster_policies: generators
            .cluster_policies
            .values()
            .map(Arc::as_ref)
            .collect(),
        image_policies: generators
            .image_policies
            .values()
            .map(|entry| &entry.policy)
            .collect(),
        payload: payload(snapshot),
    }
}

/// How names of what is generated for no object alone begin and end. `99-…-generated-kubelet` is a
/// KubeletConfig's.
const NAMES: [(&str, &str); 3] = [
    ("97-", "-generated-kubelet"),
    ("99-", "-generated-registries"),
    ("98-", "-generated-kubelet"),
];

/// What this build generated for no object alone.
pub(crate) fn leftovers(configs: &Table<Configs>) -> impl Iterator<Item = &str> {
    let configs = configs.values().filter(|config| {
        config.generated_by.as_deref() == Some(BUILD)
            && config.controller.is_none()
            && NAMES
                .iter()
                .any(|(start, end)| config.name.starts_with(start) && config.name.ends_with(end))
    });
    configs.map(|config| config.name.as_str())
}

/// Why a pool cannot be rendered until an administrator corrects an object.
pub(crate) fn fault(facts: &PoolFacts, snapshot: &Snapshot) -> Option<String> {
    if !facts.is_built_in() || snapshot.generators.is_empty() {
        return None;
    }
    let wanted = match registries(snapshot, std::slice::from_ref(facts)) {
        Ok(wanted) => wanted,
        Err(error) => return Some(Chain(&error).to_string()),
    };
    let settings = snapshot.generators.node_settings.values().next();
    if let Some(Err(error)) = settings.map(|settings| node_settings::read(settings)) {
        return Some(error.to_string());
    }
    let mut names = wanted.iter().map(|config| config.name.clone()).collect();
    add_features(&mut names, facts, snapshot);
    names.iter().find_map(|name| {
        let config = snapshot.configs.get(name)?;
        ownership::foreign_config(config, None)
    })
}

/// Why a pool waits for the cluster-wide configs: one is not stored yet, or is of another build.
pub(crate) fn wait(pool: &PoolFacts, snapshot: &Snapshot) -> Option<String> {
    let wanted = registries(snapshot, std::slice::from_ref(pool)).ok()?;
    let mut names = wanted.into_iter().map(|config| config.name).collect();
    add_features(&mut names, pool, snapshot);
    let missing = names.into_iter().find(|name| {
        let config = snapshot.configs.get(name);
        config.is_none_or(|config| config.generated_by.as_deref() != Some(BUILD))
    })?;
    Some(format!("MachineConfig {missing} is not generated yet"))
}

/// Adds the names of what node settings ask for, and feature gates, where there is a base to lay
/// them over.
fn add_features(names: &mut Vec<String>, pool: &PoolFacts, snapshot: &Snapshot) {
    let has_gates = snapshot.generators.feature_gates.values().next().is_some();
    let has_settings = snapshot.generators.node_settings.values().next().is_some();
    if has_settings && pool.is_built_in() {
        names.push(node_settings::config_name(&pool.name));
    }
    let base = format!("01-{}-kubelet", pool.role());
    if has_gates && pool.is_built_in() && snapshot.configs.get(&base).is_some() {
        names.push(features::config_name(&pool.name));
    }
}
