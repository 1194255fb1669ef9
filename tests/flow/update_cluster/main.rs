//! A cluster is updated to another release of the lab's registry: it is verified by signatures,
//! pulled by digest, checked, and applied; what is bad ends in a condition, and the running release
//! goes on being reconciled.
//!
//! - `release`: releases, keys, and the server of signatures
//! - `env`: the cluster
//! - `beside`: signatures beside an image, at its mirror
//! - `preflight`: a release is checked without a change
//! - `administrator`: the update is offered by the update service and requested by `slipway`
//! - `risks`: what the cluster itself knows against an update
//! - `rollback`: the way back over a minor version
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "helpers of tests, and their own files"
)]

mod administrator;
mod beside;
mod env;
mod preflight;
mod release;
mod risks;
mod rollback;

use anyhow::Result;
use serde_json::{Value, json};

use crate::env::{Cluster, IMAGE, VERSION};
use testbed::ReleaseKey;

/// A release, its files changed, and how it is refused.
struct Bad {
    name: &'static str,
    version: &'static str,
    change: fn(&mut release::ReleaseTree),
    expected: &'static [&'static str],
}

const BAD: [Bad; 5] = [
    Bad {
        name: "unparsable",
        version: "4.2.1",
        change: |files| {
            let file = "release-manifests/0000_50_alpha_06_bad.yaml";
            files.insert(file.to_owned(), "a: b: c".to_owned());
        },
        expected: &[
            "False LoadPayload: Loading payload failed",
            "0000_50_alpha_06_bad.yaml",
            "line 1",
        ],
    },
    Bad {
        name: "deletion",
        version: "4.2.1",
        change: |files| {
            let config = files["release-manifests/0000_50_alpha_05_config.json"].clone();
            let unclear = config.replace(
                "\"annotations\":{",
                "\"annotations\":{\"release.openshift.io/delete\":\"yes\",",
            );
            files.insert(
                "release-manifests/0000_60_alpha_05_unclear.json".to_owned(),
                unclear,
            );
        },
        expected: &[
            "False LoadPayload",
            "0000_60_alpha_05_unclear.json",
            "invalid delete annotation",
        ],
    },
    Bad {
        name: "incomplete",
        version: "4.2.1",
        change: |files| {
            files.remove("release-manifests/image-references");
        },
        expected: &[
            "False RetrievePayload",
            "Unable to download and prepare",
            "is no release image",
        ],
    },
    Bad {
        name: "mismatch",
        version: "4.2.2",
        change: |_| {},
        expected: &[
            "False VerifyPayloadVersion",
            "4.2.1 does not match the expected upstream version 4.2.2",
        ],
    },
    Bad {
        name: "downgrade",
        version: "",
        change: |files| {
            for text in files.values_mut() {
                *text = text.replace("4.2.1", "4.1.9");
            }
        },
        expected: &[
            "False PreconditionChecks",
            "LowDesiredVersion",
            "4.1.9 is less than the current target 4.2.0",
        ],
    },
];

