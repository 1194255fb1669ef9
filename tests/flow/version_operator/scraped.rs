//! Metrics over HTTPS, as the cluster's Prometheus reads them, and others cannot.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use lab::{PATIENCE, free_address, wait};
use testbed::{Authority, http};

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
    /// Reads metrics with the certificate of a client: the status, and the page.
    fn read(&self, client: Option<&Path>) -> Result<(u16, String)> {
        let mut arguments = vec!["--cacert".into(), self.authority.clone()];
        if let Some(client) = client {
            arguments.extend(["--cert".into(), client.with_extension("crt")]);
            arguments.extend(["--key".into(), client.with_extension("key")]);
        }
        let url = format!("https://{}/metrics", self.address);
        let reply = http::ask(&url, &arguments)?;
        Ok((reply.status, reply.body))
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
    cluster.publish_signer(&clients).await?;

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
    cluster.until_condition("Progressing", named).await?;
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
    let (status, body) = endpoint.read(Some(&other))?;
    assert_eq!((status, body.as_str()), (403, "not for this client\n"));
    // The name does not help where the signer is unknown.
    let refused = endpoint.read(Some(&stranger));
    assert!(refused.is_err(), "{refused:?}");

    // The next signer counts without a restart, and the one before no more.
    cluster.publish_signer(&next).await?;
    endpoint.until_line(&stranger, &up).await?;
    let refused = endpoint.read(Some(&prometheus));
    assert!(refused.is_err(), "{refused:?}");
    drop(process);
    Ok(())
}
