//! The source of a rejection.

use serde_json::{Value, json};

use super::*;
use crate::reconcile::{Exempt, rejections};

fn spec(spec: &Value) -> Spec {
    let mut spec = spec.clone();
    spec["config"]["ignition"] = json!({"version": "3.5.0"});
    Spec::parse(&spec).unwrap().0
}

fn config(config: &Value) -> Spec {
    spec(&json!({"config": config}))
}

fn subject(subject: Subject) -> Rejection {
    Rejection::new(subject, "why")
}

#[test]
fn last_source_that_has_the_subject_is_named() {
    let append = json!({"path": "/etc/x", "append": [{"source": "data:,a"}]});
    let a = config(&json!({"storage": {"files": [{"path": "/etc/w"}, append]}}));
    let b = config(
        &json!({"storage": {"disks": [{"device": "/dev/a"}], "files": [{"path": "/etc/y"}]}}),
    );
    let c = config(&json!({"storage": {"files": [{"path": "/etc/z"}]}}));
    let rendered = config(&json!({"storage": {
        "disks": [{"device": "/dev/a"}],
        "files": [{"path": "/etc/w"}, append, {"path": "/etc/y"}, {"path": "/etc/z"}],
    }}));
    let rejected = rejections(&config(&json!({})), &rendered, Exempt::default());
    let sources = [("a", &a), ("b", &b), ("c", &c)];
    let found: Vec<_> = (rejected.iter())
        .map(|rejection| rejection.source_in(&rendered, sources.into_iter()))
        .collect();
    assert_eq!(found, [Some("b"), Some("a")]);
    // What a target no longer has comes from none of its sources.
    let gone = rejections(&rendered, &c, Exempt::default());
    assert_eq!(gone[0].source_in(&c, [("c", &c)].into_iter()), None);
}

#[test]
fn file_and_unit_are_found_by_path_and_name() {
    let first = config(&json!({
        "storage": {"files": [{"path": "/etc/a"}]},
        "systemd": {"units": [{"name": "a.service"}]},
    }));
    let second = config(&json!({
        "storage": {"files": [{"path": "/etc/b"}]},
        "systemd": {"units": [{"name": "b.service"}]},
    }));
    let rendered = config(&json!({
        "storage": {"files": [{"path": "/etc/b"}, {"path": "/etc/a"}]},
        "systemd": {"units": [{"name": "b.service"}, {"name": "a.service"}]},
    }));
    let sources = [("first", &first), ("second", &second)];
    for (subject_of, expected) in [
        (Subject::File(0), Some("second")),
        (Subject::File(1), Some("first")),
        (Subject::File(2), None),
        (Subject::Unit(0), Some("second")),
        (Subject::Unit(1), Some("first")),
        (Subject::Dropin { unit: 1, dropin: 4 }, Some("first")),
        (Subject::User(0), None),
    ] {
        let found = subject(subject_of).source_in(&rendered, sources.into_iter());
        assert_eq!(found, expected, "{subject_of}");
    }
}

#[test]
fn each_section_is_found_in_the_source_that_has_it() {
    let storage = |name: &str, item: Value| json!({"config": {"storage": {name: [item]}}});
    let nothing = spec(&json!({}));
    for (section, source) in [
        (
            Section::Groups,
            json!({"config": {"passwd": {"groups": [{"name": "g"}]}}}),
        ),
        (
            Section::IgnitionKernelArguments,
            json!({"config": {"kernelArguments": {"shouldExist": ["a"]}}}),
        ),
        (
            Section::Disks,
            storage("disks", json!({"device": "/dev/a"})),
        ),
        (
            Section::Filesystems,
            storage("filesystems", json!({"device": "/dev/a", "format": "xfs"})),
        ),
        (
            Section::Raid,
            storage(
                "raid",
                json!({"name": "r", "level": "raid1", "devices": ["/dev/a"]}),
            ),
        ),
        (
            Section::Directories,
            storage("directories", json!({"path": "/etc/d"})),
        ),
        (
            Section::Links,
            storage("links", json!({"path": "/etc/l", "target": "/x"})),
        ),
        (Section::Fips, json!({"fips": true})),
        (Section::KernelArguments, json!({"kernelArguments": ["a"]})),
        (Section::KernelType, json!({"kernelType": "realtime"})),
        (Section::Extensions, json!({"extensions": ["usbguard"]})),
    ] {
        let source = spec(&source);
        let sources = [("has", &source), ("later", &nothing)];
        let rejection = subject(Subject::Section(section));
        let found = rejection.source_in(&source, sources.into_iter());
        assert_eq!(found, Some("has"), "{section}");
    }
}

#[test]
fn rejection_prints_the_path_of_subject_and_member() {
    let user = Rejection::of_member(Subject::User(1), Member::Name, "non-core user");
    assert_eq!(
        user.to_string(),
        "spec.config.passwd.users[1].name: non-core user"
    );
    let dropin = subject(Subject::Dropin { unit: 2, dropin: 0 });
    assert_eq!(
        dropin.to_string(),
        "spec.config.systemd.units[2].dropins[0]: why"
    );
}
