//! Metrics over HTTPS, as the cluster's Prometheus reads them, and others cannot.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use lab::{PATIENCE, free_address, manifest, wait};
use serde_json::json;
use testbed::Authority;

use crate::env::Cluster;
use crate::payload::VERSION;

/// The only client that may read.
const SCRAPER: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";

/// The address of metrics, and who signed its certificate.
struct Endpoint {
    address: SocketAddr,
    authority: PathBuf,
}

impl Endpoint {
    /// Reads metrics by curl, with the certificate of a client: the status, and the page.
    fn read(&self, client: Option<&Path>) -> Result<(u16, String)> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60"])
            .args(["--noproxy", "*", "--write-out", "%{http_code}", "--cacert"])
            .arg(&self.authority);
        if let Some(client) = client {
            curl.arg("--cert").arg(client.with_extension("crt"));
            curl.arg("--key").arg(client.with_extension("key"));
        }
        let output = curl
            .arg(format!("https://{}/metrics", self.address))
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "curl: {}", said.trim());
        let text = String::from_utf8(output.stdout)?;
        let (page, status) = text
            .split_at_checked(text.len().saturating_sub(3))
            .context("no status")?;
        Ok((status.parse()?, page.to_owned()))
    }

    /// Waits until a client gets a page that has this line.
    async fn until_line(&self, client: &Path, line: &str) -> Result<String> {
        wait::until(line, PATIENCE, async || {
            Ok(match self.read(Some(client)) {
                Ok((200, page)) if page.lines().any(|found| found == line) => Ok(page),
                other => Err(format!("{other:?}")),
            })
        })
        .await
    }
}

/// Publishes who signs the certificates of clients, as the cluster's operator does.
async fn publish(cluster: &Cluster, signer: &Authority) -> Result<()> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
        "data": { "client-ca-file": signer.pem },
    });
    let client = cluster.control_plane.client().await?;
    manifest::apply(&client, &manifest::parse(&map.to_string())?).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs curl and the control-plane binary"]
async fn metrics_are_for_the_clusters_prometheus_alone() -> Result<()> {
    let mut cluster = Cluster::start("scraped", 4).await?;
    let at = |name: &str| cluster.dir.join(name);
    let servers = Authority::make("signer of services")?;
    let clients = Authority::make("signer of clients")?;
    let (serving, authority) = (at("serving"), at("servers.crt"));
    servers.issue(&serving, "cluster-version-operator", "test")?;
    std::fs::write(&authority, &servers.pem)?;
    let (prometheus, other, stranger) = (at("prometheus"), at("other"), at("stranger"));
    clients.issue(&prometheus, SCRAPER, "test")?;
    clients.issue(&other, "system:admin", "system:masters")?;
    let next = Authority::make("next signer of clients")?;
    next.issue(&stranger, SCRAPER, "test")?;
    publish(&cluster, &clients).await?;

    let address = free_address()?;
    cluster.arguments = vec![
        format!("--listen={address}"),
        format!(
            "--serving-cert-file={}",
            serving.with_extension("crt").display()
        ),
        format!(
            "--serving-key-file={}",
            serving.with_extension("key").display()
        ),
    ];
    let process = cluster.run()?;
    let named = "the cluster operator alpha is not available";
    cluster.until_said("Progressing", named).await?;
    cluster.report("alpha", VERSION).await?;
    let endpoint = Endpoint { address, authority };
    let up = format!("cluster_operator_up{{name=\"alpha\",version=\"{VERSION}\",reason=\"\"}} 1");
    let page = endpoint.until_line(&prometheus, &up).await?;
    for metric in [
        format!("cluster_version{{type=\"updating\",version=\"{VERSION}\""),
        format!("cluster_version_payload{{version=\"{VERSION}\",type=\"applied\"}}"),
        "cluster_operator_conditions{name=\"alpha\",condition=\"Available\"".to_owned(),
    ] {
        assert!(page.contains(&metric), "no {metric} in:\n{page}");
    }

    assert_eq!(endpoint.read(None)?.0, 401);
    let (status, said) = endpoint.read(Some(&other))?;
    assert_eq!((status, said.as_str()), (403, "not for this client\n"));
    // The name does not help where the signer is unknown.
    let refused = endpoint.read(Some(&stranger));
    assert!(refused.is_err(), "{refused:?}");

    // The next signer counts without a restart, and the one before no more.
    publish(&cluster, &next).await?;
    endpoint.until_line(&stranger, &up).await?;
    let refused = endpoint.read(Some(&prometheus));
    assert!(refused.is_err(), "{refused:?}");
    drop(process);
    Ok(())
}
