//! What differs between two MachineConfigs.
//!
//! Law: `diff(a, a)` is empty.

use std::collections::BTreeMap;
use std::fmt;

use machineconfig::spec::Spec;

/// What differs, by section. Source: `docs/reference/daemon.md`, "Differences".
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each section, none decides alone"
)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// `osImageURL`.
    pub os: bool,
    /// `kernelArguments`, one each; order matters.
    pub kernel_arguments: bool,
    pub fips: bool,
    /// Users or groups.
    pub passwd: bool,
    /// Files, by path. A mode or an owner counts.
    pub files: Changes,
    /// Units, by name. A drop-in or enablement counts.
    pub units: Changes,
    /// `kernelType`.
    pub kernel_type: bool,
    /// `extensions`; order matters.
    pub extensions: bool,
}

/// What came, went and changed in a list, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// New, in the order of the new list.
    pub added: Vec<String>,
    /// Gone, in the order of the old list.
    pub removed: Vec<String>,
    /// In both, not equal; in the order of the new list.
    pub changed: Vec<String>,
}

/// Compares what two MachineConfigs ask for.
pub fn diff(old: &Spec, new: &Spec) -> Diff {
    let (before, after) = (&old.ignition, &new.ignition);
    Diff {
        os: old.os_image_url != new.os_image_url,
        kernel_arguments: old.split_kernel_arguments() != new.split_kernel_arguments(),
        fips: old.fips != new.fips,
        passwd: before.passwd != after.passwd,
        files: changes(&before.storage.files, &after.storage.files, |file| {
            &file.path
        }),
        units: changes(&before.systemd.units, &after.systemd.units, |unit| {
            &unit.name
        }),
        kernel_type: old.kernel_type != new.kernel_type,
        extensions: old.extensions != new.extensions,
    }
}

/// Compares two lists by key. A list holds a key once: configurations are valid.
fn changes<T: PartialEq>(old: &[T], new: &[T], key: fn(&T) -> &String) -> Changes {
    let before: BTreeMap<&String, &T> = old.iter().map(|item| (key(item), item)).collect();
    let after: BTreeMap<&String, &T> = new.iter().map(|item| (key(item), item)).collect();
    let mut changes = Changes::default();
    for item in new {
        match before.get(key(item)) {
            None => changes.added.push(key(item).clone()),
            Some(other) if *other != item => changes.changed.push(key(item).clone()),
            Some(_) => {}
        }
    }
    let gone = old.iter().map(key).filter(|key| !after.contains_key(key));
    changes.removed = gone.cloned().collect();
    changes
}

impl Diff {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Changes {
    pub const fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// Every key that differs: new ones, changed ones, then those gone.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let all = self.added.iter().chain(&self.changed).chain(&self.removed);
        all.map(String::as_str)
    }
}

/// As OpenShift's MCO logs it: `{osUpdate:true kargs:false …}`.
impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{osUpdate:{} kargs:{} fips:{} passwd:{} files:{} units:{} kernelType:{} extensions:{}}}",
            self.os,
            self.kernel_arguments,
            self.fips,
            self.passwd,
            !self.files.is_empty(),
            !self.units.is_empty(),
            self.kernel_type,
            self.extensions,
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use ignition::arbitrary;

    fn spec(spec: &Value) -> Spec {
        Spec::parse(spec).unwrap().0
    }

    fn files(files: &Value) -> Spec {
        spec(&json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": files}}}))
    }

    #[test]
    fn files_differ_by_content_mode_and_owner() {
        let old = files(&json!([
            {"path": "/gone"}, {"path": "/same"}, {"path": "/mode", "mode": 420}, {"path": "/owner"},
        ]));
        let new = files(&json!([
            {"path": "/new"}, {"path": "/owner", "user": {"id": 1}}, {"path": "/mode", "mode": 384},
            {"path": "/same"},
        ]));
        let expected = Changes {
            added: vec!["/new".to_owned()],
            removed: vec!["/gone".to_owned()],
            changed: vec!["/owner".to_owned(), "/mode".to_owned()],
        };
        assert_eq!(
            diff(&old, &new),
            Diff {
                files: expected,
                ..Diff::default()
            }
        );
    }

    #[test]
    fn each_section_is_named() {
        for (new, said) in [
            (json!({"osImageURL": "x"}), "osUpdate"),
            (json!({"kernelArguments": ["x"]}), "kargs"),
            (json!({"fips": true}), "fips"),
            (json!({"kernelType": "realtime"}), "kernelType"),
            (json!({"extensions": ["usbguard"]}), "extensions"),
            (
                json!({"config": {"ignition": {"version": "3.5.0"},
                    "passwd": {"users": [{"name": "core"}]}}}),
                "passwd",
            ),
            (
                json!({"config": {"ignition": {"version": "3.5.0"},
                    "systemd": {"units": [{"name": "a.service"}]}}}),
                "units",
            ),
        ] {
            let diff = diff(&spec(&Value::Null), &spec(&new)).to_string();
            assert!(diff.contains(&format!("{said}:true")), "{diff}");
            assert_eq!(diff.matches("true").count(), 1, "{diff}");
        }
    }

    #[test]
    fn absent_and_empty_are_the_same_and_order_matters() {
        let list = |list: Value| spec(&json!({"kernelArguments": list}));
        assert!(diff(&list(Value::Null), &list(json!([]))).is_empty());
        assert!(diff(&list(json!(["a", "b"])), &list(json!(["b", "a"]))).kernel_arguments);
    }

    proptest! {
        #[test]
        fn a_configuration_does_not_differ_from_itself(config in arbitrary::full_config()) {
            let spec = Spec { ignition: config, ..spec(&Value::Null) };
            prop_assert!(diff(&spec, &spec).is_empty());
        }

        #[test]
        fn what_came_one_way_went_the_other(
            a in arbitrary::config(), b in arbitrary::config(),
        ) {
            let a = Spec { ignition: a, ..spec(&Value::Null) };
            let b = Spec { ignition: b, ..spec(&Value::Null) };
            let (there, back) = (diff(&a, &b), diff(&b, &a));
            prop_assert_eq!(&there.files.added, &back.files.removed);
            prop_assert_eq!(&there.units.added, &back.units.removed);
            prop_assert_eq!(there.is_empty(), back.is_empty());
        }
    }
}
