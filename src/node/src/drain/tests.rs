//! The traffic of a drain.

use apimock::{Call, Reply, Script};
use serde_json::{Value, json};

use super::*;

const PODS: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn";
const WATCH: &str =
    "/api/v1/pods?fieldSelector=spec.nodeName%3Dn&watch=true&resourceVersion=7&timeoutSeconds=N";

fn pod(name: &str, uid: &str, kind: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": uid, "resourceVersion": "8",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "y", "controller": true}],
        },
        "status": {"phase": "Running"},
    })
}

fn list(pods: &[Value]) -> Reply {
    Reply::ok(json!({"metadata": {"resourceVersion": "7"}, "items": pods}))
}

fn deleted_after(secs: u64, pods: &[Value]) -> Reply {
    let events = pods.iter().map(|pod| {
        (
            Duration::from_secs(secs),
            json!({"type": "DELETED", "object": pod}),
        )
    });
    Reply::Events(events.collect(), Duration::from_hours(1))
}

fn eviction(name: &str, uid: &str, reply: Reply) -> Call {
    Call::post(
        &format!("/api/v1/namespaces/shop/pods/{name}/eviction"),
        json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": "shop", "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }),
        reply,
    )
}

fn refused_by(budget: &str) -> Value {
    json!({
        "kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{
            "reason": "DisruptionBudget",
            "message": format!("The disruption budget {budget} needs 5 healthy pods and has 5 currently"),
        }]},
    })
}

async fn drain(calls: Vec<Call>) -> (Vec<String>, Duration) {
    drain_after(Duration::ZERO, calls).await
}

