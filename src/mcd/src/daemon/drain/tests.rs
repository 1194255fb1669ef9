//! The traffic of a drain and of giving the node back: cordon, evictions, uncordon, and nothing
//! else.

use std::collections::BTreeMap;

use apimock::{Call, Reply, Script};
use chassis::shutdown::{self, Trigger};
use serde_json::{Value, json};

use super::*;
use crate::daemon::drain_clock;
use crate::daemon::return_to_service::return_to_service;

const NODE: &str = "/api/v1/nodes/n";
const PODS: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn";
const WATCH: &str =
    "/api/v1/pods?fieldSelector=spec.nodeName%3Dn&watch=true&resourceVersion=7&timeoutSeconds=N";
const START: &str = "2026-11-21T19:00:00Z";

fn clock() -> Timestamp {
    START.parse().unwrap()
}

fn node(version: u32, unschedulable: bool, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": "n", "uid": "u", "resourceVersion": version.to_string(), "annotations": annotations},
        "spec": {"unschedulable": unschedulable},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": START}]},
    })
}

fn pod() -> Value {
    json!({"metadata": {"namespace": "shop", "name": "web", "uid": "1"}, "status": {"phase": "Running"}})
}

fn deleted_after(secs: u64) -> Reply {
    let event = json!({"type": "DELETED", "object": pod()});
    Reply::Events(
        vec![(Duration::from_secs(secs), event)],
        Duration::from_hours(1),
    )
}

fn eviction(reply: Reply) -> Call {
    Call::post(
        "/api/v1/namespaces/shop/pods/web/eviction",
        json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": "shop", "name": "web"},
            "deleteOptions": {"preconditions": {"uid": "1"}},
        }),
        reply,
    )
}

fn list(pods: &[Value]) -> Call {
    Call::get(
        PODS,
        Reply::ok(json!({"metadata": {"resourceVersion": "7"}, "items": pods})),
    )
}

fn refused() -> Reply {
    Reply::Object(
        429,
        json!({
            "kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests", "message": "no",
            "details": {"causes": [{
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 5 healthy pods and has 5 currently",
            }]},
        }),
    )
}

fn drained() -> Value {
    json!({
        annotation::CORDONED_BY: "1-0",
        annotation::DRAIN_SINCE: START,
        annotation::DESIRED_DRAIN: "drain-b",
    })
}

struct Set {
    script: Script,
    access: Arc<Access>,
    writer: NodeWriter,
    seen: watch::Sender<ObservedNode>,
    attempt: Attempt,
    host: tempfile::TempDir,
    _running: Trigger,
}

impl Set {
    fn new(first: Value, calls: Vec<Call>) -> Self {
        let (script, client) = Script::start(calls);
        let access = Arc::new(Access::of_client(client));
        let (seen, receiver) = watch::channel(Some(read(first)));
        let (trigger, shutdown) = shutdown::pair();
        let (writer, work) = NodeWriter::new(Arc::clone(&access), "n", receiver, shutdown);
        tokio::spawn(work);
        Self {
            script,
            access,
            writer,
            seen,
            attempt: Attempt("1-0".to_owned()),
            host: drain_clock::fixture::host(),
            _running: trigger,
        }
    }

    fn draining(&self) -> NodeDrain<'_> {
        NodeDrain {
            kubelet: &self.access,
            writer: &self.writer,
            seen: self.seen.subscribe(),
            node: "n",
            own: None,
            attempt: &self.attempt,
            config: "b",
            now: clock,
            clock: drain_clock::fixture::at(&self.host, || Duration::from_hours(9)),
        }
    }

    async fn drain(&self) -> Vec<DrainNotice> {
        let mut notices = Vec::new();
        let draining = self.draining();
        let work = draining.run(|word| notices.push(word));
        self.script.drive(work).await.unwrap();
        notices
    }
}

fn read(object: Value) -> Arc<Node> {
    Arc::new(serde_json::from_value(object).unwrap())
}

fn cordoning(reply: Reply) -> Call {
    Call::patch(
        NODE,
        json!({
            "metadata": {"annotations": {
                annotation::CORDONED_BY: "1-0", annotation::DESIRED_DRAIN: "drain-b", annotation::DRAIN_SINCE: START,
            }, "resourceVersion": "1"},
            "spec": {"unschedulable": true},
        }),
        reply,
    )
}

