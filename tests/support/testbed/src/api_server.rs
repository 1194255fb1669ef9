//! An API server alone, for programs that need no node.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use api::config::ClusterVersion;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Resource};
use lab::audit::{self, Event};
use lab::control_plane::{ControlPlane, Options, Parts, Process};
use lab::manifest;
use release::progress::NAMESPACE;
use serde_json::{Value, json};

use crate::objects::{self, Objects};
use crate::{Authority, Printed, Programs, logs, slipway, workspace};

/// The API server, and the programs that a test runs beside it.
#[derive(Debug)]
pub struct ApiServer {
    /// The server itself.
    pub control_plane: ControlPlane,
    /// The administrator's client.
    pub objects: Objects,
    /// The test's own folder, absolute: files and logs.
    pub dir: PathBuf,
    /// Starts of programs that are numbered.
    starts: AtomicUsize,
}

impl ApiServer {
    /// Starts one for a test, whose folder is emptied.
    pub async fn start(suite: &str, test: &str) -> Result<Self> {
        let dir = logs::folder(suite, test);
        logs::empty(&dir)?;
        Self::start_by(Options::default(), &dir).await
    }

    /// Starts one that keeps its own logs, too, in a folder, which is made.
    pub async fn start_in(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let options = Options {
            dir: Some(dir.canonicalize()?),
            ..Options::default()
        };
        Self::start_by(options, dir).await
    }

    async fn start_by(options: Options, dir: &Path) -> Result<Self> {
        let options = Options {
            parts: Parts::Api,
            ..options
        };
        let start = move || ControlPlane::start(&options);
        let control_plane = tokio::task::spawn_blocking(start).await??;
        Ok(Self {
            objects: Objects::new(control_plane.client().await?),
            control_plane,
            dir: dir.canonicalize()?,
            starts: AtomicUsize::new(0),
        })
    }

    /// Objects of a kind without namespaces.
    pub fn all<K>(&self) -> Api<K>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()>,
    {
        Api::all(self.objects.client().clone())
    }

    /// Objects of a kind in a namespace.
    pub fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.objects.client().clone(), namespace)
    }

    /// Makes namespaces.
    pub fn make_namespaces(&self, names: &[&str]) -> Result<()> {
        for name in names {
            self.control_plane.kubectl(&["create", "namespace", name])?;
        }
        Ok(())
    }

    /// Applies a YAML or JSON text as the administrator does.
    pub async fn apply(&self, text: &str) -> Result<()> {
        let objects = manifest::parse(text)?;
        manifest::apply(self.objects.client(), &objects)
            .await
            .map(drop)
    }

    /// Publishes who signs the certificates of clients, as the API server does where it knows some.
    pub async fn publish_signer(&self, signer: &Authority) -> Result<()> {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
            "data": { "client-ca-file": signer.pem },
        });
        self.apply(&map.to_string()).await
    }

    /// Starts a program under test; its log is `<name>.log`.
    pub fn run(
        &self,
        name: &str,
        program: &str,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Process> {
        let program = Programs::built()?.path(program)?;
        Process::start(name, &program, arguments, &self.dir)
    }

    /// Name of the next start of a program: `<program>-1`, `<program>-2` and so on.
    pub fn next(&self, program: &str) -> String {
        self.starts.fetch_add(1, Ordering::Relaxed);
        self.last(program)
    }

    /// Name of the last start of a program.
    pub fn last(&self, program: &str) -> String {
        format!("{program}-{}", self.starts.load(Ordering::Relaxed))
    }

    /// What a start has logged.
    pub fn log_of(&self, name: &str) -> Result<String> {
        let log = self.dir.join(format!("{name}.log"));
        fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))
    }

    /// Runs `slipway` as the administrator.
    pub fn slipway(&self, arguments: &[&str]) -> Result<Printed> {
        slipway(&self.control_plane.admin_kubeconfig(), arguments)
    }

    /// Writes a kubeconfig into the test's folder; `user` has a `token`, or a `client-certificate`
    /// and a `client-key`.
    #[expect(clippy::disallowed_methods, reason = "a run's own files")]
    pub fn kubeconfig(&self, file: &str, user: &Value) -> Result<PathBuf> {
        let cluster = json!({
            "server": self.control_plane.server_url(),
            "certificate-authority-data": BASE64.encode(self.control_plane.ca_pem()),
        });
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{ "name": "lab", "cluster": cluster }],
            "users": [{ "name": "lab", "user": user }],
            "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
        });
        let path = self.dir.join(file);
        fs::write(&path, text.to_string())?;
        Ok(path)
    }

    /// A kubeconfig with a token of a service account.
    pub async fn account_kubeconfig(
        &self,
        file: &str,
        (namespace, account): (&str, &str),
    ) -> Result<PathBuf> {
        let token = self.control_plane.token(namespace, account).await?;
        self.kubeconfig(file, &json!({ "token": token }))
    }

    /// All requests to it so far.
    pub fn events(&self) -> Result<Vec<Event>> {
        audit::load(&self.control_plane.audit_log())
    }
}

/// Defines the version operator's objects, and writes a ClusterVersion that has completed a
/// release, by version and pull spec.
pub async fn complete_release(
    control_plane: &ControlPlane,
    version: &str,
    image: &str,
) -> Result<()> {
    let client = control_plane.client().await?;
    manifest::define(&client, &workspace().join("deploy/cvo/crds")).await?;
    control_plane.kubectl(&["create", "namespace", NAMESPACE])?;
    let versions: Api<ClusterVersion> = Api::all(client);
    let spec = json!({ "clusterID": "4f1d3c3e-2b3b-4c8e-9c1d-6a3b1e0f9a11" });
    let object = json!({ "metadata": { "name": "version" }, "spec": spec });
    objects::create(&versions, object).await?;
    let status = json!({
        "desired": { "version": version, "image": image },
        "history": [{
            "state": "Completed", "startedTime": "2025-01-01T00:00:00Z", "verified": false,
            "completionTime": "2025-01-01T01:00:00Z", "version": version, "image": image
        }],
        "observedGeneration": 1, "versionHash": "", "availableUpdates": null
    });
    objects::set_status(&versions, "version", &status).await
}
