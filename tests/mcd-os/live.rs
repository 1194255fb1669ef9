//! Changes of the running system.

use node_update::plan::{Action, Step, Undo};

use testbed::config::service;

use super::configs::{self, TOLD};
use super::site::{Site, differences};

const FAILS: &str =
    "[Service]\nType=oneshot\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n";

/// A host in the first quiet configuration.
fn site() -> Site {
    let site = Site::new().unwrap();
    let first = configs::quiet("rendered-1", "first", &service("first")).unwrap();
    let directory = site
        .put(&configs::plan("a1", &configs::none().unwrap(), &first).unwrap())
        .unwrap();
    site.expect(0, &["rehearse", &directory]).unwrap();
    site.expect(0, &["apply", &directory]).unwrap();
    site
}

#[test]
#[ignore = "needs the lab"]
fn a_change_without_reboot_is_in_and_its_service_told() {
    let site = site();
    let boots = site.host.boots().len();
    let before = site
        .host
        .run(["systemctl", "show", "--property=InvocationID", TOLD])
        .unwrap();
    let first = configs::quiet("rendered-1", "first", &service("first")).unwrap();
    let second = configs::quiet("rendered-2", "second", &service("second")).unwrap();
    let directory = site
        .put(&configs::plan("a2", &first, &second).unwrap())
        .unwrap();
    site.expect(0, &["apply", &directory]).unwrap();

    let file = ("640 chrony:chrony".to_owned(), "second".to_owned());
    assert_eq!(site.stat("/etc/managed/quiet").unwrap(), file);
    let file = ("600 core:core".to_owned(), "second".to_owned());
    assert_eq!(site.stat("/home/core/quiet").unwrap(), file);
    let keys = site
        .stat("/home/core/.ssh/authorized_keys.d/ignition")
        .unwrap();
    assert_eq!(keys.1, "ssh-ed25519 second");
    let after = site
        .host
        .run(["systemctl", "show", "--property=InvocationID", TOLD])
        .unwrap();
    assert_ne!(before, after, "the service was restarted");
    assert_eq!(site.host.boots().len(), boots);
    let view = site.view().unwrap();
    assert_eq!(view["booted"]["config"], "rendered-2");
    assert_eq!(
        (&view["last"]["attempt"], &view["last"]["outcome"]),
        (&"a2".into(), &"proved".into())
    );
    site.host
        .run(["test", "!", "-e", "/var/lib/slipway/journal.json"])
        .unwrap();
    site.expect(0, &["verify"]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_change_whose_service_fails_is_undone_to_the_byte() {
    let site = site();
    let first = configs::quiet("rendered-1", "first", &service("first")).unwrap();
    let bad = configs::quiet("rendered-bad", "bad", FAILS).unwrap();
    let before = site.snapshot().unwrap();
    let directory = site
        .put(&configs::plan("a2", &first, &bad).unwrap())
        .unwrap();
    let ran = site.expect(1, &["apply", &directory]).unwrap();
    assert!(ran.reasons().contains(TOLD), "{ran:?}");
    assert_eq!(differences(&before, &site.snapshot().unwrap()), [""; 0]);
    site.host.run(["systemctl", "is-active", TOLD]).unwrap();
    let view = site.view().unwrap();
    assert_eq!(view["last"]["outcome"], "undone");
    assert!(view["last"]["cause"].as_str().unwrap().contains(TOLD));
    assert_eq!(view["booted"]["config"], "rendered-1");
    site.expect(0, &["verify"]).unwrap();
}

#[test]
#[ignore = "needs the lab"]
fn a_change_whose_service_is_not_there_to_be_told_is_undone_to_the_byte() {
    let site = site();
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
    let before = site.snapshot().unwrap();
    let directory = site.put(&plan).unwrap();
    let ran = site.expect(1, &["apply", &directory]).unwrap();
    assert!(ran.reasons().contains("unit refused.service"), "{ran:?}");
    assert_eq!(differences(&before, &site.snapshot().unwrap()), [""; 0]);
    assert_eq!(site.view().unwrap()["last"]["outcome"], "undone");
}

#[test]
#[ignore = "needs the lab"]
fn what_somebody_changed_since_is_found_by_verify() {
    let site = site();
    site.host
        .run(["sh", "-c", "echo other >/etc/managed/quiet"])
        .unwrap();
    let ran = site.expect(1, &["verify"]).unwrap();
    assert_eq!(
        ran.reasons(),
        "content mismatch for file \"/etc/managed/quiet\""
    );
    assert_eq!(ran.report["at"]["config"], "rendered-1");
}
