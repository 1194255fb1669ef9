//! Fetches images into the repository and keeps them there, without any boot entry.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::path::PathBuf;
use std::time::Duration;

use node_update::pull::{by_digest, why_unusable};
use ostree_ext::container::store::{ImageImporter, PrepareResult};
use ostree_ext::container::{OstreeImageReference, SignatureSource};
use ostree_ext::containers_image_proxy::{ImageProxy, ImageProxyConfig};
use ostree_ext::oci_spec::image::{ImageManifest, MediaType};
use ostree_ext::ostree;
use serde::Deserialize;
use tokio::runtime::Runtime;
use tracing::{info, warn};

use super::derived::{self, OS_BUILD};
use super::image::{Fetched, Opened, close};
use super::layer;
use super::refs::{self, fetch_error};
use super::{
    Deployments, Error, ErrorContext as _, FetchCause, Result, bootable, repository, room,
};
use crate::process;
use crate::pull::{Puller, architecture};

/// How long to wait for another writer of deployments.
const PATIENCE: Duration = Duration::from_mins(1);

/// A layer as Docker names it, not compressed.
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";

/// Labels of images whose commit is encoded as ostree-ext writes it.
const NATIVE: &[&str] = &[
    "ostree.final-diffid",
    "ostree.diffid",
    "ostree.bootable",
    "containers.bootc",
];

#[derive(Debug)]
pub struct Fetcher<'a> {
    /// The deployments whose repository receives them.
    pub deployments: &'a mut Deployments,
    /// Runs the tasks that wait on skopeo.
    pub runtime: &'a Runtime,
    /// How skopeo is run.
    pub puller: Puller,
    /// The program that runs skopeo where that needs more than skopeo itself, with its first
    /// arguments: one that calls [`throttle::run`](crate::throttle::run).
    pub relay: (PathBuf, Vec<String>),
    /// Whether there is a limit, which that program keeps.
    pub is_limited: bool,
    /// Directory for unpacking an image with a repository inside; emptied before and after.
    pub scratch: PathBuf,
}

/// The part of an image's configuration that is read. Images of the older form lack other parts
/// that the specification requires.
#[derive(Debug, Deserialize)]
struct Configuration {
    config: Option<Labelled>,
}

#[derive(Debug, Deserialize)]
struct Labelled {
    #[serde(rename = "Labels")]
    labels: Option<BTreeMap<String, String>>,
}

