//! Certificates that the cluster rotates: from its ControllerConfig to this host, outside of
//! configurations and without a reboot.
//!
//! They come whatever the node's phase is and whether its pool is paused: a kubelet whose CA runs
//! out is lost. The controller announces others on the Node
//! ([`annotation::CERTIFICATES`]): no request is sent meanwhile, and no watch holds a connection
//! of the pod's own identity open on every node. Where none are announced, the ControllerConfig is
//! read now and then.
//!
//! - [`files`]: bundles in `/etc`
//! - [`rotation`]: the CA by which this node knows the API server
//!
//! Source: `docs/reference/daemon.md`, "Certificates".

pub mod files;
pub mod rotation;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use api::machineconfiguration::controller_config::{self, ImageRegistryBundle};
use api::machineconfiguration::{ControllerConfig, ControllerConfigSpec, annotation};
use chassis::backoff::{Backoff, spread};
use chassis::memory;
use chassis::report::Chain;
use chassis::shutdown::Shutdown;
use cluster::access::Access;
use cluster::path;
use cluster::wire::{self, RequestBody};
use http::Method;
use node::watch::ObservedNode;
use node::writer::{self, Change, NodeWriter};
use node_update::certificates::{ClusterCertificates, RegistryCertificates, desired};
use serde::Deserialize;
use tokio::sync::watch;

use super::desired;
use super::events::{EventReporter, NodeEvent};
use super::helper::Helper;

/// How often the ControllerConfig is read where nothing is announced, at most. A node
/// asks in the upper half of it, so that a fleet does not ask at once.
const PACE: Duration = Duration::from_mins(15);

/// The same where the controller announces: an announcement that was lost is made up for.
const SELDOM: Duration = Duration::from_hours(24);

/// How soon it is read again after a failure, at first.
const RETRY: Duration = Duration::from_mins(1);

