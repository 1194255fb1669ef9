use apimock::{Call, Reply, Script};
use chassis::shutdown;

use super::*;

const PATH: &str = "/api/v1/nodes/n";

fn node(version: u32, annotations: &Value, unschedulable: bool) -> Value {
    json!({
        "metadata": {"name": "n", "uid": "u", "resourceVersion": version.to_string(), "annotations": annotations},
        "spec": {"unschedulable": unschedulable},
    })
}

fn read(object: Value) -> Arc<Node> {
    Arc::new(serde_json::from_value(object).unwrap())
}

struct Set {
    script: Script,
    writer: NodeWriter,
    seen: watch::Sender<ObservedNode>,
    _running: shutdown::Trigger,
}

fn set(first: Value, calls: Vec<Call>) -> Set {
    let (script, client) = Script::start(calls);
    let (seen, receiver) = watch::channel(Some(read(first)));
    let (trigger, shutdown) = shutdown::pair();
    let access = Arc::new(Access::of_client(client));
    let (writer, work) = NodeWriter::new(access, "n", receiver, shutdown);
    tokio::spawn(work);
    Set {
        script,
        writer,
        seen,
        _running: trigger,
    }
}

fn working() -> Change {
    Change::default().set("state", "Working")
}

#[tokio::test(start_paused = true)]
async fn what_is_so_already_is_not_sent() {
    let set = set(node(1, &json!({"state": "Working"}), true), vec![]);
    let write = set
        .writer
        .write(|_| working().unschedulable(true).remove("gone"));
    set.script.drive(write).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_the_difference_is_sent() {
    let call = Call::patch(
        PATH,
        json!({
            "metadata": {"annotations": {"state": "Done", "old": null}, "resourceVersion": "1"},
            "spec": {"unschedulable": null},
        }),
        Reply::ok(node(2, &json!({"state": "Done", "other": "x"}), false)),
    );
    let before = json!({"state": "Working", "old": "1", "other": "x"});
    let set = set(node(1, &before, true), vec![call]);
    let write = set.writer.write(|_| {
        Change::default()
            .set("state", "Done")
            .set("other", "x")
            .remove("old")
            .unschedulable(false)
    });
    set.script.drive(write).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_decided_together_is_one_patch() {
    let call = Call::patch(
        PATH,
        json!({
            "metadata": {"annotations": {"state": "Working", "drain": "drain-b"}, "resourceVersion": "1"},
            "spec": {"unschedulable": true},
        }),
        Reply::ok(node(
            2,
            &json!({"state": "Working", "drain": "drain-b"}),
            true,
        )),
    );
    let set = set(node(1, &json!({}), false), vec![call]);
    let cordon = |node: &Node| {
        assert!(!node.unschedulable);
        Change::default()
            .set("drain", "drain-b")
            .unschedulable(true)
    };
    let both = async { tokio::join!(set.writer.write(|_| working()), set.writer.write(cordon)) };
    let (first, second) = set.script.drive(both).await;
    first.unwrap();
    second.unwrap();
}

#[tokio::test(start_paused = true)]
async fn our_own_patch_is_known_before_the_watch_delivers_it() {
    let call = Call::patch(
        PATH,
        json!({"metadata": {"annotations": {"state": "Working"}}}),
        Reply::ok(node(2, &json!({"state": "Working"}), false)),
    );
    let back = Call::patch(
        PATH,
        json!({"metadata": {"annotations": {"state": "Done"}}}),
        Reply::ok(node(4, &json!({"state": "Done"}), false)),
    );
    let set = set(node(1, &json!({"state": "Done"}), false), vec![call, back]);
    let work = async {
        set.writer.write(|_| working()).await.unwrap();
        // The watch is still at version 1.
        set.writer.write(|_| working()).await.unwrap();
        // Another writer wrote since: that counts, though we never wrote it.
        set.seen
            .send_replace(Some(read(node(3, &json!({"state": "x"}), false))));
        set.writer
            .write(|_| Change::default().set("state", "Done"))
            .await
            .unwrap();
    };
    set.script.drive(work).await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_and_outages_are_retried_and_refusals_are_not() {
    let patch = |reply| {
        Call::patch(
            PATH,
            json!({"metadata": {"annotations": {"state": "Working"}}}),
            reply,
        )
    };
    let set = set(
        node(1, &json!({}), false),
        vec![
            patch(Reply::failure(
                409,
                "Conflict",
                "the object has been modified",
            )),
            Call::get(PATH, Reply::ok(node(2, &json!({}), false))),
            patch(Reply::Broken),
            patch(Reply::failure(
                503,
                "ServiceUnavailable",
                "etcd has no leader",
            )),
            patch(Reply::failure(
                403,
                "Forbidden",
                "node \"n\" is not allowed to modify taints",
            )),
        ],
    );
    let error = set
        .script
        .drive(set.writer.write(|_| working()))
        .await
        .unwrap_err();
    let text = chassis::report::Chain(&error).to_string();
    assert!(
        text.starts_with("cannot patch node n: PATCH /api/v1/nodes/n: 403 Forbidden"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_that_no_caller_waits_for_is_withdrawn() {
    let patch = |annotations: Value, reply| {
        Call::patch(
            PATH,
            json!({"metadata": {"annotations": annotations}}),
            reply,
        )
    };
    let set = set(
        node(1, &json!({}), false),
        vec![
            Call::patch(
                PATH,
                json!({"metadata": {"resourceVersion": "1"}, "spec": {"unschedulable": true}}),
                Reply::Broken,
            ),
            patch(
                json!({"state": "Working"}),
                Reply::ok(node(2, &json!({"state": "Working"}), false)),
            ),
        ],
    );
    let work = async {
        let cordon = set.writer.write(|_| Change::default().unschedulable(true));
        let waited = tokio::time::timeout(Duration::from_millis(100), cordon).await;
        assert!(waited.is_err(), "the API server is out of reach");
        set.writer.write(|_| working()).await.unwrap();
    };
    set.script.drive(work).await;
}

/// An administrator cordons, and the watch has not delivered it yet.
#[tokio::test(start_paused = true)]
async fn a_cordon_that_the_watch_does_not_show_yet_stays_whose_it_is() {
    let cordon = |annotations: Value, version: &str, reply| {
        let patch = json!({
            "metadata": {"annotations": annotations, "resourceVersion": version}, "spec": {"unschedulable": true}
        });
        Call::patch(PATH, patch, reply)
    };
    let calls = vec![
        cordon(
            json!({"cordoned-by": "us"}),
            "1",
            Reply::failure(409, "Conflict", "the object has been modified"),
        ),
        Call::get(PATH, Reply::ok(node(2, &json!({}), true))),
    ];
    let set = set(node(1, &json!({}), false), calls);
    let write = set.writer.write(|node| {
        if node.unschedulable {
            return Change::default();
        }
        Change::default()
            .set("cordoned-by", "us")
            .unschedulable(true)
    });
    let after = set.script.drive(write).await.unwrap();
    assert_eq!(after.resource_version, "2");
    assert!(!after.annotations.contains_key("cordoned-by"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_the_node_is_known() {
    let call = Call::patch(
        PATH,
        json!({"metadata": {"annotations": {"state": "Working"}}}),
        Reply::ok(node(2, &json!({"state": "Working"}), false)),
    );
    let set = set(node(1, &json!({}), false), vec![call]);
    set.seen.send_replace(None);
    let work = async {
        let write = set.writer.write(|_| working());
        let appear = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(set.script.remaining(), 1);
            set.seen
                .send_replace(Some(read(node(1, &json!({}), false))));
        };
        let (written, ()) = tokio::join!(write, appear);
        written.unwrap();
    };
    set.script.drive(work).await;
}
