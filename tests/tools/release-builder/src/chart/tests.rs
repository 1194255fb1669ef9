use std::collections::BTreeSet;

use image_builder::component::COMPONENTS;
use serde_json::Value;

use super::*;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy");

fn pull_specs() -> BTreeMap<&'static str, PullSpec> {
    let all = COMPONENTS.iter().enumerate();
    let spec = |number| format!("quay.example/slipway/image-{number}@sha256:{number:064x}");
    all.map(|(number, component)| (component.name, spec(number).parse().unwrap()))
        .collect()
}

#[test]
fn each_object_stands_once() {
    let mut seen = BTreeSet::new();
    for file in objects::of(Path::new(DEPLOY)).unwrap() {
        for document in file.documents {
            let id = document.manifest.id;
            assert!(seen.insert(id.clone()), "{id} stands twice");
        }
    }
    assert!(seen.len() > 100, "{} objects", seen.len());
}

#[test]
fn no_component_is_named_without_a_value() {
    for file in objects::of(Path::new(DEPLOY)).unwrap() {
        let text = template::of(&file).unwrap();
        assert_eq!(
            images::names(&text),
            Vec::<&str>::new(),
            "{}",
            file.path.display()
        );
    }
}

/// Each value is in the schema with a description, and each of the schema is a value.
#[test]
fn the_schema_covers_every_value() {
    fn compare(path: &str, values: &Value, schema: &Value) {
        let description = schema["description"].as_str();
        assert!(description.is_some_and(|text| !text.is_empty()), "{path}");
        let Some(values) = values.as_object() else {
            return;
        };
        assert_eq!(schema["additionalProperties"], Value::Bool(false), "{path}");
        let properties = schema["properties"].as_object().unwrap();
        let names = properties.keys().filter(|name| *name != "global");
        assert!(names.eq(values.keys()), "{path}");
        for (name, value) in values {
            compare(&format!("{path}.{name}"), value, &properties[name]);
        }
    }
    let values = values::defaults(&pull_specs()).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    let schema: Value = serde_json::from_str(&values::schema().unwrap()).unwrap();
    compare("", &values, &schema);
}

#[test]
fn notes_have_three_lines() {
    assert_eq!(NOTES.lines().count(), 3);
}