/// The message names each store that was read, and the release that runs says whose signatures
/// count, whenever the process started. Rows 13 and 20 of `docs/reference/known-weaknesses.md`,
/// "Version operator".
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, docker-registry and the control-plane binary"]
async fn signed_release_is_pulled_applied_and_completed() -> Result<()> {
    let mut cluster = Cluster::start("signed").await?;
    cluster.arguments = vec![
        "--retrieval=pull".to_owned(),
        "--insecure-registries".to_owned(),
    ];
    let process = cluster.settle().await?;
    let files = cluster.release("4.3.0")?;
    let (image, digest) = cluster.push("next", &files).await?;

    refused_until_signed(&cluster, &image, &digest).await?;

    // Signed: an administrator has not acknowledged what the next minor release needs.
    cluster.server.put(&digest, cluster.key.sign(&digest)?);
    let message = cluster
        .until_condition("ReleaseAccepted", "PreconditionChecks")
        .await?;
    assert!(
        message.contains("Read https://example.com/apis first."),
        "{message}"
    );
    cluster.until_condition("Upgradeable", "False").await?;
    cluster.until_reconciled(VERSION).await?;
    cluster.acknowledge()?;

    // The version operator's own Deployment comes first. The old program once more, as after a
    // crash before its pod was replaced: it accepts the release again, and puts nothing of its own
    // back.
    cluster.until_own_image(&image).await?;
    drop(process);
    let before = cluster.events()?.len();
    let process = cluster.run(IMAGE, &cluster.payload())?;
    cluster.until_logged("accepted a release", 1).await?;
    cluster.until_logged("applying the release", 2).await?;
    let events = cluster.events()?;
    let images = events.iter().skip(before).filter_map(|event| {
        let is_own = event.user_agent.starts_with("cvo/") && event.concerns("apps", "deployments");
        let body = event.request.as_ref().filter(|_| is_own)?;
        body.pointer("/spec/template/spec/containers/0/image")
            .cloned()
    });
    let images: Vec<serde_json::Value> = images.collect();
    assert!(images.iter().all(|found| *found == image), "{images:?}");

    // The next one's process goes on.
    cluster.roll_out(&image).await?;
    let message = cluster
        .until_condition("Progressing", "Working towards 4.3.0")
        .await?;
    assert!(message.starts_with("True"), "{message}");
    drop(process);
    let root = std::fs::read_dir(cluster.payloads())?
        .next()
        .unwrap()?
        .path();
    let process = cluster.run(&image, &root)?;
    cluster
        .until_condition("Progressing", "waiting on alpha")
        .await?;
    cluster.report("4.3.0").await?;
    cluster
        .until_condition("Progressing", "Cluster version is 4.3.0")
        .await?;
    let status = cluster.status().await?;
    let history: Vec<String> = status
        .history
        .iter()
        .map(|one| {
            format!(
                "{} {} {} {}",
                one.version, one.state, one.verified, one.image
            )
        })
        .collect();
    let expected = [
        format!("4.3.0 Completed true {image}"),
        format!("{VERSION} Completed false {IMAGE}"),
    ];
    assert_eq!(history, expected);
    assert_eq!(status.desired.url, "https://example.com/4.3.0");
    // What spoke against it, and did not block, stays over the restart.
    let risks = &status.history[0].accepted_risks;
    assert!(risks.contains("ClusterVersionRecommendedUpdate"), "{risks}");
    drop(process);
    Ok(())
}

