//! The results of the library that OpenShift's MCO uses, and the laws.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::arbitrary;
use crate::parse;

fn read(value: &Value) -> Config {
    parse(value).unwrap().0
}

fn files(file: &Value) -> Config {
    read(&json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}}))
}

/// The expected values are those of `coreos/ignition`, `config/v3_5`, over configurations made up
/// at random.
#[test]
fn configurations_merge_as_ignition_merges_them() {
    for line in include_str!("../../tests/fixtures/merge.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let configs = case["configs"].as_array().unwrap().iter().map(read);
        let merged = configs.reduce(merge).unwrap();
        assert_eq!(merged.to_value(), case["answer"], "{case}");
    }
}

#[test]
fn compression_and_hash_go_with_the_bytes() {
    let packed = "data:;base64,H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA==";
    let hash =
        json!({"hash": "sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"});
    let hashed = json!({"source": packed, "compression": "gzip", "verification": hash});
    let gzip = json!({"source": packed, "compression": "gzip"});
    let plain = json!({"source": "data:,plain"});
    let explicit = json!({"source": "data:,plain", "compression": ""});
    let nothing = json!({});
    let table = [
        ("unset over packed", &hashed, &plain, &plain),
        ("unset over marked as plain", &explicit, &plain, &plain),
        ("unset over unset", &plain, &plain, &plain),
        ("marked as plain over packed", &hashed, &explicit, &explicit),
        ("marked as plain over unset", &plain, &explicit, &explicit),
        ("packed over unset", &plain, &gzip, &gzip),
        ("packed over packed", &hashed, &gzip, &gzip),
        ("no bytes over packed", &hashed, &nothing, &hashed),
        (
            "no bytes over marked as plain",
            &explicit,
            &nothing,
            &explicit,
        ),
        ("packed over no bytes", &nothing, &hashed, &hashed),
    ];
    for (what, parent, child, expected) in table {
        let over = |contents: &Value| files(&json!({"path": "/etc/x", "contents": contents}));
        assert_eq!(merge(over(parent), over(child)), over(expected), "{what}");
    }
}

#[test]
fn a_path_that_changes_its_kind_is_the_childs() {
    let parent = read(&json!({"ignition": {"version": "3.5.0"}, "storage": {
        "files": [{"path": "/etc/a"}, {"path": "/etc/b"}], "links": [{"path": "/etc/c", "target": "/x"}],
    }}));
    let child = read(&json!({"ignition": {"version": "3.5.0"}, "storage": {
        "directories": [{"path": "/etc/a"}], "files": [{"path": "/etc/c"}],
    }}));
    let merged = merge(parent, child).to_value();
    assert_eq!(
        merged["storage"],
        json!({"directories": [{"path": "/etc/a"}], "files": [{"path": "/etc/b"}, {"path": "/etc/c"}]})
    );
}

#[test]
fn a_header_without_a_value_removes_the_parents() {
    let authority = |headers: &Value| {
        let resource = json!({"source": "https://ca", "httpHeaders": headers});
        let tls = json!({"certificateAuthorities": [resource]});
        read(&json!({"ignition": {"version": "3.5.0", "security": {"tls": tls}}}))
    };
    let parent = authority(&json!([{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]));
    let child = authority(&json!([{"name": "a"}, {"name": "c", "value": "3"}]));
    let merged = merge(parent, child).to_value();
    assert_eq!(
        merged["ignition"]["security"]["tls"]["certificateAuthorities"][0]["httpHeaders"],
        json!([{"name": "b", "value": "2"}, {"name": "c", "value": "3"}])
    );
}

proptest! {
    #[test]
    fn merging_with_nothing_changes_nothing(config in arbitrary::full_config()) {
        prop_assert_eq!(&merge(config.clone(), Config::new()), &config);
        prop_assert_eq!(&merge(Config::new(), config.clone()), &config);
        prop_assert_eq!(&merge(config.clone(), config.clone()), &config);
    }

    #[test]
    fn merging_is_associative(
        a in arbitrary::full_config(),
        b in arbitrary::full_config(),
        c in arbitrary::full_config(),
    ) {
        let left = merge(merge(a.clone(), b.clone()), c.clone());
        let right = merge(a, merge(b, c));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn what_is_merged_is_read_back(
        a in arbitrary::full_config(),
        b in arbitrary::full_config(),
    ) {
        let merged = merge(a, b);
        let (again, _) = parse(&merged.to_value()).unwrap();
        prop_assert_eq!(again, merged);
    }
}
