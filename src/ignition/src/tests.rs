//! Reading whole configurations.

use serde_json::{Value, json};

use super::*;

fn read(value: &Value) -> (Config, Vec<String>) {
    let (config, warnings) = parse(value).unwrap();
    (config, warnings.iter().map(ToString::to_string).collect())
}

fn refused(value: &Value) -> String {
    parse(value).unwrap_err().to_string()
}

fn with_file(file: &Value) -> Value {
    json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}})
}

/// Why this crate differs on purpose from the library of OpenShift's MCO; `None` where it agrees.
fn differs(config: &Value) -> Option<&'static str> {
    let file = &config["storage"]["files"][0];
    let unit = &config["systemd"]["units"][0];
    if config.as_object().is_some_and(serde_json::Map::is_empty) {
        return Some("an empty configuration asks for nothing");
    }
    if config["ignition"]["version"] == "2.2.0" {
        return Some("the library of specification 3 does not read specification 2");
    }
    if file["contents"]["compression"] == "gzip" && file["contents"]["source"] == "data:,x" {
        return Some("what is not gzip is found before it reaches a node");
    }
    if unit["contents"]
        .as_str()
        .is_some_and(|text| text.starts_with("[Unit\nDesc"))
    {
        return Some("the library takes the rest of the text for the name of the section");
    }
    None
}

/// The expected values are those of `coreos/ignition`, `config/v3_5`.
#[test]
fn what_ignition_refuses_is_refused() {
    let mut checked = 0;
    for line in include_str!("../tests/fixtures/validate.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let config = &case["config"];
        let ours = parse(config);
        if differs(config).is_none() {
            let theirs = &case["answer"];
            assert_eq!(
                Value::from(ours.is_err()),
                theirs["fatal"],
                "{config}\n{theirs}\n{ours:?}"
            );
            checked += 1;
        }
    }
    assert!(checked > 170, "{checked} cases compared");
}

#[test]
fn each_refusal_names_field_and_value() {
    let unit =
        |unit: Value| json!({"ignition": {"version": "3.2.0"}, "systemd": {"units": [unit]}});
    for (config, message) in [
        (
            with_file(&json!({"path": "/etc/x", "mode": 0o1777})),
            "storage.files[0].mode: invalid mode 01777 for /etc/x, cannot exceed 0777",
        ),
        (
            with_file(&json!({"path": "etc/x"})),
            "storage.files[0].path: path not absolute: \"etc/x\"",
        ),
        (
            with_file(&json!({"path": "/etc/../x"})),
            "storage.files[0].path: path must not contain \"..\": \"/etc/../x\"",
        ),
        (
            with_file(&json!({"path": "/etc/x", "mode": "0644"})),
            "storage.files[0].mode: expected u32, found a string",
        ),
        (
            with_file(&json!({"path": "/etc/x", "contents": "secret"})),
            "storage.files[0].contents: expected struct Resource, found a string",
        ),
        (
            with_file(&json!({"path": "/etc/x", "contents": {"source": "data:;base64,c2VjcmV0!"}})),
            "storage.files[0].contents.source: could not decode file \"/etc/x\": invalid base64 in data: URL: Invalid symbol 33, offset 8.",
        ),
        (
            with_file(
                &json!({"path": "/etc/x", "contents": {"source": "data:,x", "compression": "xz"}}),
            ),
            "storage.files[0].contents.compression: could not decode file \"/etc/x\": unsupported compression type \"xz\"",
        ),
        (
            unit(json!({"name": "x.conf"})),
            "systemd.units[0].name: invalid systemd unit extension in \"x.conf\"",
        ),
        (
            unit(json!({"name": "../x.service"})),
            "systemd.units[0].name: invalid systemd unit name \"../x.service\"",
        ),
        (
            unit(json!({"name": "x.service", "dropins": [{"name": "../a.conf"}]})),
            "systemd.units[0].dropins[0].name: invalid systemd drop-in name \"../a.conf\"",
        ),
        (
            json!({"ignition": {"version": "4.0.0"}}),
            "parsing Ignition config failed: unknown version. Supported spec versions: 2.2,3.0,3.1,3.2,3.3,3.4,3.5 (ignition.version is \"4.0.0\")",
        ),
        (
            json!({"ignition": {"version": "three"}}),
            "parsing Ignition config failed: invalid version. Supported spec versions: 2.2,3.0,3.1,3.2,3.3,3.4,3.5 (ignition.version is \"three\")",
        ),
    ] {
        assert_eq!(refused(&config), message);
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [
        {"path": "/a", "mode": 4096}, {"path": "b"}, {"path": "/a"},
    ]}});
    assert_eq!(
        refused(&config),
        "storage.files[0].mode: invalid mode 010000 for /a, cannot exceed 0777; \
         storage.files[1].path: path not absolute: \"b\"; \
         storage.files[2]: duplicate entry defined: \"/a\""
    );
}

#[test]
fn nothing_is_a_configuration_that_asks_for_nothing() {
    for nothing in [Value::Null, json!({})] {
        assert_eq!(read(&nothing), (Config::new(), vec![]));
    }
}

