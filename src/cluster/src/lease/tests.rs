use apimock::{Call, Reply, Script};

use super::*;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/mco/leases/machine-config-controller";
const TIME: &str = "2026-11-21T19:17:00.000000Z";

fn candidacy() -> Candidacy {
    Candidacy {
        namespace: "mco".to_owned(),
        name: "machine-config-controller".to_owned(),
        identity: "me".to_owned(),
        terms: Terms::default(),
    }
}

fn clock() -> Timestamp {
    "2026-11-21T19:17:00Z".parse().unwrap()
}

fn lease(version: &str, holder: &str) -> Reply {
    Reply::ok(json!({
        "metadata": { "resourceVersion": version },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 137, "leaseTransitions": 4 }
    }))
}

fn read(reply: Reply) -> Call {
    Call::get(PATH, reply)
}

fn take(version: &str, reply: Reply) -> Call {
    let spec = json!({
        "holderIdentity": "me", "leaseDurationSeconds": 137, "renewTime": TIME, "acquireTime": TIME, "leaseTransitions": 5
    });
    Call::patch(
        PATH,
        json!({ "metadata": { "resourceVersion": version }, "spec": spec }),
        reply,
    )
}

fn renew(version: &str, reply: Reply) -> Call {
    let spec = json!({ "holderIdentity": "me", "leaseDurationSeconds": 137, "renewTime": TIME });
    Call::patch(
        PATH,
        json!({ "metadata": { "resourceVersion": version }, "spec": spec }),
        reply,
    )
}

fn conflict() -> Reply {
    Reply::failure(409, "Conflict", "the object has been modified")
}

/// Takes the lease and keeps it until it is lost; returns how long the taking took and why it was
/// lost.
async fn run(calls: Vec<Call>) -> (Duration, String) {
    let (script, client) = Script::start(calls);
    let access = Access::of_client(client);
    script
        .drive(async {
            let began = Instant::now();
            let mut held = acquire(&access, candidacy(), clock).await;
            let acquired = began.elapsed();
            let error = held.keep().await;
            (acquired, error.to_string())
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn absent_lease_is_created_and_released() {
    let created = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "machine-config-controller", "namespace": "mco" },
        "spec": {
            "holderIdentity": "me", "leaseDurationSeconds": 137, "renewTime": TIME, "acquireTime": TIME, "leaseTransitions": 0
        }
    });
    let released = json!({
        "metadata": { "resourceVersion": "1" },
        "spec": { "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": TIME }
    });
    let (script, client) = Script::start(vec![
        read(Reply::failure(404, "NotFound", "no")),
        Call::post(
            "/apis/coordination.k8s.io/v1/namespaces/mco/leases",
            created,
            lease("1", "me"),
        ),
        Call::patch(PATH, released, lease("2", "")),
    ]);
    let access = Access::of_client(client);
    script
        .drive(async { acquire(&access, candidacy(), clock).await.release().await })
        .await;
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_taken_at_once() {
    let (waited, why) = run(vec![
        read(lease("7", "")),
        take("7", lease("8", "me")),
        renew("8", conflict()),
        read(lease("9", "you")),
    ])
    .await;
    assert_eq!(waited, Duration::ZERO);
    assert_eq!(why, "lease mco/machine-config-controller was taken by you");
}

#[tokio::test(start_paused = true)]
async fn anothers_lease_is_taken_only_after_it_stood_still_for_its_whole_term() {
    // Renewed once, at the third look; then never again.
    let mut calls = vec![read(lease("7", "you")), read(lease("7", "you"))];
    calls.extend((0..100).map(|_| read(lease("8", "you"))));
    let (script, client) = Script::start(calls);
    let access = Access::of_client(client);
    let acquiring = acquire(&access, candidacy(), clock);
    let waited = tokio::time::timeout(Duration::from_secs(137), acquiring).await;
    assert!(waited.is_err(), "taken before its term was over");
    // Attempts are between 13 and 26 s apart.
    let seen = 102 - script.remaining();
    assert!((5..=11).contains(&seen), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn expired_lease_is_taken() {
    let terms = Terms {
        retry: Duration::from_secs(2000),
        ..Terms::default()
    };
    let (script, client) = Script::start(vec![
        read(lease("7", "you")),
        read(lease("7", "you")),
        take("7", conflict()),
        read(lease("8", "you")),
        read(lease("8", "you")),
        take("8", lease("9", "me")),
    ]);
    let access = Access::of_client(client);
    let candidacy = Candidacy {
        terms,
        ..candidacy()
    };
    script.drive(acquire(&access, candidacy, clock)).await;
}

#[tokio::test(start_paused = true)]
async fn leader_that_cannot_renew_stops_before_its_term_is_over() {
    let mut calls = vec![
        read(lease("7", "")),
        take("7", lease("8", "me")),
        renew("8", lease("9", "me")),
    ];
    calls.extend((0..200).map(|_| renew("9", Reply::Broken)));
    let (script, client) = Script::start(calls);
    let access = Access::of_client(client);
    let mut held = acquire(&access, candidacy(), clock).await;
    let error = held.keep().await;
    assert_eq!(
        error.to_string(),
        "lease mco/machine-config-controller could not be renewed within 107 s"
    );
    assert!(held.renewed.elapsed() < Terms::default().duration);
    assert!(held.renewed.elapsed() > Duration::from_secs(100));
    assert!(script.remaining() > 0);
}

#[tokio::test(start_paused = true)]
async fn conflict_over_our_own_lease_goes_on() {
    let (_, why) = run(vec![
        read(lease("7", "")),
        take("7", lease("8", "me")),
        renew("8", conflict()),
        read(lease("9", "me")),
        renew("9", lease("10", "me")),
        renew("10", conflict()),
        read(lease("11", "")),
    ])
    .await;
    assert_eq!(
        why,
        "lease mco/machine-config-controller was taken by an unnamed holder"
    );
}

#[tokio::test(start_paused = true)]
async fn lease_that_is_older_than_before_ends_the_leadership() {
    let (_, why) = run(vec![
        read(lease("70", "")),
        take("70", lease("80", "me")),
        renew("80", conflict()),
        read(lease("75", "me")),
    ])
    .await;
    assert!(
        why.ends_with("is older than it was: the API server's store was restored"),
        "{why}"
    );
}

/// A process that was frozen goes on with what it was about to do.
#[tokio::test(start_paused = true)]
async fn nothing_is_written_after_the_time_to_renew() {
    let change = json!({ "data": {} });
    let (script, client) = Script::start(vec![
        read(lease("7", "")),
        take("7", lease("8", "me")),
        Call::patch("/x", change.clone(), Reply::ok(json!({}))),
        Call::get("/x", Reply::ok(json!({}))),
    ]);
    let access = Access::of_client(client);
    script
        .drive(async {
            let held = acquire(&access, candidacy(), clock).await;
            let write =
                || access.send::<Value>(Method::PATCH, "/x", RequestBody::MergePatch(&change));
            tokio::time::sleep(Duration::from_secs(106)).await;
            write().await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(matches!(write().await, Err(wire::Error::NotLeading { .. })));
            access.get::<Value>("/x").await.unwrap();
            drop(held);
        })
        .await;
}
