//! Alerts and silences, as Prometheus and Alertmanager have them.

use std::fs;

use anyhow::{Result, ensure};
use lab::wait;
use serde_json::{Value, json};
use testbed::http;

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
        let url = format!("http://{}/-/reload", self.servers.prometheus);
        let reply = http::ask(&url, &["--request", "POST"])?;
        ensure!(
            reply.status == 200,
            "Prometheus refuses its rules: {reply:?}"
        );
        let expected = usize::from(alert.is_some());
        self.until_series("ALERTS{alertstate=\"firing\"}", expected)
            .await
    }

    /// Waits until a query has so many series.
    pub(crate) async fn until_series(&self, query: &str, count: usize) -> Result<()> {
        let (server, escaped) = (self.servers.prometheus, cluster::wire::escape(query));
        let url = format!("http://{server}/api/v1/query?query={escaped}");
        let read = async || http::ask::<&str>(&url, &[])?.json();
        let found = wait::until_so(query, read, |response| {
            let result = response.pointer("/data/result").and_then(Value::as_array);
            result.map(Vec::len) == Some(count)
        });
        found.await.map(drop)
    }

    /// Comments of the operator's silences in force.
    pub(crate) fn silences(&self) -> Result<Vec<String>> {
        let silences = self.servers.silences()?.into_iter();
        let ours = silences.filter(|silence| silence.creator == CREATOR);
        Ok(ours.map(|silence| silence.comment).collect())
    }

    pub(crate) async fn until_silences(&self, expected: &[&str]) -> Result<()> {
        let (what, read) = (format!("silences {expected:?}"), async || self.silences());
        let found = wait::until_so(&what, read, |found| found == expected);
        found.await.map(drop)
    }
}
