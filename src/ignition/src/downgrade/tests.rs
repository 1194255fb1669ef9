//! Printing older versions.

use ignition_config::Config as TheirConfig;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{arbitrary, parse};

fn refused(config: &Value, target: SpecVersion) -> String {
    let (config, _) = parse(config).unwrap();
    config.to_version(target).unwrap_err().to_string()
}

fn with(section: &str, members: &Value) -> Value {
    json!({"ignition": {"version": "3.5.0"}, section: members})
}

#[test]
fn what_a_version_cannot_say_is_refused_by_field() {
    let luks = json!([{"name": "a", "device": "/dev/a", "discard": true}]);
    let file = |file: Value| with("storage", &json!({"files": [file]}));
    let table = [
        (
            with("kernelArguments", &json!({"shouldExist": ["a"]})),
            SpecVersion::V3_3,
            "kernelArguments",
        ),
        (
            with("storage", &json!({"luks": luks})),
            SpecVersion::V3_4,
            "storage.luks",
        ),
        (
            with(
                "storage",
                &json!({"directories": [{"path": "/a", "mode": 0o1777}]}),
            ),
            SpecVersion::V3_4,
            "storage.directories[0].mode: 01777",
        ),
        (
            file(json!({"path": "/a", "contents": {"source": "arn:aws:s3:::b/k"}})),
            SpecVersion::V3_4,
            "storage.files[0].contents.source: arn:",
        ),
        (
            with(
                "storage",
                &json!({"filesystems": [{"device": "/dev/a", "format": "none"}]}),
            ),
            SpecVersion::V3_3,
            "storage.filesystems[0].format: \"none\"",
        ),
        (
            with(
                "passwd",
                &json!({"users": [{"name": "core", "shouldExist": true}]}),
            ),
            SpecVersion::V3_2,
            "passwd.users[0].shouldExist",
        ),
        (
            json!({"ignition": {"version": "3.5.0", "proxy": {"httpProxy": "http://a"}}}),
            SpecVersion::V3_1,
            "ignition.proxy",
        ),
        (
            with(
                "storage",
                &json!({"filesystems": [{"device": "/dev/a", "format": "xfs"}]}),
            ),
            SpecVersion::V3_1,
            "storage.filesystems[0]",
        ),
        (
            file(json!({"path": "/a", "append": [{"source": "data:,a"}, {"source": "data:,b"}]})),
            SpecVersion::V3_1,
            "storage.files[0].append",
        ),
    ];
    for (config, since, field) in table {
        for target in SpecVersion::ALL {
            if target < since {
                let message = refused(&config, target);
                let name = target.as_str();
                assert!(message.starts_with(field), "{name}: {message}");
                assert!(
                    message.contains(&format!("specification {name}")),
                    "{message}"
                );
            } else {
                let (config, _) = parse(&config).unwrap();
                config.to_version(target).unwrap();
            }
        }
    }
}

/// Absence of `overwrite` means the opposite in specification 2; a mask of `false` says nothing.
fn as_two_says_it(mut config: Config) -> Config {
    for file in &mut config.storage.files {
        file.overwrite.get_or_insert(false);
        file.contents.source.get_or_insert_default();
    }
    for unit in &mut config.systemd.units {
        unit.mask = unit.mask.filter(|mask| *mask);
        unit.contents = unit.contents.take().filter(|text| !text.is_empty());
        for dropin in &mut unit.dropins {
            dropin.contents = dropin.contents.take().filter(|text| !text.is_empty());
        }
    }
    config
}

fn sorted(mut config: Config) -> Config {
    config
        .storage
        .files
        .sort_by(|one, other| one.path.cmp(&other.path));
    config
        .systemd
        .units
        .sort_by(|one, other| one.name.cmp(&other.name));
    config
}

#[test]
fn members_of_2_2_come_out_in_its_words() {
    let config = json!({
        "ignition": {
            "version": "3.1.0",
            "config": {"replace": {"source": "https://a/r"}},
            "security": {"tls": {"certificateAuthorities": [{"source": "data:,a"}]}},
            "timeouts": {"httpTotal": 5},
        },
        "passwd": {"groups": [{"name": "g", "gid": 0, "system": true}]},
        "storage": {
            "directories": [{"path": "/d", "mode": 0o700, "user": {"id": 0}}],
            "disks": [{"device": "/dev/a", "partitions": [{"number": 1, "sizeMiB": 2, "startMiB": 1}]}],
            "files": [
                {"path": "/f", "contents": {"source": "", "compression": "gzip"}},
                {"path": "/g", "append": [{"source": "data:,x"}]},
            ],
            "links": [{"path": "/l", "target": "/f", "hard": true}],
            "raid": [{"name": "r", "level": "raid1", "devices": ["/dev/b"]}],
        },
        "systemd": {"units": [{"name": "a.service", "enabled": false, "mask": true}]},
    });
    let (config, _) = parse(&config).unwrap();
    assert_eq!(
        config.to_version(SpecVersion::V2_2).unwrap(),
        json!({
            "ignition": {
                "version": "2.2.0",
                "config": {"replace": {"source": "https://a/r"}},
                "security": {"tls": {"certificateAuthorities": [{"source": "data:,a"}]}},
                "timeouts": {"httpTotal": 5},
            },
            "passwd": {"groups": [{"name": "g", "gid": 0, "system": true}]},
            "storage": {
                "directories": [{"filesystem": "root", "path": "/d", "mode": 0o700, "user": {"id": 0}}],
                "disks": [{"device": "/dev/a", "partitions": [{"number": 1, "size": 4096, "start": 2048}]}],
                "files": [
                    {
                        "filesystem": "root", "path": "/f", "overwrite": false,
                        "contents": {"source": "", "compression": "gzip"},
                    },
                    {"append": true, "filesystem": "root", "path": "/g", "contents": {"source": "data:,x"}},
                ],
                "links": [{"filesystem": "root", "path": "/l", "target": "/f", "hard": true}],
                "raid": [{"name": "r", "level": "raid1", "devices": ["/dev/b"], "spares": 0}],
            },
            "systemd": {"units": [{"name": "a.service", "enabled": false, "mask": true}]},
        })
    );
}

proptest! {
    #[test]
    fn every_version_reads_back_as_what_was_printed(config in arbitrary::config()) {
        for target in SpecVersion::ALL {
            let printed = config.to_version(target).unwrap();
            prop_assert_eq!(&printed["ignition"]["version"], target.as_str());
            let (read, warnings) = parse(&printed).unwrap();
            if target == SpecVersion::V2_2 {
                prop_assert_eq!(sorted(read), as_two_says_it(sorted(config.clone())));
                continue;
            }
            prop_assert_eq!(&read, &config);
            prop_assert!(warnings.iter().all(|warning| !warning.text.contains("left out")));
            // As a reader sees it whose types are made of Ignition's own schemas.
            let (_, unused) = TheirConfig::parse_str(&printed.to_string()).unwrap();
            prop_assert!(unused.is_empty(), "{:?}", unused);
        }
    }
}