/// Why certificates are not in force yet. All of it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not give an object.
    #[error(transparent)]
    Read(#[from] wire::Error),
    /// The Node cannot be written.
    #[error(transparent)]
    Write(#[from] writer::Error),
    /// A file on the host.
    #[error(transparent)]
    Files(#[from] files::Error),
    #[error(transparent)]
    Rotation(#[from] rotation::Error),
}

/// Keeps the certificates of one host.
#[derive(Debug)]
pub struct CertificateSync<'a> {
    /// Where the host's root is mounted.
    pub root: &'a Path,
    /// Kubeconfig of the kubelet, on the host.
    pub kubeconfig: &'a Path,
    /// Token of the pod's service account, in the pod.
    pub token: &'a Path,
    /// Namespace of the ConfigMap with the API server's CA.
    pub namespace: &'a str,
    pub account: &'a Access,
    pub writer: &'a NodeWriter,
    /// The Node as it is seen.
    pub seen: watch::Receiver<ObservedNode>,
    /// Reaches the host's systemd.
    pub helper: &'a Helper,
    /// Says what is refused.
    pub reporter: &'a EventReporter,
}

/// A ControllerConfig, as far as it is needed here.
#[derive(Debug, Deserialize)]
struct Config {
    metadata: Metadata,
    #[serde(default)]
    spec: ControllerConfigSpec,
}

/// The same without what it says.
#[derive(Debug, Deserialize)]
struct Head {
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// What a Node says that has done all of it.
    fn marks(&self) -> [(&'static str, String); 2] {
        [
            (
                annotation::LAST_SYNCED_CONTROLLER_CONFIG,
                self.resource_version.clone(),
            ),
            (
                annotation::LAST_OBSERVED_SERVER_CA,
                self.is_rotating().to_string(),
            ),
        ]
    }

    fn is_rotating(&self) -> bool {
        let word = self.annotations.get(annotation::SERVICE_CA_ROTATE);
        word.is_some_and(|word| word == "true")
    }
}

/// Keeps the certificates until the shutdown.
pub async fn keep(mut keeper: CertificateSync<'_>, mut shutdown: Shutdown) {
    let work = async {
        let mut retry = Backoff::new(RETRY, PACE);
        // What lies on the host is compared once a process, whatever the Node says: it may be that
        // of another deployment.
        let mut is_compared = false;
        let mut announced = None;
        // Without the API server there is nothing to do.
        while keeper.seen.wait_for(Option::is_some).await.is_ok() {
            let now = keeper.announced();
            is_compared &= now == announced;
            announced = now;
            // On the heap for as long as it takes: between two looks it needs no memory.
            let delay = match Box::pin(keeper.look(is_compared)).await {
                Ok(()) => {
                    is_compared = true;
                    retry.reset();
                    spread(if announced.is_some() { SELDOM } else { PACE })
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "certificates are not in force yet");
                    // The Node may say that it follows, where only a part of it is done.
                    is_compared = false;
                    retry.next_delay()
                }
            };
            keeper.account.rest();
            memory::trim_heap();
            let has_others =
                |node: &ObservedNode| node.is_some() && announced_by(node) != announced;
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _others = keeper.seen.wait_for(has_others) => {}
            }
        }
    };
    tokio::select! {
        () = shutdown.requested() => {}
        () = work => {}
    }
}

impl CertificateSync<'_> {
    /// Asks for the ControllerConfig, and has the host follow it where the Node does not say that
    /// it does.
    ///
    /// # Errors
    /// All of [`Error`].
    async fn look(&self, is_compared: bool) -> Result<(), Error> {
        let path = path::object::<ControllerConfig>(controller_config::NAME);
        if is_compared {
            let head = self
                .account
                .send::<Head>(Method::GET, &path, RequestBody::Metadata);
            match wire::found(head.await)? {
                Some(head) if !self.is_done(&head.metadata) => {}
                Some(_) | None => return Ok(()),
            }
        }
        match self.account.find::<Config>(&path).await? {
            Some(config) => self.follow(&config).await,
            None => Ok(()),
        }
    }

    async fn follow(&self, config: &Config) -> Result<(), Error> {
        let desired = desired(&certificates_of(&config.spec));
        let written = files::write(self.root, &desired)?;
        for path in &written.paths {
            tracing::info!(path, "wrote certificates");
        }
        // An error of the registries does not hold up the API server's CA.
        let rotated = rotation::rotate(self, config.metadata.is_rotating()).await;
        let [synced, observed] = config.metadata.marks();
        let mut marks = Vec::new();
        let is_synced = desired.refused.is_empty() && written.failed.is_none();
        if is_synced {
            marks.push(synced);
        }
        if !desired.refused.is_empty() {
            let name = controller_config::NAME;
            let why = desired.refused.join("; ");
            self.reporter
                .report(&NodeEvent::certificates_refused(&format!(
                    "ControllerConfig {name}: {why}"
                )));
        }
        match &rotated {
            Ok(()) => marks.push(observed),
            Err(error) if error.is_for_people() => {
                let why = Chain(error).to_string();
                self.reporter.report(&NodeEvent::certificates_refused(&why));
            }
            Err(_) => {}
        }
        let marked = self.writer.write(move |_| {
            marks
                .iter()
                .fold(Change::default(), |change, (key, value)| {
                    change.set(key, value.as_str())
                })
        });
        marked.await?;
        rotated?;
        if let Some(error) = written.failed {
            return Err(error.into());
        }
        if is_synced {
            let version = &config.metadata.resource_version;
            tracing::info!(
                "Certificate was synced from controllerconfig resourceVersion {version}"
            );
        }
        Ok(())
    }

    /// What the controller announced last.
    fn announced(&self) -> Option<String> {
        announced_by(&self.seen.borrow())
    }

    /// Whether the Node says that this ControllerConfig is followed.
    fn is_done(&self, metadata: &Metadata) -> bool {
        let node = desired::latest(&self.seen);
        node.is_some_and(|node| {
            let marks = metadata.marks();
            marks
                .iter()
                .all(|(key, value)| node.annotation(key) == Some(value))
        })
    }
}

fn announced_by(node: &ObservedNode) -> Option<String> {
    let announced = node.as_ref()?.annotation(annotation::CERTIFICATES);
    announced.map(str::to_owned)
}

fn certificates_of(spec: &ControllerConfigSpec) -> ClusterCertificates<'_> {
    let cluster = registries(
        "spec.imageRegistryBundleData",
        &spec.image_registry_bundle_data,
    );
    let users = registries(
        "spec.imageRegistryBundleUserData",
        &spec.image_registry_bundle_user_data,
    );
    let cloud = spec.cloud_provider_ca_data.as_ref();
    ClusterCertificates {
        kubelet: &spec.kube_api_server_serving_ca_data.0,
        cloud: cloud.map_or(&[], |data| data.0.as_slice()),
        registries: cluster.chain(users).collect(),
        pull_secret: spec
            .internal_registry_pull_secret
            .as_ref()
            .map_or(&[], |data| data.0.as_slice()),
    }
}

fn registries<'a>(
    field: &'a str,
    bundles: &'a [ImageRegistryBundle],
) -> impl Iterator<Item = RegistryCertificates<'a>> {
    let item = move |(index, bundle): (usize, &'a ImageRegistryBundle)| RegistryCertificates {
        field: format!("{field}[{index}]"),
        file: &bundle.file,
        data: &bundle.data.0,
    };
    bundles.iter().enumerate().map(item)
}

#[cfg(test)]
mod tests;
