//! A release is checked before it is requested: all faults of it are reported at once, and
//! nothing is changed.

use anyhow::{Context as _, Result};
use lab::audit::Verb;
use lab::wait;
use serde_json::{Value, json};

use crate::env::{Cluster, VERSION};

const REQUEST: &str = "slipway.dev/preflight";
const RESULT: &str = "slipway.dev/preflight-result";

impl Cluster {
    /// Requests a preflight, or takes it back.
    async fn check(&self, request: Option<&str>) -> Result<()> {
        let change = json!({ "metadata": { "annotations": { REQUEST: request } } });
        self.base.change(&change).await
    }

    async fn result(&self) -> Result<Option<Value>> {
        let object = self.versions.get("version").await?;
        let annotations = object.metadata.annotations.unwrap_or_default();
        let text = annotations.get(RESULT);
        Ok(text.map(|text| serde_json::from_str(text)).transpose()?)
    }

    /// The outcome of a preflight, in which it names the request.
    async fn checked(&self, request: &str) -> Result<Value> {
        self.check(Some(request)).await?;
        let read = async || Ok(self.result().await?.unwrap_or_default());
        let is_over = |found: &Value| found["request"] == request && found["state"] != "Running";
        wait::until_so("the preflight's end", read, is_over).await
    }
}

fn manifest(
    api_version: &str,
    kind: &str,
    (namespace, name): (&str, &str),
    rest: &Value,
) -> String {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name,
            "annotations": { "include.release.openshift.io/self-managed-high-availability": "true" }
        }
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object.to_string()
}

/// Manifests of what comes with the release itself: it cannot be checked, and is no failure.
fn bring_own(put: &mut impl FnMut(&str, String)) {
    put(
        "01_namespace",
        manifest("v1", "Namespace", ("", "beta"), &json!({})),
    );
    let data = json!({ "data": { "a": "b" } });
    put(
        "02_config",
        manifest("v1", "ConfigMap", ("beta", "beta"), &data),
    );
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({ "spec": {
        "group": "beta.example", "scope": "Cluster",
        "names": { "kind": "Beta", "plural": "betas" },
        "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": schema }
        }]
    } });
    let group = "apiextensions.k8s.io/v1";
    let name = ("", "betas.beta.example");
    put(
        "03_crd",
        manifest(group, "CustomResourceDefinition", name, &definition),
    );
    put(
        "04_beta",
        manifest("beta.example/v1", "Beta", ("", "one"), &json!({})),
    );
}

/// What the API server rejects is found before anything is applied. Row 9 of
/// `docs/reference/known-weaknesses.md`, "Version operator".
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, docker-registry and the control-plane binary"]
async fn preflight_says_all_that_is_wrong_and_changes_nothing() -> Result<()> {
    let mut cluster = Cluster::start("preflight").await?;
    cluster.arguments = vec![
        "--retrieval=pull".to_owned(),
        "--insecure-registries".to_owned(),
    ];
    let process = cluster.settle().await?;
    let mut files = cluster.release("4.2.1")?;
    let mut put = |name: &str, text: String| {
        files.insert(format!("release-manifests/0000_50_beta_{name}.json"), text);
    };
    bring_own(&mut put);
    let good = files.clone();
    let mut put = |name: &str, text: String| {
        files.insert(format!("release-manifests/0000_50_beta_{name}.json"), text);
    };
    let port = json!({ "spec": { "ports": [{ "port": 70000 }] } });
    put(
        "05_service",
        manifest("v1", "Service", ("default", "beta"), &port),
    );
    put(
        "06_gamma",
        manifest("gamma.example/v1", "Gamma", ("", "one"), &json!({})),
    );

    let (unsigned, digest) = cluster.push("beta", &files).await?;
    let before = cluster.events()?.len();
    let result = cluster.checked(&unsigned).await?;
    assert_eq!(result["state"], "Failed");
    let failures = result["failures"].as_array().context("no failures")?;
    assert_eq!(failures.len(), 1, "{result}");
    assert!(
        result["failures"][0]
            .to_string()
            .contains("cannot be verified"),
        "{result}"
    );
    cluster.check(None).await?;
    let read = async || cluster.result().await;
    wait::until_so("the outcome to go", read, Option::is_none).await?;

    cluster.server.put(&digest, cluster.key.sign(&digest)?);
    let result = cluster.checked(&unsigned).await?;
    assert_eq!(
        (&result["state"], &result["version"]),
        (&json!("Failed"), &json!("4.2.1"))
    );
    let failures = result["failures"].as_array().context("no failures")?;
    let named = ["0000_50_beta_05_service.json", "0000_50_beta_06_gamma.json"];
    assert_eq!(failures.len(), named.len(), "{result}");
    for (failure, file) in failures.iter().zip(named) {
        assert!(failure.to_string().contains(file), "{failure}");
    }
    let unknown = result["notChecked"].to_string();
    for words in [
        "0000_50_beta_02_config.json: its namespace comes with the release",
        "0000_50_beta_04_beta.json: its definition comes with the release",
        "nodes and pools",
    ] {
        assert!(unknown.contains(words), "{unknown}");
    }

    let image = cluster.push_signed("good", &good).await?;
    let result = cluster.checked(&image).await?;
    assert_eq!(result["state"], "Passed", "{result}");
    assert_eq!(result["failures"], json!([]));
    let result = cluster.checked("4.9.0").await?;
    let why = "slipway.dev/preflight: \\\"4.9.0\\\": when image is empty";
    assert!(result["failures"].to_string().contains(why), "{result}");

    let events = cluster.events()?;
    let writes = events.iter().skip(before).filter(|event| {
        let is_write = !matches!(event.verb, Verb::Get | Verb::List | Verb::Watch);
        let is_own = event.user_agent.starts_with("cvo/");
        let is_version = event.uri.contains("/clusterversions/version");
        // Events, and the signatures that were found, as for an update.
        let is_kept = [
            "/events",
            "/openshift-config-managed/configmaps",
            "dryRun=All",
        ];
        let is_kept = is_kept.iter().any(|part| event.uri.contains(part));
        is_own && is_write && !is_version && !is_kept
    });
    let writes: Vec<&str> = writes.map(|event| event.uri.as_str()).collect();
    assert!(writes.is_empty(), "{writes:?}");
    cluster.until_reconciled(VERSION).await?;
    let history = cluster.status().await?.history;
    assert_eq!(history.len(), 1, "{history:?}");
    drop(process);
    Ok(())
}
