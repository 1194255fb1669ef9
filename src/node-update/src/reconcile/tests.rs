//! The table of what is refused.

use serde_json::{Value, json};

use super::*;

fn spec(config: &Value) -> Spec {
    let mut config = config.clone();
    config["ignition"] = json!({"version": "3.5.0"});
    Spec::parse(&json!({"config": config})).unwrap().0
}

fn said(old: &Value, new: &Value) -> Vec<String> {
    let rejected = rejections(&spec(old), &spec(new), Exempt::default());
    rejected.iter().map(ToString::to_string).collect()
}

fn users(users: &Value) -> Value {
    json!({"passwd": {"users": users}})
}

#[test]
fn what_a_host_cannot_follow_is_refused() {
    let nothing = json!({});
    let core = users(&json!([{"name": "core", "sshAuthorizedKeys": ["a"]}]));
    let with = |section: &str, items: Value| json!({"storage": {section: items}});
    for (old, new, text) in [
        (
            &nothing,
            json!({"passwd": {"groups": [{"name": "g"}]}}),
            "spec.config.passwd.groups: invalid passwd change(s): ignition Passwd Groups section contains changes",
        ),
        (
            &core,
            users(&json!([{"name": "core", "sshAuthorizedKeys": ["a"]}, {"name": "eve"}])),
            "spec.config.passwd.users[1].name: invalid passwd change(s): ignition passwd user section contains unsupported changes: non-core user",
        ),
        (
            &core,
            users(&json!([{"name": "core", "sshAuthorizedKeys": ["a"], "homeDir": "/home/c"}])),
            "spec.config.passwd.users[0]: invalid passwd change(s): SSH keys and password hash are not reconcilable",
        ),
        (
            &core,
            users(&json!([{"name": "core"}])),
            "spec.config.passwd.users[0]: invalid passwd change(s): ignition passwd user section contains unsupported changes: user must be core and have 1 or more sshKeys",
        ),
        (
            &nothing,
            json!({"kernelArguments": {"shouldExist": ["a"]}}),
            "spec.config.kernelArguments: ignition kargs section contains changes",
        ),
        (
            &nothing,
            with("disks", json!([{"device": "/dev/vda", "wipeTable": true}])),
            "spec.config.storage.disks: ignition disks section contains changes",
        ),
        (
            &nothing,
            with(
                "filesystems",
                json!([{"device": "/dev/vda", "format": "xfs"}]),
            ),
            "spec.config.storage.filesystems: ignition filesystems section contains changes",
        ),
        (
            &nothing,
            with(
                "raid",
                json!([{"name": "r", "level": "raid1", "devices": ["/dev/a"]}]),
            ),
            "spec.config.storage.raid: ignition raid section contains changes",
        ),
        (
            &nothing,
            with("directories", json!([{"path": "/etc/d"}])),
            "spec.config.storage.directories: ignition directories section contains changes",
        ),
        (
            &nothing,
            with("links", json!([{"path": "/etc/l", "target": "/x"}])),
            "spec.config.storage.links: ignition links section contains changes",
        ),
        (
            &nothing,
            with(
                "files",
                json!([{"path": "/etc/x", "append": [{"source": "data:,a"}]}]),
            ),
            "spec.config.storage.files[0].append: ignition file /etc/x includes append",
        ),
        (
            &nothing,
            with(
                "files",
                json!([{"path": "/etc/a"}, {"path": "/run/machine-config-daemon-force"}]),
            ),
            "spec.config.storage.files[1].path: cannot create /run/machine-config-daemon-force via Ignition",
        ),
        (
            &nothing,
            with(
                "files",
                json!([{"path": "/etc/x", "contents": {"source": "https://u:p@h/x"}}]),
            ),
            "spec.config.storage.files[0].contents.source: /etc/x: source must be a data: URL, is https:",
        ),
    ] {
        assert_eq!(said(old, &new), [text]);
    }
}