/// Not signed, signed by a stranger, by a key that had expired, about another image: each is
/// reported.
async fn refused_until_signed(
    cluster: &Cluster,
    image: &str,
    digest: &::release::ImageDigest,
) -> Result<()> {
    let request = json!({ "version": "4.3.0", "image": image });
    cluster.ask(request).await?;
    let refused = "False RetrievePayload: Retrieving payload failed version=\"4.3.0\"";
    let message = cluster
        .until_condition("ReleaseAccepted", "The update cannot be verified")
        .await?;
    assert!(
        message.starts_with(refused) && message.contains("there is no signature"),
        "{message}"
    );
    assert!(
        message.contains(&format!("store {}: 0 signatures", cluster.server.address)),
        "{message}"
    );
    cluster
        .server
        .put(digest, ReleaseKey::make()?.sign(digest)?);
    cluster
        .until_condition(
            "ReleaseAccepted",
            "no key of keyring verifier-public-key-test signed it",
        )
        .await?;
    cluster.server.put(digest, cluster.expired.sign(digest)?);
    cluster
        .until_condition("ReleaseAccepted", "the key had expired by then")
        .await?;
    let other = ::release::ImageDigest::of(b"other");
    cluster.server.put(digest, cluster.key.sign(&other)?);
    cluster
        .until_condition("ReleaseAccepted", "it is about")
        .await?;
    cluster
        .until_condition("Progressing", "Cluster version is 4.2.0")
        .await?;
    cluster.until_reconciled(VERSION).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, docker-registry and the control-plane binary"]
async fn bad_release_is_refused_and_the_running_one_stays() -> Result<()> {
    let mut cluster = Cluster::start("bad").await?;
    cluster.arguments = vec![
        "--retrieval=pull".to_owned(),
        "--insecure-registries".to_owned(),
    ];
    let process = cluster.settle().await?;
    for bad in BAD {
        let mut files = cluster.release("4.2.1")?;
        (bad.change)(&mut files);
        let image = cluster.push_signed(bad.name, &files).await?;
        cluster
            .ask(json!({ "version": bad.version, "image": image }))
            .await?;
        let last = bad.expected[bad.expected.len() - 1];
        let message = cluster.until_condition("ReleaseAccepted", last).await?;
        for expected in bad.expected {
            assert!(message.contains(expected), "{}: {message}", bad.name);
        }
        cluster.until_reconciled(VERSION).await?;
    }
    // A layer that is not what its digest names.
    let mut files = cluster.release("4.2.1")?;
    files.insert("release-manifests/unique.txt".to_owned(), "x".to_owned());
    let image = cluster.push_signed("corrupt", &files).await?;
    let layer = cluster.corrupt_layer(&image)?;
    cluster
        .ask(json!({ "version": "4.2.1", "image": image }))
        .await?;
    let message = cluster.until_condition("ReleaseAccepted", &layer).await?;
    assert!(
        message.starts_with("False RetrievePayload")
            && message.contains("Unable to download and prepare the update"),
        "{message}"
    );
    cluster.until_reconciled(VERSION).await?;
    // Signed, and not in the registry.
    let missing = ::release::ImageDigest::of(b"missing");
    cluster.server.put(&missing, cluster.key.sign(&missing)?);
    let (place, _) = cluster.push("place", &cluster.release("4.2.1")?).await?;
    let place = place.split('@').next().unwrap().to_owned();
    cluster
        .ask(json!({ "image": format!("{place}@{missing}") }))
        .await?;
    cluster
        .until_condition("ReleaseAccepted", "is not there")
        .await?;
    // By tag.
    cluster
        .ask(json!({ "image": format!("{place}:latest") }))
        .await?;
    cluster
        .until_condition(
            "ReleaseAccepted",
            "not accessed via digest cannot be verified",
        )
        .await?;
    // A version that is not available.
    cluster.ask(json!({ "version": "4.9.0" })).await?;
    cluster
        .until_condition("Invalid", "the update must be an available update")
        .await?;
    cluster.until_reconciled(VERSION).await?;
    cluster.ask(Value::Null).await?;
    cluster
        .until_condition("ReleaseAccepted", "True PayloadLoaded")
        .await?;
    let versions: Vec<String> = cluster
        .status()
        .await?
        .history
        .into_iter()
        .map(|one| one.version)
        .collect();
    assert_eq!(versions, [VERSION]);
    drop(process);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, docker-registry and the control-plane binary"]
async fn forced_release_is_applied_and_its_risks_are_recorded() -> Result<()> {
    let cluster = Cluster::start("forced").await?;
    let process = cluster.settle().await?;
    // Retrieved by the Job; the test is the kubelet.
    let files = cluster.release("4.2.1")?;
    let (image, _) = cluster.push("next", &files).await?;
    cluster
        .ask(json!({ "version": "4.2.1", "image": image, "force": true }))
        .await?;
    let (name, root) = cluster.job().await?;
    assert!(name.starts_with("version-4.2.1-"), "{name}");
    cluster
        .until_condition("ReleaseAccepted", "Unknown RetrievePayload")
        .await?;
    release::write(&files, &root)?;
    cluster.complete(&name).await?;
    cluster.roll_out(&image).await?;
    cluster
        .until_condition("Progressing", "waiting on alpha")
        .await?;
    cluster.report("4.2.1").await?;
    cluster
        .until_condition("Progressing", "Cluster version is 4.2.1")
        .await?;
    let head = cluster.status().await?.history[0].clone();
    assert!(!head.verified);
    assert!(
        head.accepted_risks
            .starts_with("Target release version=\"4.2.1\"")
            && head
                .accepted_risks
                .contains("cannot be verified, but continuing anyway"),
        "{}",
        head.accepted_risks
    );
    // Withdrawn: the release that this process belongs to is applied again.
    let none = json!({ "spec": { "desiredUpdate": null } });
    cluster.change(&none).await?;
    cluster.until_condition("Progressing", "4.2.0").await?;
    drop(process);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, docker-registry and the control-plane binary"]
async fn updates_are_offered_with_their_risks_and_stay_while_the_service_is_away() -> Result<()> {
    let mut cluster = Cluster::start("advice").await?;
    let server = cluster.server.clone();
    cluster.arguments = vec![
        "--retrieval=pull".to_owned(),
        "--insecure-registries".to_owned(),
        format!("--promql-url={}", server.at("")),
    ];
    let image = cluster
        .push_signed("next", &cluster.release("4.2.1")?)
        .await?;
    let node = |version: &str, image: &str| json!({ "version": version, "payload": image });
    let risk = |name: &str, rules: Value| {
        json!({ "url": "https://example.com", "name": name, "message": "It breaks.",
                "matchingRules": rules })
    };
    let promql = json!([{ "type": "PromQL", "promql": { "promql": "up" } }]);
    let edge = |to: &str, risk: Value| json!({ "edges": [{ "from": VERSION, "to": to }], "risks": [risk] });
    let graph = json!({
        "nodes": [node(VERSION, IMAGE), node("4.2.1", &image), node("4.2.2", "q/r@sha256:2"),
                  node("4.2.3", "q/r@sha256:3")],
        "edges": [[0, 1]],
        "conditionalEdges": [
            edge("4.2.2", risk("Everywhere", json!([{ "type": "Always" }]))),
            edge("4.2.3", risk("Here", promql)),
        ],
    });
    let sample = |value: &str| {
        let result = json!([{ "metric": {}, "value": [1, value] }]);
        json!({ "status": "success", "data": { "resultType": "vector", "result": result } })
    };
    server.serve("/graph", Some(&graph));
    // With a store away the result would be "does not apply".
    let mut partial = sample("0");
    partial["warnings"] = json!(["store 10.0.0.7:10901 is away"]);
    server.serve("/api/v1/query", Some(&partial));
    let process = cluster.settle().await?;
    cluster
        .until_condition("RetrievedUpdates", "False NoChannel")
        .await?;
    let spec = json!({ "spec": { "channel": "stable-4.2", "upstream": server.at("/graph") } });
    cluster.change(&spec).await?;
    cluster.until_condition("RetrievedUpdates", "True").await?;
    cluster
        .until_offered(
            "4.2.1",
            "4.2.3 Unknown EvaluationFailed, 4.2.2 False Everywhere",
        )
        .await?;

    // The service goes away: its advice stays, with its age.
    server.serve("/graph", None);
    let message = cluster
        .until_condition("RetrievedUpdates", "ResponseFailed")
        .await?;
    assert!(
        message.contains("404") && message.contains("which is less than 1 h old"),
        "{message}"
    );
    cluster
        .until_offered(
            "4.2.1",
            "4.2.3 Unknown EvaluationFailed, 4.2.2 False Everywhere",
        )
        .await?;
    // So it does over a restart.
    drop(process);
    server.serve("/api/v1/query", Some(&sample("0")));
    let payload = cluster.payload();
    let process = cluster.run(IMAGE, &payload)?;
    cluster.until_condition("RetrievedUpdates", "False ResponseFailed: Unable to retrieve available updates: unexpected HTTP status: 404 Not Found").await?;
    assert_eq!(cluster.status().await?.conditional_updates.len(), 2);
    server.serve("/graph", Some(&graph));
    let without = "4.2.3 True NotExposedToRisks, 4.2.2 False Everywhere";
    cluster.until_offered("4.2.3, 4.2.1", without).await?;

    // A version that is offered needs no image.
    cluster.ask(json!({ "version": "4.2.1" })).await?;
    cluster.roll_out(&image).await?;
    drop(process);
    Ok(())
}
