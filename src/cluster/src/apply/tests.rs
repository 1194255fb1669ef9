use apimock::{Call, Reply, Script};
use chassis::report::Chain;
use serde_json::json;

use super::*;

const PATH: &str = "/api/v1/namespaces/ns/configmaps/a";

fn object() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "a", "namespace": "ns" },
        "data": { "k": "v" }
    })
}

/// The object as the API server has it.
fn stored(version: &str) -> Reply {
    let mut stored = object();
    stored["metadata"]["resourceVersion"] = json!(version);
    Reply::ok(stored)
}

fn kinds() -> Call {
    let kind = |name: &str, kind: &str, namespaced: bool| json!({ "name": name, "kind": kind, "namespaced": namespaced, "singularName": "", "verbs": [] });
    let resources = [
        kind("configmaps", "ConfigMap", true),
        kind("nodes", "Node", false),
    ];
    let list = json!({ "groupVersion": "v1", "resources": resources });
    Call::get("/api/v1", Reply::ok(list))
}

fn patch(query: &str, reply: Reply) -> Call {
    Call::patch(
        &format!("{PATH}?fieldManager=me%20too{query}"),
        object(),
        reply,
    )
}

/// Applies `object` as often as there are `ownerships`.
async fn apply(
    calls: Vec<Call>,
    object: &Value,
    ownerships: &[Ownership],
) -> Vec<Result<ApplyOutcome, Error>> {
    let (script, client) = Script::start(calls);
    let applier = Applier::new(Arc::new(Access::of_client(client)), "me too").strict();
    script
        .drive(async {
            let mut results = Vec::new();
            for ownership in ownerships {
                let result = applier.apply(object, *ownership).await;
                results.push(result.map(|done| done.change));
            }
            results
        })
        .await
}

#[tokio::test]
async fn versions_show_what_was_done() {
    let missing = Reply::failure(404, "NotFound", "configmaps \"a\" not found");
    let calls = vec![
        kinds(),
        Call::get(PATH, missing),
        patch("&fieldValidation=Strict", stored("7")),
        Call::get(PATH, stored("7")),
        patch("&fieldValidation=Strict", stored("7")),
        Call::get(PATH, stored("8")),
        patch("&force=true&fieldValidation=Strict", stored("9")),
    ];
    let ownerships = [Ownership::Respect, Ownership::Respect, Ownership::Take];
    let results = apply(calls, &object(), &ownerships).await;
    let changes: Vec<ApplyOutcome> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        changes,
        [
            ApplyOutcome::Created,
            ApplyOutcome::Unchanged,
            ApplyOutcome::Changed
        ]
    );
}

/// Causes as kube-apiserver 1.36 sends them.
#[tokio::test]
async fn a_conflict_names_each_field_and_its_owner() {
    let cause = |field: &str, message: &str| json!({ "reason": "FieldManagerConflict", "message": message, "field": field });
    let causes = [
        cause(".data.k", "conflict with \"kubectl\" using v1"),
        cause(
            ".metadata.labels.app",
            "conflict with \"other\" with subresource \"status\" using v1 at 2026-11-21T19:00:00Z",
        ),
    ];
    let refusal = Reply::Object(
        409,
        json!({
            "kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict",
            "message": "Apply failed with 2 conflicts", "details": { "causes": causes }
        }),
    );
    let calls = vec![
        kinds(),
        Call::get(PATH, stored("7")),
        patch("&fieldValidation=Strict", refusal),
    ];
    let mut results = apply(calls, &object(), &[Ownership::Respect]).await;
    let error = results.remove(0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot apply ConfigMap ns/a: .data.k is owned by \"kubectl\", .metadata.labels.app is owned by \"other\""
    );
    assert!(!error.is_transient());
}

#[tokio::test]
async fn an_object_that_changed_meanwhile_is_no_conflict_of_fields() {
    let changed = Reply::failure(409, "Conflict", "the object has been modified");
    let calls = vec![
        kinds(),
        Call::get(PATH, stored("7")),
        patch("&fieldValidation=Strict", changed),
    ];
    let mut results = apply(calls, &object(), &[Ownership::Respect]).await;
    let error = results.remove(0).unwrap_err();
    assert!(matches!(error, Error::Request { .. }) && error.is_transient());
}

#[tokio::test]
async fn what_is_incomplete_is_refused_before_a_request_for_it() {
    let mut nameless = object();
    nameless["metadata"] = json!({ "namespace": "ns" });
    let mut homeless = object();
    homeless["metadata"] = json!({ "name": "a" });
    let table = [
        (
            json!({}),
            vec![],
            "cannot apply an object without a kind: it has no apiVersion",
        ),
        (
            nameless,
            vec![],
            "cannot apply ConfigMap ns/: it has no metadata.name",
        ),
        (
            homeless,
            vec![kinds()],
            "cannot apply ConfigMap a: it has no metadata.namespace",
        ),
    ];
    for (object, calls, expected) in table {
        let mut results = apply(calls, &object, &[Ownership::Respect]).await;
        let error = results.remove(0).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn a_kind_that_went_is_looked_for_again() {
    let gone = || {
        Reply::failure(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    };
    let empty = json!({ "groupVersion": "v1", "resources": [] });
    let calls = vec![
        kinds(),
        Call::get(PATH, gone()),
        patch("&fieldValidation=Strict", gone()),
        Call::get("/api/v1", Reply::ok(empty)),
    ];
    let results = apply(calls, &object(), &[Ownership::Respect; 2]).await;
    let errors: Vec<Error> = results.into_iter().map(Result::unwrap_err).collect();
    assert!(!errors[0].is_transient());
    assert!(errors[1].is_transient());
    assert_eq!(
        Chain(&errors[1]).to_string(),
        "cannot apply ConfigMap ns/a: the API server serves no kind ConfigMap in v1"
    );
}

#[tokio::test]
async fn of_the_answer_only_the_metadata_is_read() {
    let missing = Reply::failure(404, "NotFound", "the server could not find the resource");
    let path = format!("{PATH}?fieldManager=me&force=true&fieldValidation=Ignore");
    let calls = vec![
        Call::patch(&path, object(), stored("7")),
        Call::patch(&path, object(), missing),
    ];
    let (script, client) = Script::start(calls);
    let applier = Applier::new(Arc::new(Access::of_client(client)), "me");
    let apply = || applier.apply_for_head(PATH, object(), Ownership::Take);
    let (head, failed) = script.drive(async { (apply().await, apply().await) }).await;
    let head = head.unwrap();
    assert_eq!(
        (head.name.as_str(), head.resource_version.as_str()),
        ("a", "7")
    );
    let message = failed.unwrap_err().to_string();
    assert_eq!(message, "cannot apply ConfigMap ns/a");
}
