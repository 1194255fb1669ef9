//! The whole of `deploy/` on real nodes: daemons read their nodes' configurations from the config
//! server, by their kubelets' certificates, and their account reads none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use api::machineconfiguration::{MachineConfig, NAMESPACE};
use cluster::access::Access;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Api;
use lab::manifest;
use serde_json::{Value, json};
use testbed::config::{Config, File};
use testbed::{Authority, Cluster, DONE_WITHIN, NodeSpec, SOON, Testbed, logs, until, until_so};

use crate::scraped;

/// Runs the config server.
const MASTER: &str = "master-0";
const WORKER: &str = "worker-0";

const DAEMON: &str = "machine-config-daemon";
const SERVER: &str = "machine-config-server";

/// The config server's port on each control-plane node.
const PORT: u16 = 22623;

/// Where the config server is, as nodes know it.
struct Endpoint {
    url: String,
    /// File of the authority that vouches for it.
    authority: PathBuf,
}

impl Endpoint {
    /// Applies the whole of `deploy/`, with what an administrator provides for the config server.
    async fn deploy(cluster: &Cluster, dir: &Path) -> Result<Self> {
        let address = cluster.host(MASTER)?.address();
        let url = format!("https://{address}:{PORT}");
        let signer = Authority::make("authority of the config server")?;
        let pair = dir.join("mcs");
        signer.issue_at(&pair, address.into(), SERVER, "test")?;
        let read = |end| std::fs::read_to_string(pair.with_extension(end));
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": SERVER, "namespace": NAMESPACE },
            "data": {
                "apiserver-url": cluster.control_plane().server_url(),
                "config-server-url": url,
                "ca.crt": signer.pem,
            },
        });
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": { "name": format!("{SERVER}-tls"), "namespace": NAMESPACE },
            "stringData": { "tls.crt": read("crt")?, "tls.key": read("key")? },
        });
        cluster.apply(&map.to_string()).await?;
        cluster.apply(&secret.to_string()).await?;
        // Kubelets and daemons know the API server's clients by this one.
        let authority = cluster.signer()?.pem.as_str();
        cluster
            .publish_certificates(&[authority, authority], &[], false)
            .await?;
        cluster.settle_certificates().await?;
        let objects = cluster.whole().await?;
        manifest::apply(cluster.objects().client(), &objects).await?;
        for name in [SERVER, DAEMON] {
            rolled_out(cluster, name).await?;
        }
        let authority = dir.join("authority.crt");
        std::fs::write(&authority, &signer.pem)?;
        Ok(Self { url, authority })
    }

    /// Asks it with the credentials of a kubeconfig.
    fn by(&self, kubeconfig: PathBuf) -> Access {
        let read = Box::new(|path: &Path| std::fs::read(path));
        Access::kubeconfig(kubeconfig, read).at(self.url.clone(), self.authority.clone())
    }
}

/// Waits until all pods of a DaemonSet are those of its present template.
async fn rolled_out(cluster: &Cluster, name: &str) -> Result<()> {
    let sets = Api::<DaemonSet>::namespaced(cluster.objects().client().clone(), NAMESPACE);
    let read = async || {
        let set = sets.get(name).await?;
        Ok((set.metadata.generation, set.status.unwrap_or_default()))
    };
    until_so(
        &format!("the pods of {name}"),
        read,
        |(generation, status)| {
            let wanted = status.desired_number_scheduled;
            wanted > 0
                && status.observed_generation == *generation
                && status.updated_number_scheduled == Some(wanted)
                && status.number_available == Some(wanted)
        },
    )
    .await?;
    Ok(())
}

/// Path of a MachineConfig, the same at both servers.
fn path(config: &str) -> String {
    format!("/apis/machineconfiguration.openshift.io/v1/machineconfigs/{config}")
}

/// Whether a result is the refusal of the API server's authorizers.
fn is_forbidden<T>(result: &kube::Result<T>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 403)
}

