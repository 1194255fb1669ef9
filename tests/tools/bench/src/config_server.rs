//! The config server, asked by 500 new machines at once and by one after another.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::MachineConfigPool;
use futures::future::try_join_all;
use lab::control_plane::Process;
use lab::{PATIENCE, free_address, manifest, wait};
use serde_json::json;
use testbed::{ApiServer, Authority, Programs, objects, workspace};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::api_server;
use crate::config::Config;
use crate::figure::{Figure, Unit};
use crate::idle::{count, float};
use crate::memory;
use crate::statistics::{median, p99};

const PROGRAM: &str = "mcs";

const NAMESPACE: &str = "openshift-machine-config-operator";

/// Machines that ask at once: a site that is installed.
const MACHINES: usize = 500;

/// Requests one after another.
const ALONE: usize = 100;

const POOL: &str = "worker";

/// The configuration that is served.
const CONFIG: &str = "rendered-worker-0";

/// How long a machine may try.
const LIMIT: Duration = Duration::from_mins(2);

/// Between two of its attempts, as Ignition's first ones.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The 99th percentile of requests at once, beside the time that as many take one after another.
///
/// Errors: the server does not start, or a machine does not get its configuration.
pub(crate) async fn measure(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let server = api_server::start(out, "config-server").await?;
    let (server, mut process, machines) = start(programs, server).await?;
    // What the server reads of a token, and the first answer, are no part of it.
    let bytes = machines.install(address(0)).await?.bytes;
    let mut alone = Vec::new();
    for number in 0..ALONE {
        alone.push(machines.install(address(1 + number)).await?.ms);
    }
    let machines = Arc::new(machines);
    let began = Instant::now();
    let at_once = (0..MACHINES).map(|number| {
        let machines = Arc::clone(&machines);
        // On all threads: one would be slower than the server.
        tokio::spawn(async move { machines.install(address(1 + ALONE + number)).await })
    });
    let at_once = try_join_all(at_once).await?;
    let at_once = at_once.into_iter().collect::<Result<Vec<Installed>>>()?;
    let all = began.elapsed();
    process.check()?;
    let again: usize = at_once.iter().map(|machine| machine.again).sum();
    let at_once: Vec<f64> = at_once.into_iter().map(|machine| machine.ms).collect();
    let one = median(&alone).context("no machine asked")?;
    let late = p99(&at_once).context("no machine asked")?;
    let peak = memory::peak_of(process.id())?;
    drop(server);
    let figure = Figure::new("mcs_p99_ratio", late / (one * count(MACHINES)))?
        .of(MACHINES)
        .beside("99th percentile at once", late, Unit::Ms)
        .beside("all of them", all.as_secs_f64() * 1e3, Unit::Ms)
        .beside("median one after another", one, Unit::Ms)
        .beside("tried again", count(again), Unit::Count)
        .beside("an answer", count(bytes), Unit::Bytes)
        .beside("peak", float(peak), Unit::Bytes);
    Ok(vec![figure])
}

/// The address of a machine on the loopback interface, of which all are this machine's.
fn address(number: usize) -> Ipv4Addr {
    let [.., high, low] = u32::try_from(number + 1).unwrap_or_default().to_be_bytes();
    Ipv4Addr::new(127, 1, high, low)
}

/// A machine that has its configuration.
struct Installed {
    /// From its first attempt to the last byte.
    ms: f64,
    /// Of the response, its head included.
    bytes: usize,
    /// How often it had to try again.
    again: usize,
}

/// New machines, which share a token.
struct Machines {
    server: SocketAddr,
    token: String,
    tls: TlsConnector,
}

