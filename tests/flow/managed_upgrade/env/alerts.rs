//! Alerts and silences, as Prometheus and Alertmanager have them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use lab::{PATIENCE, wait};
use serde_json::{Value, json};

use super::{CREATOR, Cluster};

impl Cluster {
    /// Has an alert fire, or none.
    pub(crate) async fn fire(&self, alert: Option<&str>) -> Result<()> {
        let rules: Vec<Value> = alert
            .iter()
            .map(|alert| {
                let labels = json!({ "severity": "critical", "namespace": "openshift-etcd" });
                json!({ "alert": alert, "expr": "vector(1)", "labels": labels })
            })
            .collect();
        let groups = json!({ "groups": [{ "name": "test", "rules": rules }] });
        fs::write(self.dir.join("rules.yml"), groups.to_string())?;
        let (status, body) = ask(self.servers.prometheus, "POST", "/-/reload")?;
        anyhow::ensure!(status == 200, "Prometheus refuses its rules: {body}");
        let expected = usize::from(alert.is_some());
        self.until_series("ALERTS{alertstate=\"firing\"}", expected)
            .await
    }

    /// Waits until a query has so many series.
    pub(crate) async fn until_series(&self, query: &str, count: usize) -> Result<()> {
        wait::until(query, PATIENCE, async || {
            let query = cluster::wire::escape(query);
            let path = format!("/api/v1/query?query={query}");
            let (_, body) = ask(self.servers.prometheus, "GET", &path)?;
            let answer: Value = serde_json::from_str(&body)?;
            let result = answer.pointer("/data/result").and_then(Value::as_array);
            let found = result.map(Vec::len);
            Ok(if found == Some(count) {
                Ok(())
            } else {
                Err(body)
            })
        })
        .await
    }

    /// Comments of the operator's silences in force.
    pub(crate) fn silences(&self) -> Result<Vec<String>> {
        let silences = self.servers.silences()?.into_iter();
        let ours = silences.filter(|silence| silence.creator == CREATOR);
        Ok(ours.map(|silence| silence.comment).collect())
    }

    pub(crate) async fn until_silences(&self, expected: &[&str]) -> Result<()> {
        wait::until(&format!("silences {expected:?}"), PATIENCE, async || {
            let found = self.silences()?;
            Ok(if found == expected {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            })
        })
        .await
    }
}

/// Asks a server; its status and body.
fn ask(address: SocketAddr, method: &str, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    // Version 1.0: the body is not sent in chunks.
    let request = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("{address} answers {answer:?}");
    };
    let status = head.split(' ').nth(1).context("no status")?;
    Ok((status.parse()?, body.to_owned()))
}