/// Who has read a configuration from the API server.
fn readers(cluster: &Cluster, config: &str) -> Result<BTreeSet<String>> {
    let events = cluster.events()?;
    let reads = events.iter().filter(|event| {
        let object = event.object.as_ref();
        event.succeeded()
            && event.verb == lab::audit::Verb::Get
            && object.is_some_and(|it| it.resource == "machineconfigs" && it.name == config)
    });
    Ok(reads.map(|event| event.user.username.clone()).collect())
}

/// Requests for MachineConfigs that an account has sent since.
fn requests(cluster: &Cluster, account: &str, since: Timestamp) -> Result<Vec<String>> {
    let events = cluster.events()?;
    let sent = events.iter().filter(|event| {
        let object = event.object.as_ref();
        event.user.username == account
            && event.received >= since
            && object.is_some_and(|it| it.resource == "machineconfigs")
    });
    Ok(sent.map(|event| event.uri.clone()).collect())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the lab"]
async fn node_rolls_while_its_daemons_account_reads_no_configuration() -> Result<()> {
    let dir = logs::folder("join", "own");
    let testbed = Testbed::new(&dir)
        .certificates()
        .node(NodeSpec::control_plane(MASTER))
        .node(NodeSpec::new(WORKER).containers());
    let mut cluster = testbed.boot().await?;
    cluster.adopt().await?;
    let services = scraped::provide_certificate(&cluster, &dir).await?;
    let server = Endpoint::deploy(&cluster, &dir).await?;
    let before = cluster.objects().target("worker").await?;
    let masters = cluster.objects().target("master").await?;

    let account = cluster.control_plane();
    let account = account.client_of_account(NAMESPACE, DAEMON).await?;
    let configs = Api::<MachineConfig>::all(account);
    until("the daemon's account to lose its right", SOON, async || {
        let result = configs.get(&before).await;
        Ok(if is_forbidden(&result) {
            Ok(())
        } else {
            Err(format!("{result:?}"))
        })
    })
    .await?;
    let since = Timestamp::now();
    let spec = Config::new().files([File::new("/etc/site", "own\n")]);
    let target = cluster.change("50-own", "worker", &spec.spec()).await?;
    cluster.all_done("worker", &target, DONE_WITHIN).await?;
    let host = cluster.host(WORKER)?;
    ensure!(host.run(["cat", "/etc/site"])? == "own");

    let account = |name: &str| format!("system:serviceaccount:{NAMESPACE}:{name}");
    let sent = requests(&cluster, &account(DAEMON), since)?;
    ensure!(sent.is_empty(), "the daemon's account sent {sent:?}");
    let readers = readers(&cluster, &target)?;
    ensure!(readers.contains(&account(SERVER)), "{readers:?}");
    let nodes = readers.iter().find(|user| user.starts_with("system:node:"));
    ensure!(nodes.is_none(), "{readers:?}");
    ensure!(is_forbidden(&configs.get(&target).await));

    // A node's certificate is good for what its own Node names, and for nothing else.
    let worker = server.by(cluster.kubelet_dir(WORKER).join("kubeconfig"));
    let master = server.by(cluster.kubelet_dir(MASTER).join("kubeconfig"));
    let own = worker.get::<Value>(&path(&target)).await;
    let own = own.context("the worker's own configuration")?;
    ensure!(own["metadata"]["name"] == target.as_str(), "{own}");
    let token = dir.join("token.kubeconfig");
    let text = cluster.control_plane().node_kubeconfig(WORKER)?;
    std::fs::write(&token, text)?;
    let table = [
        (&master, &target, 403),
        (&worker, &masters, 403),
        (&worker, &before, 403),
        // The kubelet's token is made for the API server, which takes it.
        (&server.by(token), &target, 401),
    ];
    for (number, (access, config, expected)) in table.into_iter().enumerate() {
        let Err(refused) = access.get::<Value>(&path(config)).await else {
            anyhow::bail!("{number}: {config} was served");
        };
        ensure!(refused.code() == Some(expected), "{number}: {refused}");
    }
    scraped::check(&cluster, services, &dir, [MASTER, WORKER]).await
}
