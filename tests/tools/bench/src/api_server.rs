//! An API server without a cluster, and the controller before it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use lab::control_plane::{Process, definitions};
use lab::manifest;
use testbed::{ApiServer, Programs};

use crate::relay::Relay;

/// A controller, and the relay that its requests go through. Both end when dropped.
pub(crate) struct Controller {
    pub(crate) process: Process,
    pub(crate) relay: Relay,
}

/// Starts an API server that has Slipway's kinds and no objects, with its logs in a folder of this
/// name.
///
/// Errors: it does not come up.
pub(crate) async fn start(out: &Path, name: &str) -> Result<ApiServer> {
    let server = ApiServer::start_in(&out.join(name)).await?;
    manifest::define(server.objects.client(), &definitions()?).await?;
    Ok(server)
}

/// Starts a controller. Each response to it takes so much longer.
///
/// Errors: it does not start.
#[expect(
    clippy::disallowed_methods,
    reason = "a file that lasts as long as the run"
)]
pub(crate) async fn controller(
    server: &ApiServer,
    programs: &Programs,
    latency: Duration,
) -> Result<Controller> {
    let control_plane = &server.control_plane;
    let relay = Relay::start(control_plane.server(), &[], latency).await?;
    let kubeconfig = server.dir.join("mcc.kubeconfig");
    let admin = fs::read_to_string(control_plane.admin_kubeconfig())?;
    let relayed = format!("https://{}", relay.address());
    let relayed = admin.replace(&control_plane.server_url(), &relayed);
    fs::write(&kubeconfig, relayed)?;
    let arguments = [
        "start".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--metrics-url=127.0.0.1:0".to_owned(),
    ];
    let process = Process::start("mcc", &programs.path("mcc")?, &arguments, &server.dir)?;
    Ok(Controller { process, relay })
}