impl Fetcher<'_> {
    /// Fetches `image`, keeps it, and drops kept images that are neither it nor in `needed`.
    ///
    /// # Errors
    /// [`Error::PullSpec`], [`Error::Fetch`] and those of libostree. An image with
    /// [`Error::NotBootable`] or [`Error::NoRoom`] is kept, so that a retry does not fetch it
    /// again.
    pub fn fetch(&mut self, image: &str, needed: &BTreeSet<String>) -> Result<Fetched> {
        check_pull_spec(image)?;
        // The lock makes the repository writable too.
        self.deployments.lock(PATIENCE)?;
        // A killed run may have left many files there.
        repository::empty(&self.scratch)?;
        let fetched = match self.present(image)? {
            Some(fetched) => fetched,
            None => self.pull_and_keep(image, needed)?,
        };
        // After the fetch, so that shared layers are not fetched again.
        self.deployments.lock(PATIENCE)?;
        self.release(image, needed)?;
        let kernel = bootable::kernel(&self.deployments.repo(), &fetched.checksum, image)?;
        self.deployments
            .check_boot_room(&kernel, self.deployments.can_free_boot()?)?;
        Ok(fetched)
    }

    fn pull_and_keep(&mut self, image: &str, needed: &BTreeSet<String>) -> Result<Fetched> {
        // The repository has locks of its own; other writers do not wait for a download.
        self.deployments.unlock();
        let repo = self.deployments.repo();
        let pulled = match self.runtime.block_on(self.pull(&repo, image)) {
            Err(Error::Fetch { cause, source, .. }) if may_be_of_index(cause) => {
                return Err(self.explain(image, source));
            }
            Err(Error::NoRoom { .. }) => {
                self.deployments.lock(PATIENCE)?;
                self.release(image, needed)?;
                self.deployments.unlock();
                self.runtime.block_on(self.pull(&repo, image))?
            }
            pulled => pulled?,
        };
        refs::keep(&repo, image, &pulled.checksum)?;
        Ok(Fetched {
            version: self.deployments.version_of(&pulled.checksum)?,
            ..pulled
        })
    }

    /// An image by digest that the repository has already; it needs no registry.
    fn present(&self, image: &str) -> Result<Option<Fetched>> {
        let repo = self.deployments.repo();
        let Some(checksum) = refs::commit_of(&repo, image)? else {
            return Ok(None);
        };
        let Some((_, digest)) = image.split_once('@') else {
            return Ok(None);
        };
        let (_, state) = repo
            .load_commit(&checksum)
            .during(|| format!("read commit {checksum}"))?;
        if state.contains(ostree::RepoCommitState::PARTIAL) {
            return Ok(None);
        }
        let version = self.deployments.version_of(&checksum)?;
        let (image, digest) = (image.to_owned(), Some(digest.to_owned()));
        Ok(Some(Fetched {
            image,
            checksum,
            digest,
            version,
            fetched_bytes: 0,
        }))
    }

    fn release(&mut self, image: &str, needed: &BTreeSet<String>) -> Result<()> {
        let mut needed = needed.clone();
        needed.insert(image.to_owned());
        needed.extend(
            self.deployments
                .list()?
                .into_iter()
                .filter_map(|each| each.image),
        );
        let released = refs::drop_others(&self.deployments.repo(), &needed)?;
        if released > 0 {
            info!(released, "dropped images that are not needed");
            self.deployments.prune()?;
        }
        Ok(())
    }

    /// The error of a fetch, with what the image's index has.
    fn explain(&self, image: &str, source: Box<dyn StdError + Send + Sync>) -> Error {
        // Without an answer, what is known is said.
        let manifest = self.puller.manifest(image).ok();
        let why = manifest.and_then(|manifest| why_unusable(&manifest, architecture()));
        match why {
            Some(why) => Error::Fetch {
                image: image.to_owned(),
                cause: FetchCause::Unusable,
                source: why.into(),
            },
            None => fetch_error(image, source),
        }
    }

    async fn pull(&self, repo: &ostree::Repo, image: &str) -> Result<Fetched> {
        let opened = self.open(image).await?;
        check_layers(image, &opened.manifest)?;
        let is_native = NATIVE
            .iter()
            .any(|label| opened.labels.contains_key(*label));
        if !is_native {
            if let Some(build) = opened.labels.get(OS_BUILD) {
                // The commit in the repository is that of the base: the host would lack all of it.
                let why = format!(
                    "MachineOSBuild {build} built it on an image that is no native container image; \
                     what is built on such an image does not reach a host"
                );
                return Err(Error::NotBootable {
                    image: image.to_owned(),
                    why,
                });
            }
            return repository::pull(repo, image, opened, &self.scratch).await;
        }
        self.pull_native(repo, image, opened).await
    }

    async fn open(&self, image: &str) -> Result<Opened> {
        let open = async {
            let proxy = ImageProxy::new_with_config(self.proxy_config(self.is_limited)).await?;
            let opened = proxy
                .open_image(&format!("docker://{}", by_digest(image)))
                .await?;
            let (digest, manifest) = proxy.fetch_manifest(&opened).await?;
            let config = proxy.fetch_config_raw(&opened).await?;
            let config: Configuration = serde_json::from_slice(&config)?;
            let labels = config
                .config
                .and_then(|config| config.labels)
                .unwrap_or_default();
            Ok(Opened {
                proxy,
                image: opened,
                digest,
                manifest,
                labels,
            })
        };
        open.await
            .map_err(|error: ostree_ext::containers_image_proxy::Error| {
                fetch_error(image, plain(&error.to_string()))
            })
    }

    async fn pull_native(
        &self,
        repo: &ostree::Repo,
        image: &str,
        opened: Opened,
    ) -> Result<Fetched> {
        let is_relayed = self.is_limited || has_tail(&opened.manifest);
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| fetch_error(image, error);
        let reference = OstreeImageReference {
            // skopeo applies the policy, or the caller where skopeo is too old.
            sigverify: SignatureSource::ContainerPolicyAllowInsecure,
            imgref: refs::reference(image),
        };
        let importer = ImageImporter::new(repo, &reference, self.proxy_config(is_relayed)).await;
        let mut importer = importer.map_err(|error| failed(error.into()))?;
        // Slipway's refs decide which images stay.
        importer.disable_gc();
        let prepared = importer
            .prepare()
            .await
            .map_err(|error| failed(error.into()))?;
        let (state, fetched_bytes) = match prepared {
            PrepareResult::AlreadyPresent(state) => {
                close(opened, image).await?;
                (state, 0)
            }
            PrepareResult::Ready(mut import) => {
                let missing = import.all_layers().filter(|layer| layer.commit.is_none());
                let bytes = missing.map(|layer| layer.layer().size()).sum();
                self.check_room(image, bytes)?;
                layer::import(repo, &opened, &mut import)
                    .await
                    .map_err(failed)?;
                close(opened, image).await?;
                let state = importer
                    .import(import)
                    .await
                    .map_err(|error| failed(error.into()))?;
                (state, bytes)
            }
        };
        let left_out = derived::left_out(repo, &state)?;
        if !left_out.is_empty() {
            let files = left_out.join(", ");
            warn!(
                image,
                files, "files of the image do not reach an installed host"
            );
        }
        Ok(Fetched {
            image: image.to_owned(),
            checksum: state.merge_commit,
            digest: Some(state.manifest_digest.to_string()),
            version: None,
            fetched_bytes,
        })
    }

    fn check_room(&self, image: &str, bytes: u64) -> Result<()> {
        let free = room::free(&self.deployments.base().join("ostree/repo"))?;
        room::require(
            image,
            "/ostree/repo",
            bytes.saturating_mul(room::UNPACKED_FACTOR),
            free,
        )
    }

    fn proxy_config(&self, is_relayed: bool) -> ImageProxyConfig {
        let mut command = if is_relayed {
            let (program, arguments) = &self.relay;
            let mut command = process::command(program);
            command.args(arguments);
            command
        } else {
            process::skopeo()
        };
        let puller = &self.puller;
        command.args(&puller.options);
        command.envs(puller.environment.iter().map(|(key, value)| (key, value)));
        ImageProxyConfig {
            authfile: puller.authfile.as_ref().map(PathBuf::from),
            auth_anonymous: puller.authfile.is_none(),
            skopeo_cmd: Some(command),
            ..ImageProxyConfig::default()
        }
    }
}

