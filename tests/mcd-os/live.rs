//! Changes of the running system.

use node_update::plan::{Action, Step, Undo};

use testbed::config::service;
use testbed::single_host::MCD_BROUGHT as MCD;

use super::configs::{self, NOTIFIED};
use super::env::{Env, differences};

const FAILS: &str =
    "[Service]\nType=oneshot\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n";

/// A host in the first quiet configuration.
fn env() -> Env {
    let env = Env::new().unwrap();
    let first = configs::quiet("rendered-1", "first", &service("first")).unwrap();
    let directory = env
        .put(&configs::plan("a1", &configs::none().unwrap(), &first).unwrap())
        .unwrap();
    env.expect(0, &["rehearse", &directory]).unwrap();
    env.expect(0, &["apply", &directory]).unwrap();
    env
}

#[test]
#[ignore = "needs the lab"]
fn a_live_update_is_in_force_and_its_service_restarted() {
    let env = env();
    let boots = env.host.boots().len();
    let before = env
        .host
        .run(["systemctl", "show", "--property=InvocationID", NOTIFIED])
        .unwrap();
    let first = configs::quiet("rendered-1", "first", &service("first")).unwrap();
    let second = configs::quiet("rendered-2", "second", &service("second")).unwrap();
    let directory = env
        .put(&configs::plan("a2", &first, &second).unwrap())
        .unwrap();
    env.expect(0, &["apply", &directory]).unwrap();

    let file = ("640 chrony:chrony".to_owned(), "second".to_owned());
    assert_eq!(env.stat("/etc/managed/quiet").unwrap(), file);
    let file = ("600 core:core".to_owned(), "second".to_owned());
    assert_eq!(env.stat("/home/core/quiet").unwrap(), file);
    let keys = env
        .stat("/home/core/.ssh/authorized_keys.d/ignition")
        .unwrap();
    assert_eq!(keys.1, "ssh-ed25519 second");
    let after = env
        .host
        .run(["systemctl", "show", "--property=InvocationID", NOTIFIED])
        .unwrap();
    assert_ne!(before, after, "the service was restarted");
    assert_eq!(env.host.boots().len(), boots);
    let view = env.view().unwrap();
    assert_eq!(view["booted"]["config"], "rendered-2");
    assert_eq!(
        (&view["last"]["attempt"], &view["last"]["outcome"]),
        (&"a2".into(), &"proved".into())
    );
    env.host
        .run(["test", "!", "-e", "/var/lib/slipway/journal.json"])
        .unwrap();
    env.expect(0, &["verify"]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_live_update_whose_service_fails_is_undone_to_the_byte() {
    let env = env();
    let first = configs::quiet("rendered-1", "first", &service("first")).unwrap();
    let bad = configs::quiet("rendered-bad", "bad", FAILS).unwrap();
    let before = env.snapshot().unwrap();
    let directory = env
        .put(&configs::plan("a2", &first, &bad).unwrap())
        .unwrap();
    let ran = env.expect(1, &["apply", &directory]).unwrap();
    assert!(ran.reasons().contains(NOTIFIED), "{ran:?}");
    assert_eq!(differences(&before, &env.snapshot().unwrap()), [""; 0]);
    env.host.run(["systemctl", "is-active", NOTIFIED]).unwrap();
    let view = env.view().unwrap();
    assert_eq!(view["last"]["outcome"], "undone");
    assert!(view["last"]["cause"].as_str().unwrap().contains(NOTIFIED));
    assert_eq!(view["booted"]["config"], "rendered-1");
    env.expect(0, &["verify"]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_live_update_whose_service_is_missing_is_undone_to_the_byte() {
    let env = env();
    let first = configs::quiet("rendered-1", "first", &service("first")).unwrap();
    let second = configs::quiet("rendered-2", "second", &service("second")).unwrap();
    let mut plan = configs::plan("a2", &first, &second).unwrap();
    // As where the generator of container units refuses a file.
    plan.plan.steps.push(Step {
        action: Action::RestartUnit {
            unit: "refused.service".to_owned(),
        },
        undo: Undo::Nothing,
    });
    let before = env.snapshot().unwrap();
    let directory = env.put(&plan).unwrap();
    let ran = env.expect(1, &["apply", &directory]).unwrap();
    assert!(ran.reasons().contains("unit refused.service"), "{ran:?}");
    assert_eq!(differences(&before, &env.snapshot().unwrap()), [""; 0]);
    assert_eq!(env.view().unwrap()["last"]["outcome"], "undone");
}

#[test]
#[ignore = "needs the lab"]
fn a_file_changed_since_is_found_by_verify() {
    let env = env();
    env.host
        .run(["sh", "-c", "echo other >/etc/managed/quiet"])
        .unwrap();
    let ran = env.expect(1, &["verify"]).unwrap();
    assert_eq!(
        ran.reasons(),
        "content mismatch for file \"/etc/managed/quiet\""
    );
    assert_eq!(ran.report["at"]["config"], "rendered-1");
}

#[test]
#[ignore = "needs the lab"]
fn broken_record_is_named_and_not_replaced() {
    let env = env();
    let broken = "echo '{\"metadata\":{}}' >/etc/machine-config-daemon/currentconfig";
    env.host.run(["sh", "-c", broken]).unwrap();
    let before = env.snapshot().unwrap();
    let why = "broken record /etc/machine-config-daemon/currentconfig: cannot read metadata: \
               missing field `name`";

    let ran = env.expect(1, &["verify"]).unwrap();
    assert!(ran.reasons().starts_with(why), "{ran:?}");
    let booted = &env.view().unwrap()["booted"];
    assert_eq!(booted["config"], serde_json::Value::Null);
    let error = booted["record_error"].as_str().unwrap();
    assert!(error.starts_with(why), "{error}");
    let status = env.host.run([MCD, "status"]).unwrap();
    let start = format!("phase      Degraded\nreason     {why}");
    assert!(status.starts_with(&start), "{status}");
    let pivot = env.host.exec([MCD, "pivot", "registry/os:1"]).unwrap();
    assert_eq!(pivot.code, Some(1), "{pivot:?}");
    assert!(pivot.stderr.contains(why), "{pivot:?}");
    assert_eq!(differences(&before, &env.snapshot().unwrap()), [""; 0]);
}
