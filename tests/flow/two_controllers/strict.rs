//! Whether the API server takes what a controller wrote without dropping or bending any of it: each
//! write is taken from the audit log and sent again, strictly, as a dry run.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use http::header::{CONTENT_TYPE, HeaderValue};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams, Request};
use lab::audit::{Event, ObjectRef, Verb};
use serde_json::{Value, json};

use crate::env::ACCOUNT;

const GROUP: &str = "machineconfiguration.openshift.io";

/// What a controller writes in every rollout: resource and subresource.
const WRITES: [(&str, &str); 4] = [
    ("machineconfignodes", ""),
    ("machineconfigs", ""),
    ("machineconfigpools", ""),
    ("machineconfigpools", "status"),
];

/// Asks for every write again.
///
/// # Errors
///
/// One is refused, nothing of a kind was written, or a field that no definition has is let through.
pub(crate) async fn accepts_all(client: &Client, events: &[Event]) -> Result<()> {
    let account = format!(
        "system:serviceaccount:{}:{ACCOUNT}",
        api::machineconfiguration::NAMESPACE
    );
    let mut seen = BTreeSet::new();
    let mut refused = Vec::new();
    for event in events
        .iter()
        .filter(|event| event.user.username == account && event.succeeded())
        .filter(|event| matches!(event.verb, Verb::Create | Verb::Patch))
    {
        let Some(object) = &event.object else {
            continue;
        };
        if object.api_group != GROUP {
            continue;
        }
        let body = event.request.as_ref().context("a write without a body")?;
        if let Err(error) = again(client, event, object, body).await {
            refused.push(format!("{}: {error:#}", event.uri));
        }
        if seen.insert((object.resource.as_str(), object.subresource.as_str())) {
            let section = if object.subresource == "status" {
                "status"
            } else {
                "spec"
            };
            let unknown = merged(body, &json!({ (section): { "noSuchField": 1 } }));
            let reply = again(client, event, object, &unknown).await;
            let reply = reply.map_or_else(|error| format!("{error:#}"), |()| "nothing".to_owned());
            // The second is the reply to server-side apply.
            let refusals = ["unknown field", "field not declared in schema"];
            ensure!(
                refusals.iter().any(|words| reply.contains(words)),
                "to {} with an unknown field it says {reply}",
                event.uri
            );
        }
    }
    ensure!(
        refused.is_empty(),
        "the definitions do not take what was written: {refused:#?}"
    );
    ensure!(seen == BTreeSet::from(WRITES), "writes of {seen:?} only");
    Ok(())
}

/// The same request, which changes nothing and refuses what it would else drop.
async fn again(client: &Client, event: &Event, object: &ObjectRef, body: &Value) -> Result<()> {
    // Its path is put right below, where there is all of it.
    let request = Request::new("/again");
    let mut request = if event.verb == Verb::Create {
        // There is one of its name already.
        let name = body.pointer("/metadata/name").and_then(Value::as_str);
        let name = format!("{}-again", name.context("an object without a name")?);
        let named = merged(body, &json!({ "metadata": { "name": name } }));
        request.create(&PostParams::default(), named.to_string().into_bytes())?
    } else {
        // It was for the object as it was then.
        let patch = merged(body, &json!({ "metadata": { "resourceVersion": null } }));
        request.patch(&object.name, &PatchParams::default(), &Patch::Merge(patch))?
    };
    if event.uri.contains("force=true") {
        let apply = HeaderValue::from_static("application/apply-patch+yaml");
        request.headers_mut().insert(CONTENT_TYPE, apply);
    }
    let query = if event.uri.contains('?') { '&' } else { '?' };
    let uri = format!("{}{query}fieldValidation=Strict&dryRun=All", event.uri);
    *request.uri_mut() = uri.parse()?;
    client.request::<Value>(request).await?;
    Ok(())
}

/// `object` with what a merge patch changes.
fn merged(object: &Value, patch: &Value) -> Value {
    let (Value::Object(old), Value::Object(changes)) = (object, patch) else {
        return patch.clone();
    };
    let mut merged = old.clone();
    for (key, change) in changes {
        if change.is_null() {
            merged.remove(key);
        } else {
            let value = self::merged(old.get(key).unwrap_or(&Value::Null), change);
            merged.insert(key.clone(), value);
        }
    }
    Value::Object(merged)
}