#[tokio::test(start_paused = true)]
async fn cordons_evicts_and_names_the_budget() {
    let set = Set::new(
        node(1, false, &json!({})),
        vec![
            cordoning(Reply::ok(node(2, true, &drained()))),
            list(&[pod()]),
            Call::get(WATCH, deleted_after(30)),
            eviction(refused()),
            eviction(Reply::created()),
        ],
    );
    let notices = set.drain().await;
    let Some(DrainNotice::Blocked(text)) = notices.first() else {
        panic!("{notices:?}")
    };
    assert!(
        text.starts_with("pod shop/web is protected by PodDisruptionBudget shop/web"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_administrators_cordon_is_not_made_ours() {
    let call = Call::patch(
        NODE,
        json!({"metadata": {"annotations": {annotation::DESIRED_DRAIN: "drain-b", annotation::DRAIN_SINCE: START}}}),
        Reply::ok(node(
            2,
            true,
            &json!({annotation::DESIRED_DRAIN: "drain-b"}),
        )),
    );
    Set::new(node(1, true, &json!({})), vec![call, list(&[])])
        .drain()
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_drain_keeps_its_clock_and_writes_nothing() {
    Set::new(node(5, true, &drained()), vec![list(&[])])
        .drain()
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_whose_node_was_uncordoned_meanwhile_begins_again() {
    let mut before = drained();
    before[annotation::DRAIN_SINCE] = json!("2026-11-21T17:00:00Z");
    let restarted = Call::patch(
        NODE,
        json!({
            "metadata": {"annotations": {annotation::DRAIN_SINCE: START}, "resourceVersion": "5"},
            "spec": {"unschedulable": true},
        }),
        Reply::ok(node(6, true, &drained())),
    );
    let set = Set::new(node(5, false, &before), vec![restarted, list(&[])]);
    assert_eq!(set.drain().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_long_drain_says_so_after_ten_minutes_and_after_an_hour() {
    let mut refusals: Vec<_> = (0..13)
        .map(|_| eviction(Reply::Later(429, 301, json!({"message": "no"}))))
        .collect();
    let mut calls = vec![
        cordoning(Reply::ok(node(2, true, &drained()))),
        list(&[pod()]),
        Call::get(WATCH, Reply::Events(vec![], Duration::from_hours(9))),
    ];
    calls.push(refusals.remove(0));
    // A watch ends after five minutes, and the pods are listed again.
    for refusal in refusals {
        calls.extend([
            list(&[pod()]),
            Call::get(WATCH, Reply::Events(vec![], Duration::from_hours(9))),
        ]);
        calls.push(refusal);
    }
    calls.extend([list(&[])]);
    let set = Set::new(node(1, false, &json!({})), calls);
    let mut notices = BTreeMap::new();
    let began = tokio::time::Instant::now();
    let draining = set.draining();
    let work = draining.run(|word| {
        let minutes = began.elapsed().as_secs() / 60;
        notices.entry(format!("{word:?}")).or_insert(minutes);
    });
    set.script.drive(work).await.unwrap();
    assert_eq!((notices["Slow"], notices["Overdue"]), (10, 60));
}

#[tokio::test(start_paused = true)]
async fn a_node_uncordoned_by_another_is_cordoned_and_drained_again() {
    let set = Set::new(
        node(1, false, &json!({})),
        vec![
            cordoning(Reply::ok(node(2, true, &drained()))),
            list(&[pod()]),
            Call::get(WATCH, deleted_after(30)),
            eviction(Reply::created()),
            Call::patch(
                NODE,
                json!({"metadata": {"resourceVersion": "3"}, "spec": {"unschedulable": true}}),
                Reply::ok(node(4, true, &drained())),
            ),
            list(&[]),
        ],
    );
    let draining = set.draining();
    let work = async {
        let intruder = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            // Seen late, from before the cordon: says nothing.
            set.seen
                .send_replace(Some(read(node(1, false, &json!({})))));
            tokio::time::sleep(Duration::from_secs(5)).await;
            set.seen
                .send_replace(Some(read(node(3, false, &drained()))));
        };
        let (result, ()) = tokio::join!(draining.run(|_| {}), intruder);
        result
    };
    set.script.drive(work).await.unwrap();
}

fn leased(renewed: &str) -> Value {
    let mut annotations = drained();
    let lease = format!("muo {START} {renewed}");
    annotations[annotation::DRAIN_LEASE] = json!(lease);
    annotations
}

#[tokio::test(start_paused = true)]
async fn a_node_that_another_program_drains_is_left_alone_until_its_lease_ends() {
    let evict = || {
        [
            list(&[pod()]),
            Call::get(WATCH, Reply::Events(vec![], Duration::from_hours(9))),
            eviction(Reply::Later(429, 301, json!({"message": "no"}))),
        ]
    };
    let mut calls = evict().to_vec();
    // Given up, not renewed for its length: the pod is evicted again each time.
    calls.extend(evict());
    calls.push(list(&[]));
    let set = Set::new(node(5, true, &drained()), calls);
    let draining = set.draining();
    let mut notices = Vec::new();
    let began = Instant::now();
    let mut resumed = Duration::ZERO;
    let work = async {
        let other = async {
            let see = |version, annotations: &Value| {
                let seen = read(node(version, true, annotations));
                set.seen.send_replace(Some(seen));
            };
            let wait = |secs| tokio::time::sleep(Duration::from_secs(secs));
            wait(20).await;
            see(6, &leased("2026-11-21T19:00:00Z"));
            wait(170).await;
            see(7, &leased("2026-11-21T19:02:50Z"));
            wait(170).await;
            assert_eq!(set.script.remaining(), 4, "two programs drained at once");
            see(8, &drained());
            wait(20).await;
            assert_eq!(set.script.remaining(), 1, "the drain did not go on");
            see(9, &leased("2026-11-21T19:10:00Z"));
            wait(170).await;
            assert_eq!(set.script.remaining(), 1, "two programs drained at once");
        };
        let drain = async {
            let result = draining.run(|word| notices.push(word)).await;
            resumed = began.elapsed();
            result
        };
        tokio::join!(drain, other).0
    };
    set.script.drive(work).await.unwrap();
    assert_eq!(resumed.as_secs(), 20 + 170 + 170 + 20 + 180);
    let text = format!("muo drains this node since {START}");
    assert!(notices.contains(&DrainNotice::Blocked(text)), "{notices:?}");
}

fn uncordoned() -> Call {
    Call::patch(
        NODE,
        json!({
            "metadata": {"annotations": {
                annotation::DESIRED_DRAIN: "uncordon-b", annotation::LAST_APPLIED_DRAIN: "uncordon-b",
                annotation::CORDONED_BY: null, annotation::DRAIN_SINCE: null,
            }, "resourceVersion": "5"},
            "spec": {"unschedulable": null},
        }),
        Reply::ok(node(6, false, &json!({}))),
    )
}

#[tokio::test(start_paused = true)]
async fn uncordons_in_one_patch() {
    let set = Set::new(node(5, true, &drained()), vec![uncordoned()]);
    let seen = set.seen.subscribe();
    let work = return_to_service(&set.writer, &seen, "n", "b", clock(), || None);
    set.script.drive(work).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_has_not_spoken_since_the_boot_is_waited_for() {
    let set = Set::new(node(5, true, &drained()), vec![uncordoned()]);
    let seen = set.seen.subscribe();
    let booted = "2026-11-21T19:10:00Z".parse().unwrap();
    let work = async {
        let kubelet = async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(
                set.script.remaining(),
                1,
                "uncordoned before the kubelet was back"
            );
            let mut now = node(5, true, &drained());
            now["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-21T19:10:05Z");
            set.seen.send_replace(Some(read(now)));
        };
        let (result, ()) = tokio::join!(
            return_to_service(&set.writer, &seen, "n", "b", booted, || None),
            kubelet
        );
        result
    };
    set.script.drive(work).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_stays_away_is_said() {
    let set = Set::new(node(5, true, &drained()), vec![]);
    let seen = set.seen.subscribe();
    let booted = "2026-11-21T19:10:00Z".parse().unwrap();
    let work = return_to_service(&set.writer, &seen, "n", "b", booted, || None);
    let error = set.script.drive(work).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("failed to uncordon node: n after 10 minutes"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_neither_ends_nor_restarts_the_patience_of_a_drain() {
    // Since a day before and a day after this by the time of day; an hour ago by the other clock.
    for since in ["2026-11-20T19:00:00Z", "2026-11-22T19:00:00Z"] {
        let mut annotations = drained();
        annotations[annotation::DRAIN_SINCE] = json!(since);
        let calls = || {
            vec![
                list(&[pod()]),
                Call::get(WATCH, deleted_after(30)),
                eviction(Reply::created()),
            ]
        };
        let set = Set::new(node(5, true, &annotations), calls());
        let is_late = |notices: &[DrainNotice]| notices.contains(&DrainNotice::Overdue);
        assert!(!is_late(&set.drain().await), "{since}");
        // The daemon is restarted, 61 minutes later.
        let mut again = Set::new(node(5, true, &annotations), calls());
        again.host = set.host;
        let mut draining = again.draining();
        draining.clock = drain_clock::fixture::at(&again.host, || Duration::from_mins(601));
        let mut notices = Vec::new();
        let work = draining.run(|word| notices.push(word));
        again.script.drive(work).await.unwrap();
        assert!(is_late(&notices), "{since}");
    }
}
