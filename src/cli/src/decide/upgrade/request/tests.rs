use super::*;
use crate::decide::object::ClusterObject;

/// A cluster at 4.1.0 with 4.1.1 and 4.1.2, and 4.2.0 unless a risk applies.
fn cluster() -> ClusterObject {
    let release = |version: &str, digest: &str| json!({"version": version, "image": format!("quay.example/ocp@sha256:{digest}")});
    ClusterObject(json!({
        "spec": {"channel": "fast-4.1"},
        "status": {
            "desired": {"version": "4.1.0", "image": "quay.example/ocp@sha256:0", "channels": ["fast-4.1", "stable-4.1"]},
            "history": [
                {"state": "Completed", "version": "4.1.0", "image": "quay.example/ocp@sha256:0"},
                {"state": "Completed", "version": "4.0.9", "image": "quay.example/ocp@sha256:9"},
            ],
            "availableUpdates": [release("4.1.1", "1"), release("4.1.2", "2")],
            "conditionalUpdates": [{
                "release": release("4.2.0", "3"),
                "conditions": [{"type": "Recommended", "status": "False", "reason": "ToyRisk", "message": "It breaks.\nReally."}]
            }],
            "conditions": [
                {"type": "Progressing", "status": "False", "reason": "", "message": "Cluster version is 4.1.0"},
                {"type": "Failing", "status": "False"},
                {"type": "RetrievedUpdates", "status": "True"}
            ]
        }
    }))
}

