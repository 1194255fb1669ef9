//! The name of a rendered configuration: a hash of its spec.
//!
//! The name is `rendered-<pool>-<hash>`. The hash is the MD5 of a constant salt and the spec as
//! YAML, so equal specs have equal names and a changed spec gets a new name
//! (`docs/reference/controller.md`, "Rendered name"). The YAML equals, byte for byte, that of
//! OpenShift's MCO: an adopted cluster keeps its names, and no node is updated without a change.
//! MD5 protects nothing here; it is part of the name's format.

mod scalar;
mod yaml;

use md5::{Digest as _, Md5};
use serde_json::Value;

use crate::spec::NodeConfig;

/// Eighty bytes before the spec; part of the form.
const SALT: [u8; 80] = [
    0x10, 0x7c, 0xce, 0xe4, 0x8b, 0x38, 0xaf, 0xaf, 0x4f, 0xe5, 0x86, 0x76, 0x9d, 0x9a, 0xd3, 0x6e,
    0x19, 0x5d, 0x2f, 0xfd, 0xac, 0x6a, 0x25, 0x07, 0xae, 0x0d, 0xa0, 0xb9, 0x6e, 0x11, 0x57, 0x34,
    0xdb, 0x83, 0x0c, 0xce, 0xda, 0x8d, 0x74, 0x87, 0xbc, 0xb5, 0xc0, 0x97, 0xe9, 0x3e, 0x7e, 0xa5,
    0x40, 0x53, 0xb3, 0x77, 0x0f, 0xa8, 0xd0, 0xc5, 0x92, 0x6b, 0x3a, 0xe3, 0x85, 0xbc, 0xee, 0x1a,
    0x21, 0x1a, 0xeb, 0xca, 0x20, 0xad, 0x1f, 0xea, 0x29, 0x90, 0x94, 0x4f, 0x06, 0xce, 0x17, 0x16,
];

/// The name of a rendered configuration of `pool`.
///
/// Shape: `spec` is the whole spec as JSON, all seven members present, the Ignition configuration
/// printed by [`ignition::Config::to_value`]. Source: `docs/reference/controller.md`, "Rendered
/// name".
pub fn rendered_name(pool: &str, spec: &Value) -> String {
    let mut hash = Md5::new();
    hash.update(SALT);
    hash.update(yaml::print(spec));
    format!("rendered-{pool}-{}", hex::encode(hash.finalize()))
}

/// Whether a name has the form of a rendered configuration's of `pool`.
pub fn is_rendered_name(pool: &str, name: &str) -> bool {
    let hash = name
        .strip_prefix("rendered-")
        .and_then(|rest| rest.strip_prefix(pool)?.strip_prefix('-'));
    hash.is_some_and(|hash| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The pool in the name of a rendered configuration; `None` for a name of another form.
pub fn pool_of(name: &str) -> Option<&str> {
    let (pool, hash) = name.strip_prefix("rendered-")?.rsplit_once('-')?;
    (!pool.is_empty() && !hash.is_empty()).then_some(pool)
}

/// Whether a MachineConfig, as JSON, has the content that its name is the digest of. One that
/// cannot be read has not.
pub fn is_as_rendered(pool: &str, object: &Value) -> bool {
    NodeConfig::in_force(object)
        .is_ok_and(|(config, _)| rendered_name(pool, &config.spec.to_value()) == config.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rendered_name_has_its_pool() {
        for (name, pool) in [
            ("rendered-worker-0123", Some("worker")),
            ("rendered-gpu-small-0123", Some("gpu-small")),
            ("rendered--0123", None),
            ("rendered-worker-", None),
            ("rendered-worker", None),
            ("00-worker", None),
        ] {
            assert_eq!(pool_of(name), pool, "{name}");
        }
        let rendered = rendered_name("gpu-small", &json!({}));
        assert_eq!(pool_of(&rendered), Some("gpu-small"));
    }

    #[test]
    fn an_edited_configuration_is_not_as_rendered() {
        let file = json!({ "path": "/etc/a", "mode": 420, "contents": { "source": "data:,a" } });
        let source = crate::render::Source {
            name: "50-a".to_owned(),
            role: Some("worker".to_owned()),
            generated_by: None,
            spec: json!({
                "kernelArguments": ["a=1"],
                "config": { "ignition": { "version": "3.4.0" }, "storage": { "files": [file] } }
            }),
        };
        let base = crate::render::Base::default();
        let rendered = crate::render::render("worker", &[source], &base).unwrap();
        let mut object = json!({
            "metadata": { "name": rendered.name }, "spec": rendered.spec.to_value()
        });
        assert!(is_as_rendered("worker", &object));
        assert!(!is_as_rendered("master", &object));
        for (field, value) in [
            ("/spec/kernelArguments", json!(["a=1", "b=2"])),
            (
                "/spec/config/storage/files/0/contents/source",
                json!("data:,b"),
            ),
            ("/spec/fips", json!("not read")),
        ] {
            let before = object.clone();
            *object.pointer_mut(field).unwrap() = value;
            assert!(!is_as_rendered("worker", &object), "{field}");
            object = before;
        }
    }

    #[test]
    fn names_of_any_other_form_are_none_of_a_rendered_configuration() {
        let hash = "700188197863063935efbc7c9ae4e300";
        for (pool, name, is_rendered) in [
            ("worker", format!("rendered-worker-{hash}"), true),
            ("worker-a", format!("rendered-worker-a-{hash}"), true),
            ("worker", format!("rendered-worker-a-{hash}"), false),
            ("worker", format!("rendered-master-{hash}"), false),
            ("worker", "rendered-worker-by-hand".to_owned(), false),
            (
                "worker",
                format!("rendered-worker-{}", "g".repeat(32)),
                false,
            ),
        ] {
            assert_eq!(is_rendered_name(pool, &name), is_rendered, "{pool} {name}");
        }
    }

    #[test]
    fn the_salt_is_the_originals() {
        assert_eq!(
            hex::encode(Md5::digest(SALT)),
            "700188197863063935efbc7c9ae4e300"
        );
    }

    /// The expected values are those of `ghodss/yaml` 1.0.0 over `go-yaml` 2.4.0.
    #[test]
    fn names_equal_those_of_the_mco() {
        for line in include_str!("../tests/fixtures/name.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let theirs = &case["answer"];
            assert_eq!(yaml::print(&case["spec"]), theirs["yaml"].as_str().unwrap());
            let hash = theirs["md5"].as_str().unwrap();
            assert_eq!(
                rendered_name("worker", &case["spec"]),
                format!("rendered-worker-{hash}")
            );
        }
    }
}
