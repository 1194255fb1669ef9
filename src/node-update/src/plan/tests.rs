//! The stored form of a plan.

use super::*;

/// A plan of schema version 1, as `plan.json` holds it on hosts in the middle of an update. It
/// never changes: a program that reads it otherwise, or prints another text, has another
/// [`SCHEMA`].
const STORED: &str = include_str!("tests/stored.json");

const ACTIONS: [&str; 13] = [
    "write-file",
    "release-file",
    "mask-unit",
    "unmask-unit",
    "enable-unit",
    "keep-unit-enabled",
    "disable-unit",
    "preset-unit",
    "write-authorized-keys",
    "set-password",
    "daemon-reload",
    "restart-unit",
    "reload-unit",
];
const EXPECTATIONS: [&str; 7] = [
    "record",
    "kernel-argument",
    "file",
    "masked",
    "enabled",
    "runs",
    "active",
];

fn stored() -> Plan {
    serde_json::from_str(STORED).unwrap()
}

#[test]
fn stored_plan_of_an_older_program_reads_and_prints_the_same_text() {
    let printed = serde_json::to_string_pretty(&stored()).unwrap() + "\n";
    assert_eq!(printed, STORED);
}

#[test]
fn stored_plan_has_every_kind_of_step_undo_and_expectation() {
    let value: serde_json::Value = serde_json::from_str(STORED).unwrap();
    let kinds = |list: &str, tag: &str| -> Vec<String> {
        let items = value[list].as_array().unwrap();
        items
            .iter()
            .map(|item| item[tag].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(kinds("steps", "do"), ACTIONS);
    assert_eq!(kinds("expect", "expect"), EXPECTATIONS);
    let undo = |index: usize| value["steps"][index]["undo"]["undo"].as_str().unwrap();
    assert_eq!(
        [undo(0), undo(1), undo(10)],
        ["restore", "nothing", "again"]
    );
}

#[test]
fn stored_files_keep_content_mode_and_owner() {
    let plan = stored();
    let path = || "/etc/chrony.conf".to_owned();
    let file = FileState {
        digest: Digest::of(b"new"),
        mode: Mode(0o600),
        owner: Owners {
            user: Owner::Name("core".to_owned()),
            group: Owner::Id(7),
        },
    };
    let expected = Expectation::File {
        path: path(),
        file: file.clone(),
    };
    assert_eq!(plan.expect[2], expected);
    assert_eq!(
        plan.steps[0].action,
        Action::WriteFile { path: path(), file }
    );
    let Undo::Restore { paths } = &plan.steps[0].undo else {
        panic!("{:?}", plan.steps[0].undo);
    };
    let before = FileState {
        digest: Digest::of(b"old"),
        mode: Mode(0o640),
        owner: OwnerIds { uid: 1000, gid: 7 },
    };
    assert_eq!(
        paths[&path()],
        Prior::File {
            state: before,
            attributes: Attributes::default(),
        }
    );
    assert_eq!(
        paths["/etc/chrony.d"],
        Prior::Directory {
            mode: Mode(0o755),
            owner: OwnerIds::ROOT,
        }
    );
}