impl Machines {
    /// Gets a machine at this address its configuration. One that is cut or refused tries again,
    /// as Ignition does.
    async fn install(&self, from: Ipv4Addr) -> Result<Installed> {
        let began = Instant::now();
        let mut again = 0;
        loop {
            match self.ask(from).await {
                Ok(bytes) => {
                    let ms = began.elapsed().as_secs_f64() * 1e3;
                    return Ok(Installed { ms, bytes, again });
                }
                Err(error) if began.elapsed() > LIMIT => {
                    return Err(error.context(format!("the machine at {from}")));
                }
                Err(_) => {
                    again += 1;
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            }
        }
    }

    /// Asks from this address, over a connection of its own. The bytes of the response.
    async fn ask(&self, from: Ipv4Addr) -> Result<usize> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((from, 0)))?;
        let stream = socket.connect(self.server).await?;
        let name = ServerName::IpAddress(self.server.ip().into());
        let mut stream = self.tls.connect(name, stream).await?;
        let request = format!(
            "GET /config/{POOL} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             accept: application/vnd.coreos.ignition+json;version=3.4.0, */*;q=0.1\r\n\
             authorization: Bearer {}\r\n\r\n",
            self.server, self.token
        );
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await?;
        let head = response.split(|byte| *byte == b'\r').next();
        let head = String::from_utf8_lossy(head.unwrap_or_default());
        ensure!(head == "HTTP/1.1 200 OK", "the response is {head:?}");
        Ok(response.len())
    }
}

/// Starts the server before an API server with a pool that it serves.
#[expect(
    clippy::disallowed_methods,
    reason = "files that last as long as the run"
)]
async fn start(programs: &Programs, server: ApiServer) -> Result<(ApiServer, Process, Machines)> {
    let dir = &server.dir;
    let (client, control_plane) = (server.objects.client(), &server.control_plane);
    for component in ["daemon", "config-server"] {
        let objects = manifest::component(&workspace().join("deploy").join(component))?;
        manifest::apply(client, &objects).await?;
    }
    let authority = String::from_utf8(control_plane.ca_pem().to_vec())?;
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
            "data": { "client-ca-file": authority },
        }),
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": CONFIG }, "spec": Config::default().spec(),
        }),
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": { "name": POOL },
            "spec": {
                "configuration": { "name": CONFIG },
                "nodeSelector": { "matchLabels": { "node-role.kubernetes.io/worker": "" } },
            },
        }),
    ];
    for object in objects {
        server.apply(&object.to_string()).await?;
    }
    let status = json!({
        "configuration": { "name": CONFIG }, "conditions": [], "machineCount": 1,
        "updatedMachineCount": 1, "readyMachineCount": 1, "unavailableMachineCount": 0,
        "degradedMachineCount": 0,
    });
    objects::set_status::<MachineConfigPool>(&server.all(), POOL, &status).await?;
    let signer = Authority::make("authority of the config server")?;
    signer.issue(&dir.join("tls"), "machine-config-server", "test")?;
    let ca = dir.join("api-ca.crt");
    std::fs::write(&ca, &authority)?;
    let (secure, metrics) = (free_address()?, free_address()?);
    let arguments = [
        "start".to_owned(),
        format!(
            "--kubeconfig={}",
            control_plane.admin_kubeconfig().display()
        ),
        format!("--apiserver-url={}", control_plane.server_url()),
        format!("--apiserver-ca-file={}", ca.display()),
        format!("--listen={secure}"),
        format!("--metrics-url={metrics}"),
        format!("--cert={}", dir.join("tls.crt").display()),
        format!("--key={}", dir.join("tls.key").display()),
        "--shared-tokens".to_owned(),
    ];
    let mut process = Process::start(PROGRAM, &programs.path(PROGRAM)?, arguments, dir)?;
    let token = control_plane.kubectl(&[
        "create",
        "token",
        "machine-worker",
        &format!("--namespace={NAMESPACE}"),
        "--audience=machine-config-server",
    ])?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(signer.pem.as_bytes())?)?;
    let tls = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let machines = Machines {
        server: secure,
        token: token.trim().to_owned(),
        tls: TlsConnector::from(Arc::new(tls)),
    };
    wait::until(
        "the config server to serve the pool",
        PATIENCE,
        async || {
            process.check()?;
            let fetched = machines.ask(address(MACHINES + ALONE + 1)).await;
            Ok(fetched.map(drop).map_err(|error| format!("{error:#}")))
        },
    )
    .await?;
    Ok((server, process, machines))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_machine_has_an_address_of_its_own() {
        let all: BTreeSet<Ipv4Addr> = (0..MACHINES + ALONE + 2).map(address).collect();
        assert_eq!(all.len(), MACHINES + ALONE + 2);
        assert!(all.iter().all(Ipv4Addr::is_loopback));
        assert_eq!(address(255), Ipv4Addr::new(127, 1, 1, 0));
    }
}
