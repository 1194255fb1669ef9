//! Image settings and mirrors: how the container runtime of each built-in pool uses registries.
//!
//! - `scope`: a registry, repository or domain
//! - `mirrors`: the mirrors of each source, over all objects
//! - `signatures`: which signatures images must have
//! - `files`: `registries.conf`, its drop-in, `policy.json` and those of namespaces

mod files;
mod mirrors;
mod scope;
mod signatures;

use api::config::{
    ClusterImagePolicy, Image, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet,
};
use api::operator::ImageContentSourcePolicy;

use crate::object::GeneratedConfig;
use crate::pools::PoolFacts;

use self::mirrors::MirrorTable;
use self::scope::{contains, repository};
use self::signatures::Signatures;

pub(crate) use self::files::{POLICY, REGISTRIES, default_policy, default_registries};

/// What is asked of the container runtimes of a cluster.
#[derive(Debug, Clone, Default)]
pub struct RegistryFacts<'a> {
    /// Image `cluster`.
    pub image: Option<&'a Image>,
    /// `ImageDigestMirrorSets`.
    pub digest: Vec<&'a ImageDigestMirrorSet>,
    /// `ImageTagMirrorSets`.
    pub tag: Vec<&'a ImageTagMirrorSet>,
    /// `ImageContentSourcePolicies`.
    pub content_source: Vec<&'a ImageContentSourcePolicy>,
    /// `ClusterImagePolicies`.
    pub cluster_policies: Vec<&'a ClusterImagePolicy>,
    /// `ImagePolicies` of all namespaces.
    pub image_policies: Vec<&'a ImagePolicy>,
    /// Images of the release: nodes must be able to pull them.
    pub payload: Vec<&'a str>,
}

/// Name of the MachineConfig of a pool.
pub fn config_name(pool: &str) -> String {
    format!("99-{pool}-generated-registries")
}

/// Makes the MachineConfigs of the built-in pools; none where nothing is asked for. A custom pool
/// has the workers'.
///
/// Source: `docs/reference/controller.md`, "Registries".
///
/// # Errors
/// Object and field, and why it is refused.
pub fn plan(
    settings: &RegistryFacts<'_>,
    pools: &[PoolFacts],
) -> Result<Vec<GeneratedConfig>, String> {
    let default = api::config::RegistrySources::default();
    let sources = settings
        .image
        .map_or(&default, |image| &image.spec.registry_sources);
    let mirrors = MirrorTable::read(settings)?;
    check(sources, &mirrors, &settings.payload)
        .map_err(|why| format!("Image cluster: spec.registrySources{why}"))?;
    let signatures = Signatures::read(&settings.cluster_policies, &settings.image_policies)?;
    let files = files::files(sources, &mirrors, &signatures);
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let built_in = pools.iter().filter(|pool| pool.is_built_in());
    Ok(built_in
        .map(|pool| GeneratedConfig::of_files(config_name(&pool.name), &pool.name, None, &files))
        .collect())
}

/// ImagePolicies that cannot be followed, and why: their images do not run in their namespaces.
pub fn refused_policies(settings: &RegistryFacts<'_>) -> Vec<String> {
    let read = Signatures::read(&settings.cluster_policies, &settings.image_policies);
    read.map(|read| read.refused).unwrap_or_default()
}

fn check(
    sources: &api::config::RegistrySources,
    mirrors: &MirrorTable,
    payload: &[&str],
) -> Result<(), String> {
    let lists = [
        ("allowedRegistries", &sources.allowed_registries, true),
        ("blockedRegistries", &sources.blocked_registries, true),
        ("insecureRegistries", &sources.insecure_registries, true),
        (
            "containerRuntimeSearchRegistries",
            &sources.container_runtime_search_registries,
            false,
        ),
    ];
    for (field, entries, takes_domains) in lists {
        for (index, entry) in entries.iter().enumerate() {
            scope::check(entry, takes_domains)
                .map_err(|why| format!(".{field}[{index}]: {why}"))?;
        }
    }
    if !sources.allowed_registries.is_empty() && !sources.blocked_registries.is_empty() {
        let why = "invalid images config: only one of AllowedRegistries or BlockedRegistries may be specified";
        return Err(format!(": {why}"));
    }
    let is_blocked = |name: &str| {
        let mut blocked = sources.blocked_registries.iter();
        blocked.any(|blocked| contains(blocked, name))
    };
    let locked_out = payload.iter().find(|image| {
        let repository = repository(image);
        let mut mirrored = mirrors.of_digests(repository);
        is_blocked(repository) && mirrored.all(&is_blocked)
    });
    match locked_out {
        Some(image) => Err(format!(
            ".blockedRegistries has the registry of image {image} of the release, which no ImageDigestMirrorSet mirrors elsewhere"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