/// Whether a failure may be that of an index without this host's architecture. skopeo says it in
/// words that change.
const fn may_be_of_index(cause: FetchCause) -> bool {
    matches!(cause, FetchCause::Unusable | FetchCause::Other)
}

/// Refuses layers that nothing here can unpack, before any is fetched.
fn check_layers(image: &str, manifest: &ImageManifest) -> Result<()> {
    let unknown = manifest.layers().iter().find(|layer| {
        let kind = layer.media_type();
        let is_known = matches!(
            kind,
            MediaType::ImageLayer | MediaType::ImageLayerGzip | MediaType::ImageLayerZstd
        );
        !is_known && kind.as_ref() != DOCKER_LAYER
    });
    match unknown {
        None => Ok(()),
        Some(layer) => Err(Error::NotBootable {
            image: image.to_owned(),
            why: format!(
                "layer {} is of type {}, which is no layer of files",
                layer.digest(),
                layer.media_type()
            ),
        }),
    }
}

/// Whether something may follow the archive in a layer, which the image library does not read: the
/// form zstd:chunked has no media type of its own.
fn has_tail(manifest: &ImageManifest) -> bool {
    let mut layers = manifest.layers().iter();
    layers.any(|layer| *layer.media_type() == MediaType::ImageLayerZstd)
}

/// A registry's message, without the repeated names of skopeo's methods.
fn plain(text: &str) -> String {
    let mut rest = text;
    while let Some((_, said)) = rest
        .strip_prefix("failed to invoke method ")
        .and_then(|named| named.split_once(": "))
    {
        rest = said;
    }
    rest.to_owned()
}

/// Refuses what is not `[host[:port]/]repository[:tag][@digest]`: no transport, no blanks.
fn check_pull_spec(image: &str) -> Result<()> {
    let (name, reference) = image.split_once('@').unwrap_or((image, ""));
    let plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte))
    };
    let is_digest = reference.is_empty()
        || reference
            .strip_prefix("sha256:")
            .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_name =
        !name.is_empty() && !name.starts_with(['/', '-', ':', '.']) && !name.contains("//");
    if is_name && plain(name) && is_digest && !(image.contains('@') && reference.is_empty()) {
        return Ok(());
    }
    Err(Error::PullSpec {
        image: image.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pull_specs_name_a_registry_and_nothing_else() {
        let digest = format!("quay.io/x/os@sha256:{}", "a".repeat(64));
        let both = digest.replace("os@", "os:v2@");
        for good in ["os", "10.97.0.1:5000/os:v2", &digest, &both] {
            check_pull_spec(good).unwrap();
        }
        for bad in [
            "",
            "docker://quay.io/os",
            "--flag",
            "a b",
            "os@sha256:12",
            "os@",
            "/os",
        ] {
            assert!(check_pull_spec(bad).is_err(), "{bad}");
        }
    }

    fn manifest(kinds: &[&str]) -> ImageManifest {
        let digest = format!("sha256:{}", "a".repeat(64));
        let of = |kind: &str| json!({"mediaType": kind, "digest": digest, "size": 1});
        let layers: Vec<_> = kinds.iter().map(|kind| of(kind)).collect();
        let config = of("application/vnd.oci.image.config.v1+json");
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
        serde_json::from_value(manifest).unwrap()
    }

    #[test]
    fn a_layer_of_another_type_is_named_before_it_is_fetched() {
        let [plain, gzip, zstd] = ["tar", "tar+gzip", "tar+zstd"]
            .map(|form| format!("application/vnd.oci.image.layer.v1.{form}"));
        let known = manifest(&[&plain, &gzip, &zstd, DOCKER_LAYER]);
        check_layers("os", &known).unwrap();
        let other = manifest(&[&gzip, "application/vnd.example.model"]);
        let error = check_layers("os", &other).unwrap_err();
        assert!(error.is_final());
        let text = error.to_string();
        assert!(
            text.ends_with("is of type application/vnd.example.model, which is no layer of files"),
            "{text}"
        );
        assert!(has_tail(&known));
        assert!(!has_tail(&manifest(&[&plain, &gzip])));
    }

    #[test]
    fn a_registrys_message_has_no_repeated_prefix() {
        let text = "failed to invoke method OpenImage: failed to invoke method OpenImage: unknown";
        assert_eq!(plain(text), "unknown");
        assert_eq!(plain("i/o error"), "i/o error");
    }
}
