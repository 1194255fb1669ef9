//! An API server without a cluster, and the controller before it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use kube::Client;
use lab::control_plane::{ControlPlane, Options, Parts, Process, definitions};
use lab::manifest;
use testbed::Programs;

use crate::relay::Relay;

/// An API server that has Slipway's kinds and no objects.
pub(crate) struct ApiServer {
    pub(crate) control_plane: ControlPlane,
    pub(crate) client: Client,
    dir: PathBuf,
}

/// A controller, and the relay that its requests go through. Both end when dropped.
pub(crate) struct Controller {
    pub(crate) process: Process,
    pub(crate) relay: Relay,
}

impl ApiServer {
    /// Starts one, with its logs in a folder of this name.
    ///
    /// Errors: it does not come up.
    pub(crate) async fn start(out: &Path, name: &str) -> Result<Self> {
        let dir = out.join(name);
        fs::create_dir_all(&dir)?;
        // The controller has another working directory.
        let dir = dir.canonicalize()?;
        let options = Options {
            parts: Parts::Api,
            dir: Some(dir.clone()),
            ..Options::default()
        };
        let start = move || ControlPlane::start(&options);
        let control_plane = tokio::task::spawn_blocking(start).await??;
        let client = control_plane.client().await?;
        manifest::define(&client, &definitions()?).await?;
        Ok(Self {
            control_plane,
            client,
            dir,
        })
    }

    /// Starts a controller. Each answer to it takes so much longer.
    ///
    /// Errors: it does not start.
    #[expect(
        clippy::disallowed_methods,
        reason = "a file that lasts as long as the run"
    )]
    pub(crate) async fn controller(
        &self,
        programs: &Programs,
        latency: Duration,
    ) -> Result<Controller> {
        let server = self.control_plane.server();
        let relay = Relay::start(server, &[], latency).await?;
        let kubeconfig = self.dir.join("mcc.kubeconfig");
        let admin = fs::read_to_string(self.control_plane.admin_kubeconfig())?;
        let relayed = format!("https://{}", relay.address());
        let relayed = admin.replace(&self.control_plane.server_url(), &relayed);
        fs::write(&kubeconfig, relayed)?;
        let arguments = [
            "start".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--metrics-url=127.0.0.1:0".to_owned(),
        ];
        let process = Process::start("mcc", &programs.path("mcc")?, &arguments, &self.dir)?;
        Ok(Controller { process, relay })
    }
}