#[test]
fn an_unknown_member_only_warns() {
    let config = json!({
        "ignition": {"version": "3.5.0", "color": "red"},
        "storage": {"files": [{"path": "/a"}, {"path": "/b", "contents": {"sauce": "data:,x"}}]},
        "units": [{"name": "x"}],
        "empty": {},
    });
    let (config, warnings) = read(&config);
    assert_eq!(
        warnings,
        [
            "ignition.color: is not known and is left out",
            "storage.files[1].contents.sauce: is not known and is left out",
            "units: is not known and is left out",
        ]
    );
    assert_eq!(config.storage.files.len(), 2);
}

#[test]
fn a_member_newer_than_the_version_only_warns() {
    let config = json!({
        "ignition": {"version": "3.1.0"},
        "kernelArguments": {"shouldExist": ["a"]},
        "passwd": {"users": [{"name": "core", "shouldExist": true}]},
        "storage": {"luks": [{"name": "x"}]},
    });
    let (read, warnings) = read(&config);
    assert_eq!(
        warnings,
        [
            "passwd.users[0].shouldExist: is not known in specification 3.1.0 and is left out",
            "storage.luks: is not known in specification 3.1.0 and is left out",
            "kernelArguments: is not known in specification 3.1.0 and is left out",
        ]
    );
    assert_eq!(
        read.to_value(),
        json!({"ignition": {"version": "3.5.0"}, "passwd": {"users": [{"name": "core"}]}})
    );
}

#[test]
fn null_members_are_absent() {
    let config = json!({"ignition": {"version": "3.5.0"}, "storage": null, "systemd": {"units": [
        {"name": "a.service", "contents": null, "dropins": null, "enabled": false},
    ]}});
    let (config, warnings) = read(&config);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(
        config.to_value(),
        json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": [
            {"enabled": false, "name": "a.service"},
        ]}})
    );
}

#[test]
fn an_enabled_unit_without_an_install_section_only_warns() {
    let config = json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": [
        {"name": "a.service", "enabled": true, "contents": "[Service]\nExecStart=/bin/true\n"},
    ]}});
    assert_eq!(
        read(&config).1,
        ["systemd.units[0].contents: unit \"a.service\" is enabled, but has no [Install] section"]
    );
}

#[test]
fn specification_2_is_translated_and_its_last_entries_win() {
    let two = json!({
        "ignition": {"version": "2.2.0", "config": {}, "security": {"tls": {}}, "timeouts": {}},
        "networkd": {},
        "passwd": {"users": [
            {"name": "core", "sshAuthorizedKeys": ["one", "two"]},
            {"name": "core", "sshAuthorizedKeys": ["three", "one"], "passwordHash": "hash"},
        ]},
        "storage": {
            "filesystems": [{"name": "root", "path": "/sysroot"}],
            "files": [
                {"filesystem": "root", "path": "/etc/a", "contents": {"source": "data:,old"}, "mode": 420},
                {"filesystem": "root", "path": "/etc/b", "contents": {"source": ""}, "user": {"name": ""}},
                {"filesystem": "root", "path": "/etc/a", "contents": {"source": "data:,new"}, "mode": 384},
            ],
        },
        "systemd": {"units": [
            {"name": "u.service", "contents": "[Unit]\nA=old\n", "enable": true,
             "dropins": [{"name": "one.conf", "contents": "[Unit]\nA=old\n"}, {"name": "two.conf"}]},
            {"name": "v.service", "enable": true, "enabled": false, "mask": true},
            {"name": "u.service", "dropins": [{"name": "one.conf", "contents": "[Unit]\nA=new\n"}]},
        ]},
    });
    let (config, warnings) = read(&two);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(
        config.to_value(),
        json!({
            "ignition": {"version": "3.5.0"},
            "passwd": {"users": [{
                "name": "core", "passwordHash": "hash", "sshAuthorizedKeys": ["three", "one", "two"],
            }]},
            "storage": {"files": [
                {"contents": {"source": "data:,new"}, "mode": 384, "overwrite": true, "path": "/etc/a"},
                {"contents": {"source": ""}, "overwrite": true, "path": "/etc/b"},
            ]},
            "systemd": {"units": [
                {"dropins": [
                    {"contents": "[Unit]\nA=new\n", "name": "one.conf"}, {"name": "two.conf"},
                ], "name": "u.service"},
                {"enabled": false, "mask": true, "name": "v.service"},
            ]},
        })
    );
}

#[test]
fn specification_2_may_say_what_3_cannot() {
    let two = json!({
        "ignition": {"version": "2.1.0"},
        "networkd": {"units": [{"name": "a.network"}]},
        "passwd": {"users": [{"name": "root"}]},
        "storage": {
            "filesystems": [{"name": "data", "mount": {"device": "/dev/vdb", "format": "ext4"}}],
            "files": [{"filesystem": "data", "path": "/x"}],
        },
    });
    assert_eq!(
        refused(&two),
        "networkd.units: networkd units are not supported; \
         storage.files[0].filesystem: filesystem must be \"root\", is \"data\"; \
         storage.filesystems[0].name: filesystem must be \"root\", is \"data\"; \
         passwd.users[0].name: unexpected user with name: root. Only core user is supported"
    );
}

#[test]
fn what_is_printed_is_read_back() {
    for line in include_str!("../tests/fixtures/validate.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let Ok((config, _)) = parse(&case["config"]) else {
            continue;
        };
        let (again, warnings) = read(&config.to_value());
        assert_eq!(again, config);
        assert_eq!(
            warnings
                .iter()
                .filter(|message| message.contains("left out"))
                .count(),
            0
        );
    }
}
