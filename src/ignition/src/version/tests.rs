//! Members and versions beside those of the crate `ignition-config`, whose types are made from
//! Ignition's JSON schemas.

use ignition_config::{v3_0, v3_1, v3_2, v3_3, v3_4, v3_5};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::*;
use crate::{Config, parse};

/// A configuration of version 3.5.0 that sets every member.
fn full() -> Value {
    serde_json::from_str(include_str!("../../tests/fixtures/full.json")).unwrap()
}

/// What the reader of one version sees of a configuration.
fn seen_by<T: DeserializeOwned + Serialize>(value: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(value.clone()).unwrap()).unwrap()
}

#[test]
fn full_configuration_sets_every_member_of_both_crates() {
    let theirs: v3_5::Config = serde_json::from_value(full()).unwrap();
    let text = format!("{theirs:?}");
    assert!(!text.contains("None") && !text.contains("[]"), "{text}");
    assert_eq!(serde_json::to_value(&theirs).unwrap(), full());

    let ours: Config = serde_json::from_value(full()).unwrap();
    let text = format!("{ours:?}");
    assert!(!text.contains("None") && !text.contains("[]"), "{text}");
    assert_eq!(ours.to_value(), full());
}

#[test]
fn each_version_has_the_members_that_ignition_config_has() {
    let seen_by: [fn(&Value) -> Value; 6] = [
        seen_by::<v3_0::Config>,
        seen_by::<v3_1::Config>,
        seen_by::<v3_2::Config>,
        seen_by::<v3_3::Config>,
        seen_by::<v3_4::Config>,
        seen_by::<v3_5::Config>,
    ];
    for (minor, seen_by) in (0..).zip(seen_by) {
        let mut ours = full();
        drop_newer(&mut ours, minor);
        assert_eq!(ours, seen_by(&full()), "3.{minor}.0");
    }
}

/// `$.storage.files.1.mode` as `storage.files[1].mode`.
fn field(unused_key: &str) -> String {
    let mut field = String::new();
    for part in unused_key.split('.').skip(1) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            field.push('[');
            field.push_str(part);
            field.push(']');
        } else {
            if !field.is_empty() {
                field.push('.');
            }
            field += part;
        }
    }
    field
}

#[test]
fn the_same_members_are_unknown_to_ignition_config() {
    let mut documents = vec![
        r#"{"ignition": {"version": "3.5.0", "color": "red"}, "units": [{"name": "x"}], "storage":
            {"files": [{"path": "/a"}, {"path": "/b", "contents": {"sauce": "data:,x"}}]}}"#
            .to_owned(),
        r#"{"ignition": {"version": "3.1.0"}, "kernelArguments": {"shouldExist": ["a"]}, "passwd":
            {"users": [{"name": "core", "shouldExist": true}]}, "storage": {"luks": [{"name": "x"}]}}"#
            .to_owned(),
    ];
    for line in include_str!("../../tests/fixtures/validate.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        documents.push(case["config"].to_string());
    }
    let (mut compared, mut unknown) = (0, 0);
    for document in documents {
        let value: Value = serde_json::from_str(&document).unwrap();
        let (Ok((_, warnings)), Ok((_, unused))) =
            (parse(&value), ignition_config::Config::parse_str(&document))
        else {
            continue;
        };
        let lost = warnings
            .iter()
            .filter(|warning| warning.text.contains("left out"));
        let mut ours: Vec<String> = lost.map(|warning| warning.field.clone()).collect();
        let mut theirs: Vec<String> = unused
            .iter()
            .map(|warning| match warning {
                ignition_config::Warning::UnusedKey(key) => field(key),
                other => panic!("{other}"),
            })
            .collect();
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{document}");
        compared += 1;
        unknown += ours.len();
    }
    assert!(
        compared > 60 && unknown > 5,
        "{compared} compared, {unknown} unknown"
    );
}
