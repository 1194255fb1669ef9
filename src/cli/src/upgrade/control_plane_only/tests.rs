use apimock::{Call, Reply, Script};
use clap::Parser as _;

use super::*;
use crate::cli::{CommandGroup, SlipwayArgs};

const VERSION_PATH: &str = "/apis/config.openshift.io/v1/clusterversions/version";
const POOLS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const SINCE: &str = "2026-01-02T03:04:05Z";
const BY: &str = "?fieldManager=slipway";

fn arguments(words: &str) -> Result<UpgradeArgs, String> {
    let words = ["slipway", "upgrade", "--control-plane-only"]
        .into_iter()
        .chain(words.split(' ').filter(|word| !word.is_empty()));
    let parsed = SlipwayArgs::try_parse_from(words).map_err(|error| error.to_string())?;
    let CommandGroup::Upgrade(arguments) = parsed.command else {
        panic!("it is another command");
    };
    Ok(*arguments)
}

fn pool(name: &str, is_paused: bool, mark: Option<&str>) -> Value {
    let annotations = mark.map(|mark| json!({ annotation::PAUSED_BY: mark }));
    json!({
        "metadata": { "name": name, "resourceVersion": "5", "generation": 1, "annotations": annotations },
        "spec": { "paused": is_paused },
        "status": { "observedGeneration": 1, "conditions": [{ "type": "Updated", "status": "True" }] }
    })
}

/// A ClusterVersion whose history begins with this version, with this record.
fn version(head: &str, state: &str, record: Option<&str>) -> Value {
    let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "reason": "R", "message": "m" });
    let offers = ["4.17.20", "4.18.9"]
        .map(|version| json!({ "version": version, "image": format!("q/r@sha256:{version}") }));
    json!({
        "metadata": {
            "name": "version", "resourceVersion": "7",
            "annotations": record.map(|record| json!({ CONTROL_PLANE_ONLY: record }))
        },
        "spec": {},
        "status": {
            "history": [{ "version": head, "state": state }], "availableUpdates": offers,
            "conditions": [
                condition("Failing", "False"), condition("Progressing", "False"),
                condition("RetrievedUpdates", "True")
            ]
        }
    })
}

/// What a run reads at each step.
fn observed(version: &Value, pools: &[Value]) -> Vec<Call> {
    let node = json!({
        "metadata": { "name": "w1", "labels": { "node-role.kubernetes.io/worker": "" } },
        "status": { "nodeInfo": {
            "kubeletVersion": "v1.29.1", "architecture": "", "bootID": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "",
            "osImage": "", "systemUUID": ""
        } }
    });
    let list = |items: &[Value]| Reply::ok(json!({ "metadata": {}, "items": items }));
    vec![
        Call::get(VERSION_PATH, Reply::ok(version.clone())),
        Call::get(&format!("{POOLS}?limit=250"), list(pools)),
        Call::get("/api/v1/nodes?limit=250", list(&[node])),
        Call::get("/version", Reply::ok(json!({ "gitVersion": "v1.29.1" }))),
    ]
}

fn change_version(mut change: Value) -> Call {
    change["metadata"]["resourceVersion"] = json!("7");
    Call::patch(&format!("{VERSION_PATH}{BY}"), change, Reply::ok(json!({})))
}

fn change_pool(name: &str, mut change: Value, reply: Reply) -> Call {
    change["metadata"]["resourceVersion"] = json!("5");
    Call::patch(&format!("{POOLS}/{name}{BY}"), change, reply)
}

async fn run_of(words: &str, calls: Vec<Call>) -> anyhow::Result<Ending> {
    let arguments = arguments(words).unwrap();
    let (script, client) = Script::start(calls);
    let access = Access::of_client(client);
    let run = ControlPlaneOnlyRun {
        arguments: &arguments,
        options: &arguments.control_plane_only,
        requests: ClusterRequests { access },
        clock: || SINCE.parse().unwrap(),
    };
    let wish = wish(&arguments)?;
    let work = async {
        match &wish {
            Some(wish) => run.go(wish).await,
            None => run.clear().await,
        }
    };
    script.drive(Box::pin(work)).await
}

fn record() -> String {
    let since = SINCE.parse().unwrap();
    let path = ["4.16.30", "4.17.20", "4.18.9"].map(str::to_owned);
    let pools = ["worker".to_owned()].into();
    ControlPlaneOnlyRecord::new(path, pools, "admin".to_owned(), since).to_annotation()
}

fn paused() -> Value {
    let mark = json!({ annotation::PAUSED_BY: annotation::CONTROL_PLANE_ONLY });
    json!({ "metadata": { "annotations": mark }, "spec": { "paused": true } })
}

fn resumed() -> Value {
    let mark = json!({ annotation::PAUSED_BY: null });
    json!({ "metadata": { "annotations": mark }, "spec": { "paused": false } })
}

fn forgotten() -> Value {
    json!({ "metadata": { "annotations": { CONTROL_PLANE_ONLY: null } } })
}

