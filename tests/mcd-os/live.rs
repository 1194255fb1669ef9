//! Changes of the running system.

use lab::PATIENCE;
use lab::host::BOOTED_WITHIN;
use node_update::plan::{Action, Route, Step, Undo};
use serde_json::json;
use testbed::config::{Config, service, unit};
use testbed::single_host::{MCD_BROUGHT as MCD, MCD_OS};
use testbed::until_blocking;

use super::configs::{self, NOTIFIED};
use super::env::{Env, PAUSE, differences};

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
fn no_unit_starts_on_a_live_change_that_its_host_did_not_finish() {
    let mut env = Env::new().unwrap();
    let slow = "[Service]\nType=oneshot\nExecStart=/bin/sleep 60\n";
    let config = |version: &str, units: Vec<_>| {
        let (script, early) = configs::early(version);
        let config = Config::new().os(configs::FIRST_OS).files([script]);
        let config = config.units(early).units(units);
        config.rendered(&format!("rendered-{version}")).unwrap()
    };
    let first = config("one", vec![]);
    env.switch(&configs::plan("a1", &configs::none().unwrap(), &first).unwrap())
        .unwrap();
    assert_eq!(env.reboot().unwrap()["outcome"], "proved");
    // It comes with another unit, which the boot in between must not start.
    let notified = json!({ "name": NOTIFIED, "contents": slow });
    let second = config(
        "two",
        vec![notified, unit("comes.service", &service("comes"))],
    );
    let units = [&configs::EARLY_FILES[..], &[NOTIFIED, "comes.service"]].concat();
    let bundle = configs::plan_by("a2", &first, &second, &units).unwrap();
    assert_eq!(bundle.plan.route, Route::Live);
    let directory = env.put(&bundle).unwrap();
    let apply = format!("{MCD_OS} apply {directory} </dev/null >/run/apply.log 2>&1 &");
    env.host.run(["sh", "-c", &apply]).unwrap();
    // The slow service is the last that the change waits for.
    until_blocking("the change to be written", PATIENCE, PAUSE, || {
        let state = env.host.exec(["systemctl", "is-active", NOTIFIED])?.stdout;
        Ok(if state.trim() == "activating" {
            Ok(())
        } else {
            Err(state)
        })
    })
    .unwrap();
    env.host.kill().unwrap();
    env.host.start().unwrap();
    env.host.wait_booted(BOOTED_WITHIN).unwrap();
    assert_eq!(env.wait_ended().unwrap()["outcome"], "undone");
    let started = configs::early_in_this_boot();
    let started = env.host.run(["sh", "-c", &started]).unwrap();
    assert_eq!(started, configs::all_early("one"));
    let comes = env.host.exec(["systemctl", "is-active", "comes.service"]);
    assert_eq!(comes.unwrap().stdout, "inactive\n");
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
    let words = "could not apply update: restarting refused.service service failed. Error";
    assert!(ran.reasons().contains(words), "{ran:?}");
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