/// A drain that has gone on for so long.
async fn drain_after(passed: Duration, calls: Vec<Call>) -> (Vec<String>, Duration) {
    let (script, client) = Script::start(calls);
    let access = Access::of_client(client);
    let drain = Drain {
        access: &access,
        node: "n",
        own: None,
        passed,
    };
    let mut reported = Vec::new();
    let began = Instant::now();
    script
        .drive(drain.run(|progress| reported.push(progress.to_string())))
        .await;
    (reported, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_node_with_nothing_to_evict_costs_one_request() {
    let daemon = pod("logs", "1", "DaemonSet");
    let (reported, _) = drain(vec![Call::get(PODS, list(&[daemon]))]).await;
    assert!(reported.is_empty(), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn evicts_and_waits_until_the_pod_is_gone() {
    let web = pod("web", "1", "ReplicaSet");
    let (reported, took) = drain(vec![
        Call::get(PODS, list(&[web.clone(), pod("logs", "2", "DaemonSet")])),
        Call::get(WATCH, deleted_after(5, &[web])),
        eviction("web", "1", Reply::created()),
    ])
    .await;
    assert!(reported.is_empty(), "{reported:?}");
    assert_eq!(took.as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_asked_again_and_named() {
    let web = pod("web", "1", "ReplicaSet");
    let (reported, took) = drain(vec![
        Call::get(PODS, list(std::slice::from_ref(&web))),
        Call::get(WATCH, deleted_after(20, &[web])),
        eviction("web", "1", Reply::Object(429, refused_by("web"))),
        eviction("web", "1", Reply::Later(429, 9, refused_by("web"))),
        eviction("web", "1", Reply::created()),
    ])
    .await;
    assert_eq!(
        reported,
        [
            "pod shop/web is protected by PodDisruptionBudget shop/web: The disruption budget web needs 5 healthy pods and has 5 currently",
            "pod shop/web is terminating",
        ]
    );
    assert_eq!(took.as_secs(), 20);
}

/// In a drain that is stuck a refused pod waits for minutes, unless another one leaves.
#[tokio::test(start_paused = true)]
async fn a_pod_that_leaves_has_the_refused_ones_tried_again_soon() {
    let (web, mut old) = (pod("web", "1", "ReplicaSet"), pod("old", "2", "ReplicaSet"));
    old["metadata"]["deletionTimestamp"] = json!("2026-11-21T19:00:00Z");
    let deleted = |secs, pod: &Value| {
        let event = json!({"type": "DELETED", "object": pod});
        (Duration::from_secs(secs), event)
    };
    let events = vec![deleted(60, &old), deleted(1, &web)];
    let calls = vec![
        Call::get(PODS, list(&[web, old])),
        Call::get(WATCH, Reply::Events(events, Duration::from_hours(1))),
        eviction("web", "1", Reply::Object(429, refused_by("web"))),
        eviction("web", "1", Reply::created()),
    ];
    let (_, took) = drain_after(Duration::from_mins(20), calls).await;
    assert_eq!(took.as_secs(), 61);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_for_and_never_means_drained() {
    let web = pod("web", "1", "ReplicaSet");
    let (reported, _) = drain(vec![
        Call::get(
            PODS,
            Reply::failure(500, "InternalError", "etcdserver: request timed out"),
        ),
        Call::get(PODS, Reply::Broken),
        Call::get(PODS, list(std::slice::from_ref(&web))),
        Call::get(WATCH, Reply::Broken),
        Call::get(PODS, list(std::slice::from_ref(&web))),
        Call::get(WATCH, deleted_after(60, &[web])),
        eviction(
            "web",
            "1",
            Reply::failure(500, "InternalError", "no leader"),
        ),
        eviction("web", "1", Reply::Broken),
        eviction("web", "1", Reply::created()),
    ])
    .await;
    assert!(
        reported[0].contains("etcdserver: request timed out"),
        "{reported:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_back_under_its_name_is_another_pod() {
    let old = pod("db-0", "1", "StatefulSet");
    let new = pod("db-0", "2", "StatefulSet");
    let web = pod("web", "3", "ReplicaSet");
    let events = vec![
        (
            Duration::from_secs(1),
            json!({"type": "DELETED", "object": old}),
        ),
        (
            Duration::from_secs(1),
            json!({"type": "ADDED", "object": new}),
        ),
        (
            Duration::from_secs(1),
            json!({"type": "DELETED", "object": web}),
        ),
        (
            Duration::from_secs(1),
            json!({"type": "DELETED", "object": new}),
        ),
    ];
    drain(vec![
        Call::get(PODS, list(&[old, web])),
        Call::get(WATCH, Reply::Events(events, Duration::from_hours(1))),
        eviction("db-0", "1", Reply::created()),
        eviction("web", "3", Reply::created()),
        eviction("db-0", "2", Reply::created()),
    ])
    .await;
}

/// It is put on the cordoned node again and again: once is enough.
#[tokio::test(start_paused = true)]
async fn a_pod_that_tolerates_the_cordon_and_came_back_stays() {
    let tolerant = |uid: &str| {
        let mut pod = pod("agent-0", uid, "StatefulSet");
        pod["spec"] = json!({"tolerations": [{"operator": "Exists"}]});
        pod
    };
    let events = vec![
        (
            Duration::from_secs(1),
            json!({"type": "ADDED", "object": tolerant("2")}),
        ),
        (
            Duration::from_secs(1),
            json!({"type": "DELETED", "object": tolerant("1")}),
        ),
    ];
    let (_, took) = drain(vec![
        Call::get(PODS, list(&[tolerant("1")])),
        Call::get(WATCH, Reply::Events(events, Duration::from_hours(1))),
        eviction("agent-0", "1", Reply::created()),
    ])
    .await;
    assert_eq!(took.as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_gone_in_between_and_one_finished_are_not_waited_for() {
    let job = pod("job", "2", "Job");
    let mut finished = job.clone();
    finished["status"]["phase"] = json!("Succeeded");
    let events = vec![(
        Duration::from_secs(3),
        json!({"type": "MODIFIED", "object": finished}),
    )];
    drain(vec![
        Call::get(PODS, list(&[pod("web", "1", "ReplicaSet"), job])),
        Call::get(WATCH, Reply::Events(events, Duration::from_hours(1))),
        eviction(
            "web",
            "1",
            Reply::failure(404, "NotFound", "pods \"web\" not found"),
        ),
        eviction("job", "2", Reply::created()),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_followed_by_a_list() {
    let web = pod("web", "1", "ReplicaSet");
    let mut terminating = web.clone();
    terminating["metadata"]["deletionTimestamp"] = json!("2026-11-21T19:00:00Z");
    drain(vec![
        Call::get(PODS, list(&[web])),
        Call::get(WATCH, Reply::Events(vec![], Duration::from_secs(200))),
        eviction("web", "1", Reply::created()),
        Call::get(PODS, list(&[terminating])),
        Call::get(WATCH, Reply::Events(vec![], Duration::from_secs(200))),
        Call::get(PODS, list(&[])),
    ])
    .await;
}

/// A controller that sets `spec.nodeName` makes the next one as soon as the last one begins to end.
#[tokio::test(start_paused = true)]
async fn pods_that_come_without_end_are_evicted_so_many_times() {
    let made = |uid: u32| pod(&format!("agent-{uid}"), &uid.to_string(), "Custom");
    let mut terminating = made(1);
    terminating["metadata"]["deletionTimestamp"] = json!("2026-11-21T19:00:00Z");
    let second = Duration::from_secs(1);
    let mut events = vec![(second, json!({"type": "MODIFIED", "object": terminating}))];
    // Number 5 stays, and does not hold the drain.
    for uid in 2..=5 {
        events.push((second, json!({"type": "ADDED", "object": made(uid)})));
    }
    for uid in 1..=4 {
        events.push((second, json!({"type": "DELETED", "object": made(uid)})));
    }
    let mut calls = vec![
        Call::get(PODS, list(&[made(1)])),
        Call::get(WATCH, Reply::Events(events, Duration::from_hours(1))),
    ];
    calls.extend((1..=4_u32).map(|uid| {
        let name = format!("agent-{uid}");
        eviction(&name, &uid.to_string(), Reply::created())
    }));
    let (_, took) = drain(calls).await;
    assert_eq!(took.as_secs(), 9);
}

/// What the API server answered to one pod says nothing about the next one.
#[tokio::test(start_paused = true)]
async fn an_accepted_eviction_ends_the_growth_of_the_waits() {
    let names = ["a", "b"];
    let pods = names.map(|name| pod(name, name, "ReplicaSet"));
    let trouble = || Reply::failure(500, "InternalError", "no leader");
    let mut calls = vec![
        Call::get(PODS, list(&pods[..1])),
        Call::get(
            WATCH,
            Reply::Events(
                vec![
                    (
                        Duration::from_secs(250),
                        json!({"type": "ADDED", "object": pods[1]}),
                    ),
                    (
                        Duration::from_secs(1),
                        json!({"type": "DELETED", "object": pods[0]}),
                    ),
                    (
                        Duration::from_secs(10),
                        json!({"type": "DELETED", "object": pods[1]}),
                    ),
                ],
                Duration::from_hours(1),
            ),
        ),
    ];
    calls.extend((0..6).map(|_| eviction("a", "a", trouble())));
    calls.push(eviction("a", "a", Reply::created()));
    // A second later, not a minute.
    calls.push(eviction("b", "b", trouble()));
    calls.push(eviction("b", "b", Reply::created()));
    drain(calls).await;
}
