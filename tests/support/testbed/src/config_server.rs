//! The config server beside a cluster, from which new hosts get their configuration.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lab::control_plane::Process;
use lab::{free_address, manifest, wait};
use serde_json::json;

use crate::{Authority, Cluster, SOON, http, workspace};

/// A running config server. Dropped, it ends.
#[derive(Debug)]
pub struct ConfigServer {
    _process: Process,
    /// Ignition config of a new worker: it names the server, and has the token that it asks for.
    pub pointer: PathBuf,
}

impl ConfigServer {
    /// Starts it on this machine, with the objects that are deployed with it; hosts reach it. Its
    /// log and credentials are in the folder `dir`.
    #[expect(clippy::disallowed_methods, reason = "a run's own files")]
    pub async fn start(cluster: &Cluster, dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let dir = dir.canonicalize()?;
        let mut objects = manifest::component(&workspace().join("deploy/config-server"))?;
        // Its pods would be a second server.
        objects.retain(|object| {
            let types = object.types.as_ref();
            types.is_none_or(|types| types.kind != "DaemonSet")
        });
        manifest::apply(cluster.objects().client(), &objects).await?;
        let control_plane = cluster.control_plane();
        let authority = String::from_utf8(control_plane.ca_pem().to_vec())?;
        let signers = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
            "data": { "client-ca-file": authority },
        });
        cluster.apply(&signers.to_string()).await?;
        cluster
            .publish_certificates(&[&authority, &authority], &[], false)
            .await?;
        let address = cluster.host_lab()?.lab.address();
        let secure = SocketAddr::from((address, free_address()?.port()));
        let status = free_address()?;
        let server = Authority::make("authority of the config server")?;
        let name = "machine-config-server";
        server.issue_at(&dir.join("tls"), address.into(), name, "test")?;
        let ca = dir.join("api-ca.crt");
        fs::write(&ca, &authority)?;
        let kubeconfig = control_plane.admin_kubeconfig();
        let arguments = [
            "start".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--apiserver-url={}", control_plane.server_url()),
            format!("--apiserver-ca-file={}", ca.display()),
            format!("--listen={secure}"),
            format!("--metrics-url={status}"),
            format!("--cert={}", dir.join("tls.crt").display()),
            format!("--key={}", dir.join("tls.key").display()),
            "--v=4".to_owned(),
        ];
        let program = cluster.programs.path("mcs")?;
        let mut process = Process::start("mcs", &program, arguments, &dir)?;
        let url = format!("http://{status}/readyz");
        wait::until("the config server to be ready", SOON, async || {
            process.check()?;
            Ok(http::get(&url).map(drop).map_err(|error| error.to_string()))
        })
        .await?;
        let token = control_plane.kubectl(&[
            "create",
            "token",
            "machine-worker",
            "--namespace=openshift-machine-config-operator",
            "--audience=machine-config-server",
        ])?;
        let pointer = dir.join("pointer.ign");
        let bearer = format!("Bearer {}", token.trim());
        let headers = json!([{ "name": "Authorization", "value": bearer }]);
        let source = format!("data:;base64,{}", BASE64.encode(&server.pem));
        let text = json!({ "ignition": {
            "version": "3.3.0",
            "config": { "merge": [
                { "source": format!("https://{secure}/config/worker"), "httpHeaders": headers },
            ] },
            "security": { "tls": { "certificateAuthorities": [{ "source": source }] } },
            "timeouts": { "httpTotal": 20 },
        } });
        fs::write(&pointer, text.to_string())
            .with_context(|| format!("cannot write {}", pointer.display()))?;
        Ok(Self {
            _process: process,
            pointer,
        })
    }
}