#[test]
fn options_that_do_not_fit_are_refused_before_the_cluster_is_read() {
    let problem = |words: &str| match arguments(words) {
        Ok(arguments) => wish(&arguments).unwrap_err().to_string(),
        Err(error) => error,
    };
    for (words, expected) in [
        ("", "--control-plane-only takes one of --to and --clear"),
        (
            "--to 4.18.9 --clear",
            "--control-plane-only takes one of --to and --clear",
        ),
        ("--to 4.x", "--to must be a semantic version"),
        ("--to 4.18.9 --force", "cannot be used with"),
        ("--to-latest", "cannot be used with"),
        ("--to 4.18.9 --through 4.17", "is no semantic version"),
        (
            "--to 4.18.9 --through 4.17.1 --upstream u",
            "cannot be used with",
        ),
        ("--to 4.18.9 --wait-secs 0", "0 is not in"),
    ] {
        let error = problem(words);
        assert!(error.contains(expected), "{words}: {error}");
    }
    let alone = [
        "slipway",
        "upgrade",
        "--to",
        "4.18.9",
        "--through",
        "4.17.1",
    ];
    let error = SlipwayArgs::try_parse_from(alone).unwrap_err().to_string();
    assert!(error.contains("--control-plane-only"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_from_the_record_over_the_pause_to_the_request() {
    let record = record();
    let free = [pool("master", false, None), pool("worker", false, None)];
    let marked = [
        pool("master", false, None),
        pool("worker", true, Some(annotation::CONTROL_PLANE_ONLY)),
    ];
    let plain = version("4.16.30", "Completed", None);
    let recorded = version("4.16.30", "Completed", Some(&record));
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"
    });
    let mut requested = recorded.clone();
    requested["spec"]["desiredUpdate"] = json!({ "version": "4.17.20" });
    let update = json!({
        "architecture": "", "version": "4.17.20", "image": "q/r@sha256:4.17.20", "force": false
    });
    let conflict = Reply::failure(409, "Conflict", "it has changed");
    let calls = [
        observed(&plain, &free),
        vec![
            Call::post(
                WHO,
                review,
                Reply::Object(
                    201,
                    json!({ "status": { "userInfo": { "username": "admin" } } }),
                ),
            ),
            change_version(
                json!({ "metadata": { "annotations": { CONTROL_PLANE_ONLY: record } } }),
            ),
        ],
        // Another one changed the pool meanwhile: it is read again.
        observed(&recorded, &free),
        vec![change_pool("worker", paused(), conflict)],
        observed(&recorded, &free),
        vec![change_pool("worker", paused(), Reply::ok(json!({})))],
        observed(&recorded, &marked),
        vec![change_version(
            json!({ "spec": { "desiredUpdate": update } }),
        )],
        observed(&requested, &marked),
    ];
    let words = "--to 4.18.9 --through 4.17.20 --no-wait";
    let ending = run_of(words, calls.concat()).await.unwrap();
    // It is not done, and says so.
    assert_eq!(ending, Ending::NeedsAttention);
}

#[tokio::test(start_paused = true)]
async fn a_later_run_waits_resumes_the_pools_of_the_mark_and_ends() {
    let record = record();
    let own = Some(annotation::CONTROL_PLANE_ONLY);
    let on_the_way = version("4.18.9", "Partial", Some(&record));
    let done = version("4.18.9", "Completed", Some(&record));
    let marked = [pool("worker", true, own), pool("edge", true, None)];
    let free = [pool("worker", false, None), pool("edge", true, None)];
    let mut rolling = free.clone();
    rolling[0]["status"]["conditions"][0]["status"] = json!("False");
    let calls = [
        observed(&on_the_way, &marked),
        observed(&done, &marked),
        vec![change_pool("worker", resumed(), Reply::ok(json!({})))],
        observed(&done, &rolling),
        observed(&done, &free),
        vec![change_version(forgotten())],
        observed(&version("4.18.9", "Completed", None), &free),
    ];
    let ending = run_of("--to 4.18.9", calls.concat()).await.unwrap();
    assert_eq!(ending, Ending::Done);
}

#[tokio::test(start_paused = true)]
async fn an_end_leaves_the_pools_of_others_as_they_are() {
    let record = record();
    let own = Some(annotation::CONTROL_PLANE_ONLY);
    let recorded = version("4.17.20", "Completed", Some(&record));
    let marked = [
        pool("edge", true, None),
        pool("infra", false, own),
        pool("worker", true, own),
    ];
    let free = [pool("edge", true, None), pool("worker", false, None)];
    let mark = json!({ "metadata": { "annotations": { annotation::PAUSED_BY: null } } });
    let calls = [
        observed(&recorded, &marked),
        vec![
            // A person resumed it: it stays as it is.
            change_pool("infra", mark, Reply::ok(json!({}))),
            change_pool("worker", resumed(), Reply::ok(json!({}))),
        ],
        observed(&recorded, &free),
        vec![change_version(forgotten())],
        observed(&version("4.17.20", "Completed", None), &free),
    ];
    let ending = run_of("--clear", calls.concat()).await.unwrap();
    assert_eq!(ending, Ending::Done);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_and_a_refusal_change_nothing() {
    let free = [pool("master", false, None), pool("worker", false, None)];
    let plain = version("4.16.30", "Completed", None);
    let words = "--to 4.18.9 --through 4.17.20 --dry-run";
    let ending = run_of(words, observed(&plain, &free)).await.unwrap();
    assert_eq!(ending, Ending::Done);

    let error = run_of("--to 4.17.20 --through 4.17.20", observed(&plain, &free)).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("that is an ordinary update"), "{error}");
    // It has no channel, and no release between is named.
    let error = run_of("--to 4.18.9", observed(&plain, &free)).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("spec.channel is empty"), "{error}");
    let under_way = version("4.17.20", "Partial", Some(&record()));
    let error = run_of("--clear", observed(&under_way, &free)).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("the update to 4.17.20 is not completed"),
        "{error}"
    );
}
