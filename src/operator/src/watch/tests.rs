use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apimock::{Call, Reply, Script, protobuf};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::core::PartialObjectMeta;
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
    Call::get(&format!("{PATH}?limit=100"), list(version, "", items))
}

/// Asks where the API server is.
fn asks(version: &str) -> Call {
    Call::get(&format!("{PATH}?limit=1"), list(version, "", &[]))
}

fn watches(version: &str, reply: Reply) -> Call {
    let query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=N";
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

/// The same kind, of which metadata is kept.
struct Heads;

impl CachedKind for Heads {
    type Entry = (String, String);

    fn name(entry: &(String, String)) -> &str {
        ConfigMaps::name(entry)
    }

    fn version(entry: &(String, String)) -> &str {
        ConfigMaps::version(entry)
    }

    fn has_same_content(one: &(String, String), other: &(String, String)) -> bool {
        one == other
    }
}

impl Watched for Heads {
    type Object = PartialObjectMeta<ConfigMap>;

    const FORM: WatchForm<(String, String)> = WatchForm::Metadata;

    fn parse(object: PartialObjectMeta<ConfigMap>) -> (String, String) {
        let version = object.resource_version().unwrap_or_default();
        (object.name_any(), version)
    }
}

/// A kind in its protobuf form, whose objects are `name version content heartbeat`.
struct Beating;

#[derive(Debug, Clone, PartialEq)]
struct Beat {
    name: String,
    version: String,
    content: String,
}

impl CachedKind for Beating {
    type Entry = Beat;

    fn name(entry: &Beat) -> &str {
        &entry.name
    }

    fn version(entry: &Beat) -> &str {
        &entry.version
    }

    fn has_same_content(one: &Beat, other: &Beat) -> bool {
        one.content == other.content
    }
}

impl Watched for Beating {
    type Object = ConfigMap;

    const FORM: WatchForm<Beat> = WatchForm::Protobuf(ProtobufForm {
        decode: |bytes| {
            let [name, version, content] = words(&bytes);
            Ok(Beat {
                name,
                version,
                content,
            })
        },
        head: |bytes, hasher| {
            let [name, version, content] = words(bytes);
            Ok(Head {
                name,
                version,
                content: hasher.hash_one(content),
            })
        },
        renew: |beat, version| Arc::make_mut(beat).version = version,
    });

    fn parse(_: ConfigMap) -> Beat {
        unreachable!("it has another form")
    }
}

fn words(bytes: &[u8]) -> [String; 3] {
    let mut words = std::str::from_utf8(bytes).unwrap().split(' ');
    std::array::from_fn(|_| words.next().unwrap().to_owned())
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
    let cache = Cache::<ConfigMaps>::default();
    let synced = Arc::new(Mutex::new(0));
    let count = Arc::clone(&synced);
    cache.listen(move |change| {
        if *change == cluster::cache::TableChange::All {
            *count.lock().unwrap() += 1;
        }
    });
    fill(scope, calls, &cache).await;
    let entries = cache.table();
    let entries = entries.values().map(|entry| entry.as_ref().clone());
    let synced = *synced.lock().unwrap();
    (entries.collect(), synced)
}

/// Follows a kind into its cache until all calls have come.
async fn fill<K: Watched>(scope: WatchScope<K::Object>, calls: Vec<Call>, cache: &Cache<K>) {
    let (script, client) = Script::start(calls);
    let all_came = async {
        while script.remaining() > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let following = async {
        tokio::select! {
            () = follow(client, scope, cache.clone()) => {}
            () = all_came => {}
        }
    };
    script.drive(following).await;
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
            &format!("{PATH}?limit=100"),
            list("7", "next", &[object("a", "1")]),
        ),
        Call::get(
            &format!("{PATH}?limit=100&continue=next"),
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
        Call::get(&format!("{PATH}?limit=1"), down),
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
        // The same, as a response instead of an event.
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
        Call::get(&format!("{PATH}?limit=100"), unknown()),
        Call::get(&format!("{PATH}?limit=100"), unknown()),
        lists("7", &[object("a", "1")]),
    ];
    let scope = WatchScope::namespace("ns").optional();
    let (entries, synced) = followed_in(scope, calls, "7").await;
    assert_eq!(entries, [entry("a", "1")]);
    // Once without objects, however often it was requested, and once with them.
    assert_eq!(synced, 2);
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_never_served_is_asked_for_every_five_minutes() {
    let unknown = || Reply::failure(404, "NotFound", "the server could not find it");
    let list = || Call::get(&format!("{PATH}?limit=100"), unknown());
    let mut calls: Vec<Call> = (0..21).map(|_| list()).collect();
    calls.push(lists("7", &[]));
    let began = tokio::time::Instant::now();
    let scope = WatchScope::namespace("ns").optional();
    followed_in(scope, calls, "7").await;
    let minutes = began.elapsed().as_secs() / 60;
    // Eight pauses until they are that long, and thirteen of them.
    assert!((65..85).contains(&minutes), "{minutes} minutes");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_renew_the_version_and_changes_are_read() {
    let page = |version, objects: &[&str]| {
        let items: Vec<&[u8]> = objects.iter().map(|object| object.as_bytes()).collect();
        let list = protobuf::list(version, "", &items);
        Reply::Parts(200, vec![list], Duration::ZERO)
    };
    let events = |events: &[(&str, &str)], end| {
        let frames = events.iter();
        let frames = frames.map(|(kind, object)| protobuf::event(kind, object.as_bytes()));
        Reply::Parts(200, frames.collect(), end)
    };
    let calls = vec![
        Call::get(&format!("{PATH}?limit=100"), page("7", &["a 5 x", "b 6 y"])),
        watches(
            "7",
            events(
                &[
                    ("MODIFIED", "a 8 x beat"),
                    ("MODIFIED", "b 9 z"),
                    ("MODIFIED", "b 10 z beat"),
                    ("ADDED", "c 11 x"),
                    ("DELETED", "c 12 x"),
                    ("MODIFIED", "a 13 x beat"),
                ],
                Duration::from_mins(30),
            ),
        ),
        // What was seen before is cached for the next watch too.
        watches(
            "13",
            events(&[("MODIFIED", "b 14 z beat")], Duration::from_mins(30)),
        ),
        watches("14", events(&[], Duration::from_hours(1))),
    ];
    let cache = Cache::<Beating>::default();
    let changes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&changes);
    cache.listen(move |change| {
        let brief = |beat: &Option<Arc<Beat>>| {
            let beat = beat.as_ref();
            beat.map(|beat| format!("{} {} {}", beat.name, beat.version, beat.content))
        };
        seen.lock().unwrap().push(match change {
            cluster::cache::TableChange::All => (None, None),
            cluster::cache::TableChange::One(before, after) => (brief(before), brief(after)),
        });
    });
    fill(WatchScope::namespace("ns"), calls, &cache).await;
    let change = |before: Option<&str>, after: Option<&str>| {
        (before.map(str::to_owned), after.map(str::to_owned))
    };
    let expected = [
        (None, None),
        change(Some("b 6 y"), Some("b 9 z")),
        change(None, Some("c 11 x")),
        change(Some("c 11 x"), None),
    ];
    assert_eq!(*changes.lock().unwrap(), expected);
    assert_eq!(cache.get("a").unwrap().version, "13");
    assert_eq!(cache.get("b").unwrap().version, "14");
}

/// Where one object shows that the API server has reached the position, nothing is listed.
#[tokio::test(start_paused = true)]
async fn kind_of_many_objects_asks_for_one_of_them_after_an_outage() {
    let page = |version| {
        let list = protobuf::list(version, "", &[b"a 5 x"]);
        let list = Reply::Parts(200, vec![list], Duration::ZERO);
        Call::get(&format!("{PATH}?limit=100"), list)
    };
    let reads = |reply| Call::get(&format!("{PATH}/a?resourceVersion=7"), reply);
    let yet_to_come = || {
        let message = "Too large resource version: 7, current: 6";
        let cause = json!({ "reason": "ResourceVersionTooLarge", "message": "too large" });
        Reply::Object(
            504,
            json!({
                "kind": "Status", "status": "Failure", "code": 504, "reason": "Timeout",
                "message": message, "details": { "causes": [cause], "retryAfterSeconds": 1 }
            }),
        )
    };
    let broken = || watches("7", Reply::Broken);
    let calls = vec![
        page("7"),
        broken(),
        reads(Reply::ok(object("a", "5"))),
        broken(),
        // It was removed meanwhile, which the watch will bring.
        reads(Reply::failure(
            404,
            "NotFound",
            "configmaps \"a\" not found",
        )),
        broken(),
        reads(Reply::failure(503, "ServiceUnavailable", "down")),
        // The responding server is behind the others, and no older state.
        reads(yet_to_come()),
        asks("8"),
        broken(),
        reads(yet_to_come()),
        asks("6"),
        page("6"),
        watches("6", Reply::Parts(200, vec![], Duration::from_hours(1))),
    ];
    fill(
        WatchScope::namespace("ns"),
        calls,
        &Cache::<Beating>::default(),
    )
    .await;
}

/// A kind may be taken from the API server while it is watched.
#[tokio::test(start_paused = true)]
async fn kind_that_is_not_served_any_more_has_no_objects() {
    let unknown = || Reply::failure(404, "NotFound", "the server could not find it");
    let calls = vec![
        lists("7", &[object("a", "1")]),
        watches("7", lasting(&[])),
        watches("7", unknown()),
        Call::get(&format!("{PATH}?limit=100"), unknown()),
        lists("9", &[]),
    ];
    let scope = WatchScope::namespace("ns").optional();
    let (entries, synced) = followed_in(scope, calls, "9").await;
    assert_eq!(entries, []);
    assert_eq!(synced, 3);
}

/// The response to a write of ours may be there before the watch has brought the object.
#[tokio::test(start_paused = true)]
async fn late_heartbeat_does_not_hide_a_write() {
    let list = protobuf::list("7", "", &[b"a 5 x"]);
    let list = Reply::Parts(200, vec![list], Duration::ZERO);
    let frames = ["a 8 x beat", "a 9 own", "a 10 own beat"];
    let frames = frames.map(|object| protobuf::event("MODIFIED", object.as_bytes()));
    let cache = Cache::<Beating>::default();
    let written = cache.clone();
    let watch = watches(
        "7",
        Reply::Parts(200, frames.to_vec(), Duration::from_mins(30)),
    );
    let watch = watch.meanwhile(move || {
        written.refresh(Beat {
            name: "a".to_owned(),
            version: "9".to_owned(),
            content: "own".to_owned(),
        });
    });
    let open = watches("10", Reply::Parts(200, vec![], Duration::from_hours(1)));
    let list = Call::get(&format!("{PATH}?limit=100"), list);
    fill(WatchScope::namespace("ns"), vec![list, watch, open], &cache).await;
    let beat = cache.get("a").unwrap();
    assert_eq!(
        (beat.version.as_str(), beat.content.as_str()),
        ("10", "own")
    );
}

/// Configurations are large, and there are hundreds.
#[tokio::test(start_paused = true)]
async fn kind_of_which_metadata_is_kept_is_asked_for_its_metadata() {
    const LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    const WATCH: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let partial = |name: &str, version: &str| {
        json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": { "name": name, "namespace": "ns", "resourceVersion": version }
        })
    };
    let bookmark = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": { "resourceVersion": "12" }
    });
    let calls = vec![
        lists("7", &[partial("a", "1"), partial("b", "2")]).accepting(LIST),
        watches(
            "7",
            lasting(&[("MODIFIED", partial("a", "9")), ("BOOKMARK", bookmark)]),
        )
        .accepting(WATCH),
        watches("12", Reply::Events(vec![], Duration::from_hours(1))).accepting(WATCH),
    ];
    let cache = Cache::<Heads>::default();
    fill(WatchScope::namespace("ns"), calls, &cache).await;
    let versions: Vec<_> = cache
        .table()
        .values()
        .map(|it| it.as_ref().clone())
        .collect();
    assert_eq!(versions, [entry("a", "9"), entry("b", "2")]);
}