#[test]
fn what_a_host_can_follow_is_not() {
    let nothing = json!({});
    let core = users(&json!([{"name": "core", "sshAuthorizedKeys": ["a"]}]));
    let odd = users(&json!([{"name": "core", "homeDir": "/h"}, {"name": "eve"}]));
    let links = json!({"storage": {"links": [{"path": "/etc/l", "target": "/x"}]}});
    for (old, new) in [
        (&core, &nothing),
        (&nothing, &core),
        (
            &core,
            &users(&json!([{"name": "core", "passwordHash": "x"}])),
        ),
        // What was there before and stays is not looked at.
        (&odd, &odd),
        (&odd, &nothing),
        (&links, &nothing),
        (&links, &links),
        (
            &nothing,
            &json!({"storage": {"luks": [{"name": "l", "device": "/dev/a"}]}}),
        ),
    ] {
        assert_eq!(said(old, new), [""; 0], "{old} {new}");
    }
}

#[test]
fn storage_can_be_exempted_section_by_section() {
    let new = spec(&json!({"storage": {
        "disks": [{"device": "/dev/vda"}],
        "raid": [{"name": "r", "level": "raid1", "devices": ["/dev/a"]}],
    }}));
    let nothing = spec(&json!({}));
    let exempt = Exempt {
        disks: true,
        ..Exempt::default()
    };
    let rejected = rejections(&nothing, &new, exempt);
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].subject, Subject::Section(Section::Raid));
    let all = Exempt {
        raid: true,
        ..exempt
    };
    assert_eq!(rejections(&nothing, &new, all), []);
}

#[test]
fn fips_is_never_changed() {
    let of = |fips: bool| Spec::parse(&json!({"fips": fips})).unwrap().0;
    for (old, new) in [(true, false), (false, true)] {
        assert_eq!(rejections(&of(old), &of(new), Exempt::default()), [fips()]);
    }
}

#[test]
fn what_is_let_through_without_effect_is_named() {
    let storage = |storage: Value| spec(&json!({"storage": storage}));
    let installed = storage(json!({"links": [{"path": "/etc/a", "target": "/etc/b"}]}));
    let disks = json!({"disks": [{"device": "/dev/sda", "wipeTable": true}]});
    let exempt = Exempt {
        disks: true,
        ..Exempt::default()
    };
    let wanted = storage(disks);
    assert_eq!(rejections(&installed, &wanted, exempt), []);
    assert_eq!(
        without_effect(&installed, &wanted),
        [
            "spec.config.storage.disks changes, which has no effect on an installed host",
            "spec.config.storage.links changes, which has no effect on an installed host",
        ]
    );
    assert!(without_effect(&wanted, &wanted).is_empty());
    let difference = |diff: &str| Difference {
        field_path: "spec.config.storage.disks".to_owned(),
        diff: diff.to_owned(),
    };
    assert_eq!(
        differs_from_installed(&installed, &wanted),
        [difference("/dev/sda is new in the configuration")]
    );
    assert_eq!(differs_from_installed(&wanted, &wanted), []);
    let disks = |all: Value| storage(json!({"disks": all}));
    let two = disks(json!([{"device": "/dev/sda"}, {"device": "/dev/sdb"}]));
    let turned = disks(json!([{"device": "/dev/sdb"}, {"device": "/dev/sda"}]));
    assert_eq!(
        differs_from_installed(&two, &wanted),
        [difference(
            "/dev/sda changed; /dev/sdb is gone from the configuration"
        )]
    );
    assert_eq!(
        differs_from_installed(&two, &turned),
        [difference("the order changed")]
    );
}

#[test]
fn one_file_has_one_name() {
    let files = |paths: &[&str]| {
        let files = paths.iter().map(|path| json!({"path": path}));
        json!({"storage": {"files": files.collect::<Vec<_>>()}})
    };
    let twice = files(&["/home/core/x", "/var/home/core/x", "/var/home/core/y"]);
    assert_eq!(
        said(&json!({}), &twice),
        [
            "spec.config.storage.files[1]: cannot write /var/home/core/x: it is /home/core/x, a file of \
             this configuration"
        ]
    );
    let below = files(&["/opt/x", "/var/opt/x/y"]);
    assert_eq!(
        said(&json!({}), &below),
        [
            "spec.config.storage.files[1]: cannot write /var/opt/x/y: /opt/x is a file of this \
             configuration"
        ]
    );
}