fn set(cluster: &mut ClusterObject, kind: &str, status: &str) {
    let conditions = cluster.0["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|condition| condition["type"] != kind);
    conditions.push(json!({"type": kind, "status": status, "reason": "R", "message": "M"}));
}

fn to(version: &str) -> UpgradeWish {
    UpgradeWish {
        to: Some(version.to_owned()),
        ..UpgradeWish::default()
    }
}

fn to_image(image: &str) -> UpgradeWish {
    UpgradeWish {
        to_image: Some(image.to_owned()),
        ..UpgradeWish::default()
    }
}

fn decide(wish: &UpgradeWish, cluster: &ClusterObject) -> Result<UpgradeDecision, UpdateRefused> {
    wish.decide(VersionView(cluster))
        .map_err(|refusal| refusal.why)
}

fn update(decision: &UpgradeDecision) -> (String, String) {
    let update = &decision.patch.as_ref().unwrap()["spec"]["desiredUpdate"];
    let text = |key: &str| update[key].as_str().unwrap().to_owned();
    (text("version"), text("image"))
}

#[test]
fn options_that_contradict_each_other_are_refused_before_any_request() {
    let with = |wish: UpgradeWish, change: fn(&mut UpgradeWish)| {
        let mut wish = wish;
        change(&mut wish);
        wish.check().unwrap_err().to_string()
    };
    for (error, expected) in [
        (
            with(to("4.1.1"), |wish| wish.clear = true),
            "--clear may not be specified",
        ),
        (
            with(to("4.1.1"), |wish| wish.to_multi_arch = true),
            "--to-multi-arch may not be used",
        ),
        (
            with(to("4.1.1"), |wish| wish.to_image = Some("a".into())),
            "only one of --to or --to-image",
        ),
        (
            with(to("4.1.1"), |wish| wish.to_latest = true),
            "--to-latest may not be used",
        ),
        (
            with(to("4.1"), |_| ()),
            "--to must be a semantic version (e.g. 4.0.1 or 4.1.0-nightly-20181104): ",
        ),
        (
            with(to_image("ocp"), |_| ()),
            "--to-image must be a valid image pull spec: no registry",
        ),
        (
            with(to_image("quay.example/ocp"), |_| ()),
            "--to-image must be a valid image pull spec: you must specify",
        ),
        (
            with(to_image("quay.example/ocp:4"), |_| ()),
            "not accessed via digest cannot be verified by the cluster",
        ),
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let mut forced = to_image("quay.example/ocp:4");
    forced.force = true;
    assert_eq!(forced.check().unwrap().len(), 2);
}

#[test]
fn the_target_is_found_by_version_image_or_digest() {
    let cluster = cluster();
    let first = decide(&to("4.1.1"), &cluster).unwrap();
    assert_eq!(first.message, "Requested update to 4.1.1\n");
    assert_eq!(
        first.patch.unwrap(),
        json!({"spec": {"desiredUpdate": {
            "architecture": "", "version": "4.1.1", "image": "quay.example/ocp@sha256:1", "force": false
        }}})
    );
    // The text of the user is kept: a mirror has the same digest.
    let digest = "1".repeat(64);
    let mut mirrored = cluster.clone();
    mirrored.0["status"]["availableUpdates"][0]["image"] =
        format!("quay.example/ocp@sha256:{digest}").into();
    let image = format!("mirror.example/ocp@sha256:{digest}");
    let found = decide(&to_image(&image), &mirrored).unwrap();
    assert_eq!(update(&found), ("4.1.1".to_owned(), image));
    let latest = UpgradeWish {
        to_latest: true,
        ..UpgradeWish::default()
    };
    assert_eq!(update(&decide(&latest, &cluster).unwrap()).0, "4.1.2");
    let latest = UpgradeWish {
        allow_not_recommended: true,
        ..latest
    };
    let decision = decide(&latest, &cluster).unwrap();
    assert_eq!(update(&decision).0, "4.2.0");
    assert!(
        decision.warnings[0].contains("bypassed Recommended=False ToyRisk"),
        "{decision:?}"
    );
}

#[test]
fn what_is_there_already_is_no_request() {
    let decision = decide(&to("4.1.0"), &cluster()).unwrap();
    assert_eq!(
        (decision.patch, decision.message.as_str()),
        (None, "info: Cluster is already at version 4.1.0\n")
    );
    let mut last = cluster();
    last.0["status"]["availableUpdates"] = json!([]);
    let latest = UpgradeWish {
        to_latest: true,
        ..UpgradeWish::default()
    };
    let decision = decide(&latest, &last).unwrap();
    assert_eq!(
        decision.message,
        "info: Cluster is already at the latest available version 4.1.0\n"
    );
}

#[test]
fn a_target_that_is_none_is_refused_with_what_there_is() {
    let cluster = cluster();
    assert_eq!(
        decide(&to("4.2.0"), &cluster).unwrap_err().to_string(),
        "the update 4.2.0 is not one of the recommended updates, but is available as a conditional update. To accept the Recommended=False risk and to proceed with update use --allow-not-recommended.\n  Reason: ToyRisk\n  Message: It breaks.\n  Really.\n"
    );
    assert_eq!(
        decide(&to("4.9.0"), &cluster).unwrap_err().to_string(),
        "the update is not one of the possible targets: 4.1.2, 4.1.1. specify --to-image to continue with the update."
    );
    let image = format!("quay.example/ocp@sha256:{}", "f".repeat(64));
    let mut wish = to_image(&image);
    assert!(
        decide(&wish, &cluster)
            .unwrap_err()
            .to_string()
            .contains("specify --allow-explicit-upgrade")
    );
    wish.allow_explicit_upgrade = true;
    let decision = decide(&wish, &cluster).unwrap();
    assert_eq!(update(&decision), (String::new(), image.clone()));
    assert_eq!(
        decision.message,
        format!("Requested update to release image {image}\n")
    );
    let mut none = cluster;
    none.0["status"]["availableUpdates"] = json!([]);
    assert!(
        decide(&to("4.9.0"), &none)
            .unwrap_err()
            .to_string()
            .starts_with("no recommended updates, specify")
    );
    set(&mut none, "RetrievedUpdates", "False");
    assert!(
        decide(&to("4.9.0"), &none)
            .unwrap_err()
            .to_string()
            .starts_with("cannot refresh available updates:\n  Reason: R\n")
    );
}

#[test]
fn all_states_that_speak_against_it_are_listed() {
    let mut bad = cluster();
    for kind in ["Invalid", "Failing", "Progressing"] {
        set(&mut bad, kind, "True");
    }
    assert_eq!(
        decide(&to("4.1.1"), &bad).unwrap_err().to_string(),
        "the cluster version object is invalid, you must correct the invalid state first:\n\n  Reason: R\n  Message: M\n\n\
         the cluster is experiencing an error reconciling \"4.1.0\":\n\n  Reason: R\n  Message: M\n\n\
         the cluster is already upgrading:\n\n  Reason: R\n  Message: M\n\n\
         If you want to upgrade anyway, use --allow-upgrade-with-warnings."
    );
    let mut wish = to("4.1.1");
    wish.allow_upgrade_with_warnings = true;
    assert_eq!(decide(&wish, &bad).unwrap().warnings.len(), 3);
}

#[test]
fn a_request_is_cleared_and_accepted_risks_stay() {
    let clear = UpgradeWish {
        clear: true,
        ..UpgradeWish::default()
    };
    assert_eq!(
        decide(&clear, &cluster()).unwrap().message,
        "info: No update in progress\n"
    );
    let mut requested = cluster();
    requested.0["spec"]["desiredUpdate"] = json!({"version": "4.1.1", "image": ""});
    let decision = decide(&clear, &requested).unwrap();
    assert_eq!(decision.message, "Cancelled requested upgrade to 4.1.1\n");
    assert_eq!(
        decision.patch.unwrap(),
        json!({"spec": {"desiredUpdate": null}})
    );
    requested.0["spec"]["desiredUpdate"] =
        json!({"version": "4.1.0", "acceptRisks": [{"name": "A"}]});
    let decision = decide(&clear, &requested).unwrap();
    assert_eq!(
        decision.message,
        "Cleared the update field, still at 4.1.0\n"
    );
    assert_eq!(
        decision.patch.unwrap()["spec"]["desiredUpdate"]["acceptRisks"],
        json!([{"name": "A"}])
    );
    let decision = decide(&to("4.1.1"), &requested).unwrap();
    assert_eq!(
        decision.patch.unwrap()["spec"]["desiredUpdate"]["acceptRisks"],
        json!([{"name": "A"}])
    );
}

#[test]
fn channels_are_checked_against_those_that_hold_the_release() {
    let mut cluster = cluster();
    let set = |cluster: &ClusterObject, name: &str, explicit| {
        channel(VersionView(cluster), name, explicit)
    };
    assert_eq!(
        set(&cluster, "fast-4.1", false).unwrap().message,
        "info: Cluster is already in fast-4.1 (no change)\n"
    );
    let decision = set(&cluster, "stable-4.1", false).unwrap();
    assert_eq!(
        (decision.patch.unwrap(), decision.message.as_str()),
        (json!({"spec": {"channel": "stable-4.1"}}), "")
    );
    assert_eq!(
        set(&cluster, "eus-4.2", false).unwrap_err().to_string(),
        "the requested channel \"eus-4.2\" is not one of the available channels (fast-4.1, stable-4.1), you must pass --allow-explicit-channel to continue"
    );
    assert_eq!(set(&cluster, "eus-4.2", true).unwrap().warnings.len(), 1);
    assert!(
        set(&cluster, "", false)
            .unwrap_err()
            .to_string()
            .contains("--allow-explicit-channel")
    );
    assert!(set(&cluster, "", true).is_ok());
    cluster.0["status"]["desired"]["channels"] = json!([]);
    assert_eq!(set(&cluster, "eus-4.2", false).unwrap().warnings.len(), 1);
}

#[test]
fn accepted_risks_keep_their_order_and_new_ones_follow() {
    let mut cluster = cluster();
    cluster.0["spec"]["desiredUpdate"] = json!({"acceptRisks": [{"name": "Z"}, {"name": "B"}]});
    let names = |list: &[&str]| {
        list.iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let message = |list: &[&str], replace, clear| {
        accept(VersionView(&cluster), &names(list), replace, clear).map(|decision| decision.message)
    };
    for (list, replace, clear, expected) in [
        (
            &["C", "A", "B-"][..],
            false,
            false,
            "info: Accept risks are [Z, A, C]\n",
        ),
        (
            &["Z", "B"],
            false,
            false,
            "info: Accept risks are not changed\n",
        ),
        (&["A", "B"], true, false, "info: Accept risks are [B, A]\n"),
        (&[], false, true, "info: Accept risks are []\n"),
    ] {
        assert_eq!(message(list, replace, clear).unwrap(), expected, "{list:?}");
    }
    for (list, replace, clear) in [
        (&[""][..], false, false),
        (&["-"], false, false),
        (&["A", "A-"], false, false),
        (&["A-"], true, false),
        (&["A"], false, true),
        (&[], false, false),
    ] {
        assert!(message(list, replace, clear).is_err(), "{list:?}");
    }
}

#[test]
fn only_a_finished_update_is_rolled_back_and_a_minor_one_by_an_option() {
    let mut cluster = cluster();
    let back = |cluster: &ClusterObject| rollback(VersionView(cluster), false);
    let refused = back(&cluster).unwrap_err().to_string();
    assert!(
        refused.contains("not the same minor release") && refused.contains("--allow-minor"),
        "{refused}"
    );
    let decision = rollback(VersionView(&cluster), true).unwrap();
    let warning = "unless slipway.dev/rollback-from in its metadata lists 4.1.0";
    assert!(decision.warnings[0].contains(warning), "{decision:?}");
    cluster.0["status"]["history"][1]["version"] = "3.11.0".into();
    let refused = rollback(VersionView(&cluster), true)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("another major release"), "{refused}");
    cluster.0["status"]["history"][1]["version"] = "4.1.5".into();
    assert!(
        back(&cluster)
            .unwrap_err()
            .to_string()
            .contains("is not lower")
    );
    cluster.0["status"]["history"][1]["version"] = "4.1.0-rc.1".into();
    let decision = back(&cluster).unwrap();
    assert_eq!(
        decision.message,
        "Requested rollback from 4.1.0 to 4.1.0-rc.1\n"
    );
    assert_eq!(update(&decision).1, "quay.example/ocp@sha256:9");
    set(&mut cluster, "Progressing", "True");
    assert!(
        back(&cluster)
            .unwrap_err()
            .to_string()
            .contains("while an update is in progress")
    );
    cluster.0["status"]["history"]
        .as_array_mut()
        .unwrap()
        .truncate(1);
    assert!(
        back(&cluster)
            .unwrap_err()
            .to_string()
            .contains("no previous version")
    );
}

#[test]
fn warnings_come_before_a_refusal() {
    let mut cluster = cluster();
    set(&mut cluster, "Failing", "True");
    let mut forced = to_image("quay.example/ocp:4");
    forced.force = true;
    forced.allow_explicit_upgrade = true;
    let refusal = forced.decide(VersionView(&cluster)).unwrap_err();
    let why = refusal.why.to_string();
    assert!(why.contains("error reconciling"), "{why}");
    let warnings = [
        "Using by-tag",
        "--force overrides",
        "The requested upgrade image",
    ];
    assert_eq!(refusal.warnings.len(), warnings.len());
    for (warning, start) in refusal.warnings.iter().zip(warnings) {
        assert!(warning.starts_with(start), "{warning}");
    }
}

#[test]
fn a_request_for_another_release_is_named_where_the_cluster_is_there() {
    let with = |update: serde_json::Value| {
        let mut cluster = cluster();
        cluster.0["spec"]["desiredUpdate"] = update;
        let by_version = decide(&to("4.1.0"), &cluster).unwrap();
        assert_eq!(by_version.patch, None);
        assert_eq!(
            by_version.message,
            "info: Cluster is already at version 4.1.0\n"
        );
        by_version.warnings
    };
    let hint = |other: &str| {
        vec![format!(
            "another update is requested: {other}. Use --clear to take that request back"
        )]
    };
    assert_eq!(
        with(json!({ "version": "4.1.2", "image": "i" })),
        hint("4.1.2")
    );
    assert_eq!(
        with(json!({ "image": "quay.example/ocp@sha256:2" })),
        hint("quay.example/ocp@sha256:2")
    );
    for same in [
        json!(null),
        json!({ "version": "4.1.0" }),
        json!({ "image": "quay.example/ocp@sha256:0" }),
    ] {
        assert_eq!(with(same), [""; 0]);
    }
}
