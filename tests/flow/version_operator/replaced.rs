//! What cannot be changed is recreated, and what a release drops of an object goes.

use anyhow::{Context as _, Result};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams};
use lab::{PATIENCE, wait};
use serde_json::{Value, json};
use testbed::objects;

use crate::env::Cluster;
use crate::payload::VERSION;

const HOOK: &str = "beta.example.org";

const INCLUDE: &str = "include.release.openshift.io/self-managed-high-availability";

fn job(image: &str) -> Value {
    let container = json!({ "name": "c", "image": image });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "migrate", "namespace": "default", "annotations": { INCLUDE: "true" } },
        "spec": { "backoffLimit": 0, "template": { "spec": { "restartPolicy": "Never", "containers": [container] } } }
    })
}

fn map(labels: &Value, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": { "name": "alpha", "namespace": "default", "labels": labels, "annotations": { INCLUDE: "true" } }
    })
}

/// A webhook that nothing calls, whose bundle a controller fills in if `annotations` ask for it.
fn hook(annotations: &Value) -> Value {
    let rule = json!({ "apiGroups": ["example.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"] });
    let service = json!({ "name": "none", "namespace": "default" });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "beta", "annotations": annotations },
        "webhooks": [{
            "name": HOOK, "rules": [rule], "clientConfig": { "service": service },
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore"
        }]
    })
}

/// The Job's uid and image, once it is as it should be.
async fn until_job(
    jobs: &Api<Job>,
    what: &str,
    mut is_it: impl FnMut(&str, &str) -> bool,
) -> Result<String> {
    wait::until(what, PATIENCE, async || {
        let Some(found) = jobs.get_opt("migrate").await? else {
            return Ok(Err("none".to_owned()));
        };
        let uid = found.metadata.uid.unwrap_or_default();
        let spec = found.spec.and_then(|spec| spec.template.spec);
        let image = spec.and_then(|spec| spec.containers.into_iter().next()?.image);
        let image = image.unwrap_or_default();
        let is_deleted = found.metadata.deletion_timestamp.is_some();
        Ok(if !is_deleted && is_it(&uid, &image) {
            Ok(uid)
        } else {
            Err(format!("{uid} {image}"))
        })
    })
    .await
}

/// Jobs that cannot be changed, or have failed, are recreated; labels, keys and objects that a
/// release drops go, and those of others stay. Rows 6, 7 and 11 of
/// `docs/reference/known-weaknesses.md`, "Version operator".
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the control-plane binary"]
async fn jobs_are_made_anew_and_dropped_fields_go() -> Result<()> {
    let mut cluster = Cluster::start("replaced", 4).await?;
    let hooks: Api<ValidatingWebhookConfiguration> = cluster.all();
    let jobs: Api<Job> = cluster.namespaced("default");
    let old = objects::create(&jobs, job("registry.example/old")).await?;
    let old = old.metadata.uid.context("a uid")?;
    let file = "0000_10_alpha_03_job.json";
    cluster.payload.write(file, &job("registry.example/new"))?;
    let config = "0000_10_alpha_05_config.json";
    let labels = json!({ "kept": "a", "dropped": "b" });
    let data = json!({ "level": "10", "dropped": "c" });
    cluster.payload.write(config, &map(&labels, &data))?;
    let hook_file = "0000_20_beta_03_hook.json";
    let asking = json!({ INCLUDE: "true", "service.beta.openshift.io/inject-cabundle": "true" });
    cluster.payload.write(hook_file, &hook(&asking))?;
    cluster.arguments.push("--prune-dropped".to_owned());
    cluster.arguments.push("--namespace=default".to_owned());
    let process = cluster.run()?;

    // The API server does not take another pod of a Job.
    let first = until_job(&jobs, "a new Job", |uid, image| {
        uid != old && image == "registry.example/new"
    })
    .await?;
    cluster
        .until_condition("Progressing", "has not succeeded yet")
        .await?;
    cluster.until_condition("Failing", "False").await?;
    let failed = json!({ "failed": 1, "startTime": "2025-01-01T00:00:00Z" });
    objects::set_status(&jobs, "migrate", &failed).await?;
    until_job(&jobs, "another Job", |uid, _| uid != first).await?;
    let log = cluster.log()?;
    assert!(log.contains("the job has failed"), "{log}");
    let done = json!({ "succeeded": 1, "startTime": "2025-01-01T00:00:00Z" });
    objects::set_status(&jobs, "migrate", &done).await?;
    for (_, component) in crate::payload::COMPONENTS {
        let named = format!("the cluster operator {component} is not available");
        cluster.until_condition("Progressing", &named).await?;
        cluster.report(component, VERSION).await?;
    }
    cluster
        .until_condition("Available", "Done applying 4.2.0")
        .await?;
    drop(process);

    // The bundle is filled in, and the next release does not ask for it any more.
    let bundle = json!({ "webhooks": [{ "name": HOOK, "clientConfig": { "caBundle": "Q0E=" } }] });
    let params = PatchParams::default();
    hooks
        .patch("beta", &params, &Patch::Strategic(bundle))
        .await?;
    cluster
        .payload
        .write(hook_file, &hook(&json!({ INCLUDE: "true" })))?;

    // Another release in the same place: less of the ConfigMap, to which others have added.
    let added = json!({ "metadata": { "labels": { "other": "d" } }, "data": { "other": "e" } });
    objects::merge(&cluster.maps, "alpha", &added).await?;
    let (labels, data) = (json!({ "kept": "a" }), json!({ "level": "10" }));
    cluster.payload.write(config, &map(&labels, &data))?;
    // It has no ConfigMap `once` any more, which an administrator made, nor ClusterRole `beta`.
    cluster.payload.remove("0000_20_beta_01_role.json")?;
    cluster.payload.remove("0000_20_beta_02_once.json")?;
    cluster.image = "registry.example/release@sha256:4".to_owned();
    let process = cluster.run()?;
    let read = async || Ok(cluster.maps.get("alpha").await?);
    let found = wait::until_so("what was dropped to go", read, |found| {
        let data = found.data.as_ref();
        data.is_none_or(|data| !data.contains_key("dropped"))
    })
    .await?;
    let labels = found.metadata.labels.unwrap_or_default();
    let labels: Vec<&str> = labels.keys().map(String::as_str).collect();
    assert_eq!(labels, ["kept", "other"]);
    assert_eq!(found.data.unwrap_or_default()["other"], "e");
    let roles: Api<ClusterRole> = cluster.all();
    let read = async || Ok(roles.get_opt("beta").await?);
    wait::until_so("the role to go", read, Option::is_none).await?;
    assert!(cluster.maps.get_opt("once").await?.is_some());
    wait::until("the bundle to go", PATIENCE, async || {
        let found = hooks.get("beta").await?;
        let asks = found.metadata.annotations.unwrap_or_default().len() > 1;
        let hook = found.webhooks.unwrap_or_default().pop();
        let bundle = hook.and_then(|hook| hook.client_config.ca_bundle);
        let is_empty = bundle.as_ref().is_none_or(|bundle| bundle.0.is_empty());
        Ok(if is_empty && !asks {
            Ok(())
        } else {
            Err(format!("{bundle:?}"))
        })
    })
    .await?;
    drop(process);
    Ok(())
}
