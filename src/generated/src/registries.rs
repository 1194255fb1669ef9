//! Image settings and mirrors: how the container runtime of each built-in pool uses registries.
//!
//! - `scope`: a registry, repository or domain, as settings may name it
//! - `mirrors`: the mirrors of each source, over all objects
//! - `places`: where nodes pull an image from
//! - `signatures`: which signatures images must have
//! - `files`: `registries.conf`, its drop-in, `policy.json` and those of namespaces

mod files;
mod mirrors;
mod places;
mod scope;
mod signatures;

use api::config::{
    ClusterImagePolicy, Image, ImageDigestMirrorSet, ImagePolicy, ImageTagMirrorSet,
};
use api::operator::ImageContentSourcePolicy;

use release::scope::{contains, repository};

use crate::object::{GeneratedConfig, GeneratedFile};
use crate::pools::PoolFacts;

use self::mirrors::MirrorTable;
use self::signatures::Signatures;

pub use self::places::pull_places;
pub use self::scope::InvalidScope;
pub use self::signatures::PolicyError;

pub(crate) use self::files::{POLICY, REGISTRIES, default_policy, default_registries};

/// The object and field that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An entry of an object of mirrors, and its member.
    #[error("{0}.{1}")]
    Mirror(String, &'static str, #[source] InvalidScope),
    /// An entry of an object of mirrors has a policy that there is not.
    #[error("{0}.mirrorSourcePolicy: there is no policy {1:?}")]
    NoSourcePolicy(String, String),
    /// An entry whose source has another policy in another object.
    #[error("{0}.mirrorSourcePolicy: source {1} has another policy in {2}")]
    TwoPolicies(String, String, String),
    /// List and index of an entry of Image `cluster`.
    #[error("Image cluster: spec.registrySources.{0}[{1}]")]
    Source(&'static str, usize, #[source] InvalidScope),
    /// Image `cluster` both allows and blocks.
    #[error(
        "Image cluster: spec.registrySources: invalid images config: only one of AllowedRegistries or BlockedRegistries may be specified"
    )]
    AllowedAndBlocked,
    /// Image `cluster` blocks this image.
    #[error(
        "Image cluster: spec.registrySources.blockedRegistries has the registry of image {0} of the release, which no ImageDigestMirrorSet mirrors elsewhere"
    )]
    ReleaseBlocked(String),
    /// The ClusterImagePolicy of this name.
    #[error("ClusterImagePolicy {0}")]
    ClusterPolicy(String, #[source] PolicyError),
    /// The ImagePolicy of this namespace and name.
    #[error("ImagePolicy {0}")]
    NamespacePolicy(String, #[source] PolicyError),
}

/// The settings of the container runtimes of a cluster.
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

/// Makes the MachineConfigs of the built-in pools; none where no setting needs one. A custom
/// pool has the workers'.
///
/// Source: `docs/reference/controller.md`, "Registries".
///
/// # Errors
/// [`Error`].
pub fn plan(
    settings: &RegistryFacts<'_>,
    pools: &[PoolFacts],
) -> Result<Vec<GeneratedConfig>, Error> {
    let files = node_files(settings)?;
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let built_in = pools.iter().filter(|pool| pool.is_built_in());
    Ok(built_in
        .map(|pool| GeneratedConfig::of_files(config_name(&pool.name), &pool.name, None, &files))
        .collect())
}

/// The files that nodes have by the settings; none where no setting needs one.
///
/// # Errors
/// [`Error`].
pub fn node_files(settings: &RegistryFacts<'_>) -> Result<Vec<GeneratedFile>, Error> {
    let default = api::config::RegistrySources::default();
    let sources = settings
        .image
        .map_or(&default, |image| &image.spec.registry_sources);
    let mirrors = MirrorTable::read(settings)?;
    check(sources, &mirrors, &settings.payload)?;
    let signatures = Signatures::read(&settings.cluster_policies, &settings.image_policies)?;
    Ok(files::files(sources, &mirrors, &signatures))
}

/// ImagePolicies that cannot be followed, and why: their images do not run in their namespaces.
pub fn refused_policies(settings: &RegistryFacts<'_>) -> Vec<Error> {
    let read = Signatures::read(&settings.cluster_policies, &settings.image_policies);
    read.map(|read| read.refused).unwrap_or_default()
}

fn check(
    sources: &api::config::RegistrySources,
    mirrors: &MirrorTable,
    payload: &[&str],
) -> Result<(), Error> {
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
                .map_err(|error| Error::Source(field, index, error))?;
        }
    }
    if !sources.allowed_registries.is_empty() && !sources.blocked_registries.is_empty() {
        return Err(Error::AllowedAndBlocked);
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
        Some(image) => Err(Error::ReleaseBlocked((*image).to_owned())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
