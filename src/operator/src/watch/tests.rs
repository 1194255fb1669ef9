use std::sync::{Arc, Mutex};
use std::time::Duration;

use apimock::{Call, Reply, Script};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::*;

const PATH: &str = "/api/v1/namespaces/ns/configmaps";

struct ConfigMaps;

impl CachedKind for ConfigMaps {
    type Entry = (String, String);

    fn name((name, _): &(String, String)) -> &str {
        name
    }

    fn version((_, version): &(String, String)) -> &str {
        version
    }

    fn has_same_content(one: &(String, String), other: &(String, String)) -> bool {
        one == other
    }
}

impl Watched for ConfigMaps {
    type Object = ConfigMap;

    fn parse(object: ConfigMap) -> (String, String) {
        let version = object.resource_version().unwrap_or_default();
        (object.name_any(), version)
    }
}

fn object(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "ns", "resourceVersion": version }
    })
}

fn list(version: &str, next: &str, items: &[Value]) -> Reply {
    let metadata = json!({ "resourceVersion": version, "continue": next });
    Reply::ok(json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items
    }))
}

fn lists(version: &str, items: &[Value]) -> Call {
    Call::get(&format!("{PATH}?&limit=100"), list(version, "", items))
}

/// Asks where the API server is.
fn asks(version: &str) -> Call {
    Call::get(&format!("{PATH}?&limit=1"), list(version, "", &[]))
}

fn watches(version: &str, reply: Reply) -> Call {
    let query = "&watch=true&timeoutSeconds=N&allowWatchBookmarks=true";
    Call::get(&format!("{PATH}?{query}&resourceVersion={version}"), reply)
}

fn events(events: &[(&str, Value)]) -> Reply {
    events_until(events, Duration::ZERO)
}

/// The same, until the watch's time is over.
fn lasting(events: &[(&str, Value)]) -> Reply {
    events_until(events, Duration::from_mins(30))
}

fn events_until(events: &[(&str, Value)], end: Duration) -> Reply {
    let events = events.iter().map(|(kind, object)| {
        let event = json!({ "type": kind, "object": object });
        (Duration::ZERO, event)
    });
    Reply::Events(events.collect(), end)
}

fn expired() -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old" })
}

/// Follows until all calls have come; the last of them is a watch from `position` that stays open.
/// Returns the objects by name and version then, and how often all were read.
async fn followed(calls: Vec<Call>, position: &str) -> (Vec<(String, String)>, usize) {
    followed_in(WatchScope::namespace("ns"), calls, position).await
}

/// The same in another scope.
async fn followed_in(
    scope: WatchScope<ConfigMap>,
    mut calls: Vec<Call>,
    position: &str,
) -> (Vec<(String, String)>, usize) {
    calls.push(watches(
        position,
        Reply::Events(vec![], Duration::from_hours(1)),
    ));
    let (script, client) = Script::start(calls);
    let cache = Cache::<ConfigMaps>::default();
    let synced = Arc::new(Mutex::new(0));
    let count = Arc::clone(&synced);
    cache.listen(move |change| {
        if *change == cluster::cache::TableChange::All {
            *count.lock().unwrap() += 1;
        }
    });
    let all_came = async {
        while script.remaining() > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    script
        .drive(async {
            tokio::select! {
                () = follow(client, scope, cache.clone()) => {}
                () = all_came => {}
            }
        })
        .await;
    let entries = cache.table();
    let entries = entries.values().map(|entry| entry.as_ref().clone());
    let synced = *synced.lock().unwrap();
    (entries.collect(), synced)
}

fn entry(name: &str, version: &str) -> (String, String) {
    (name.to_owned(), version.to_owned())
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_read_once_then_watches_go_on_from_there() {
    let bookmark = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "resourceVersion": "12" }
    });
    let calls = vec![
        Call::get(
            &format!("{PATH}?&limit=100"),
            list("7", "next", &[object("a", "1")]),
        ),
        Call::get(
            &format!("{PATH}?&limit=100&continue=next"),
            list("7", "", &[object("b", "2")]),
        ),
        watches(
            "7",
            events(&[
                ("ADDED", object("c", "8")),
                ("DELETED", object("a", "9")),
                ("BOOKMARK", bookmark),
            ]),
        ),
        // It ended before its time.
        asks("12"),
        watches("12", lasting(&[("MODIFIED", object("c", "13"))])),
    ];
    let (entries, synced) = followed(calls, "13").await;
    assert_eq!(entries, [entry("b", "2"), entry("c", "13")]);
    assert_eq!(synced, 1);
}

#[tokio::test(start_paused = true)]
async fn outage_costs_no_further_list() {
    let down = Reply::failure(503, "ServiceUnavailable", "down");
    let calls = vec![
        lists("7", &[object("a", "1")]),
        watches("7", Reply::Broken),
        asks("7"),
        watches("7", down.clone()),
        Call::get(&format!("{PATH}?&limit=1"), down),
        asks("9"),
        watches("7", lasting(&[("MODIFIED", object("a", "8"))])),
    ];
    let (entries, synced) = followed(calls, "8").await;
    assert_eq!(entries, [entry("a", "8")]);
    assert_eq!(synced, 1);
}

/// A watch from a position that is yet to come would pass over all that happens until then. The
/// position is the last bookmark's, not that of the newest object.
#[tokio::test(start_paused = true)]
async fn older_state_of_a_restored_server_is_listed_again() {
    let bookmark = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "resourceVersion": "20" }
    });
    let calls = vec![
        lists("7", &[object("a", "7"), object("b", "6")]),
        watches("7", events(&[("BOOKMARK", bookmark)])),
        asks("19"),
        lists("19", &[object("a", "4")]),
    ];
    let (entries, synced) = followed(calls, "19").await;
    assert_eq!(entries, [entry("a", "4")]);
    assert_eq!(synced, 2);
}

#[tokio::test(start_paused = true)]
async fn expired_position_lists_again() {
    let calls = vec![
        lists("7", &[object("a", "1")]),
        watches("7", events(&[("ERROR", expired())])),
        lists("90", &[object("b", "80")]),
        // The same, as an answer instead of an event.
        watches("90", Reply::Object(410, expired())),
        lists("99", &[object("b", "80")]),
    ];
    let (entries, synced) = followed(calls, "99").await;
    assert_eq!(entries, [entry("b", "80")]);
    assert_eq!(synced, 3);
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_not_served_has_no_objects_until_it_is() {
    let unknown = || Reply::failure(404, "NotFound", "the server could not find it");
    let calls = vec![
        Call::get(&format!("{PATH}?&limit=100"), unknown()),
        Call::get(&format!("{PATH}?&limit=100"), unknown()),
        lists("7", &[object("a", "1")]),
    ];
    let scope = WatchScope::namespace("ns").optional();
    let (entries, synced) = followed_in(scope, calls, "7").await;
    assert_eq!(entries, [entry("a", "1")]);
    // Once without objects, however often it was asked for, and once with them.
    assert_eq!(synced, 2);
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_never_served_is_asked_for_every_five_minutes() {
    let unknown = || Reply::failure(404, "NotFound", "the server could not find it");
    let list = || Call::get(&format!("{PATH}?&limit=100"), unknown());
    let mut calls: Vec<Call> = (0..21).map(|_| list()).collect();
    calls.push(lists("7", &[]));
    let began = tokio::time::Instant::now();
    let scope = WatchScope::namespace("ns").optional();
    followed_in(scope, calls, "7").await;
    let minutes = began.elapsed().as_secs() / 60;
    // Eight pauses until they are that long, and thirteen of them.
    assert!((65..85).contains(&minutes), "{minutes} minutes");
}
