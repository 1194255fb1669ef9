//! What a program that is written in Go, or a template with nothing filled in, makes of an object:
//! each optional field zero, empty or null.
//!
//! The definition of a kind names the fields. Each is set to its zero, where the object has none
//! and in place of a value. What is made of it must be what is made without the field, or a refusal
//! that names the field.

#![expect(
    clippy::indexing_slicing,
    reason = "for tests: a member that JSON lacks is null, and indices are those of its own list"
)]

use serde_json::{Value, json};

/// Path of a definition in the checkout, and its text.
pub type Definition = (&'static str, &'static str);

/// The [`Definition`] at a path of the checkout, for a crate in `src/`.
#[macro_export]
macro_rules! definition {
    ($path:literal) => {
        (
            $path,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $path)),
        )
    };
}

/// What came of all values.
#[derive(Debug, Default)]
pub struct ZerosTried {
    /// How many there were.
    pub count: usize,
    /// One line for each that is neither taken for unset nor refused by name.
    pub faults: String,
}

/// A value that is set, and the same object without it.
#[derive(Debug)]
struct Zero {
    /// As a person writes it, such as `spec.a.b[0]`.
    path: String,
    object: Value,
    absent: Value,
}

/// Tries each zero below `part` (`spec` or `status`) of `object`.
///
/// `made` is what the program makes of an object, as a text, or why it refuses it. `wishes` are
/// fields whose zero is a wish: their types tell it from an absent one.
pub fn check(
    (name, text): Definition,
    part: &str,
    object: &Value,
    wishes: &[&str],
    made: impl Fn(Value) -> Result<String, String>,
) -> ZerosTried {
    let mut tried = ZerosTried::default();
    let Some(schema) = schema(text) else {
        tried.faults = format!("{name}: it has no schema\n");
        return tried;
    };
    if let Err(why) = made(object.clone()) {
        tried.faults = format!("{name}: the object itself is refused: {why}\n");
        return tried;
    }
    let put = |value: Value| {
        let mut object = object.clone();
        object[part] = value;
        object
    };
    let mut zeros = Vec::new();
    let schema = &schema["properties"][part];
    collect(schema, &object[part], part, &put, &mut zeros);
    tried.count = zeros.len();
    for zero in zeros {
        let before = made(zero.absent);
        // The field, or what it is a part of.
        let mut fields = zero.path.split(['.', '[']).skip(1);
        let fault = match made(zero.object) {
            after if after == before || wishes.contains(&zero.path.as_str()) => continue,
            Err(why) if fields.any(|field| why.contains(field)) => continue,
            Ok(after) => match before {
                Ok(before) => difference(&before, &after),
                Err(why) => format!("is taken, and without it the object is refused: {why}"),
            },
            Err(why) => format!("is refused without its name: {why}"),
        };
        tried
            .faults
            .extend([format!("{name}: {} {fault}\n", zero.path)]);
    }
    tried
}

/// The first line in which two texts differ.
fn difference(before: &str, after: &str) -> String {
    let lines = before.lines().zip(after.lines());
    let (before, after) = lines
        .into_iter()
        .find(|(before, after)| before != after)
        .unwrap_or((before, after));
    format!("makes {after:?} in place of {before:?}")
}

/// The schema of a definition's stored version.
fn schema(definition: &str) -> Option<Value> {
    let definition: Value = serde_saphyr::from_str(definition).ok()?;
    let versions = definition["spec"]["versions"].as_array()?;
    let mut stored = versions.iter().filter(|version| version["storage"] == true);
    Some(stored.next()?["schema"]["openAPIV3Schema"].clone())
}

/// All values that can be set in `value`, which is at `path`. `put` makes the whole object of it.
fn collect(
    schema: &Value,
    value: &Value,
    path: &str,
    put: &dyn Fn(Value) -> Value,
    zeros: &mut Vec<Zero>,
) {
    let required = schema["required"].as_array();
    let is_required = |name: &str| {
        required.is_some_and(|names| names.iter().any(|one| one.as_str() == Some(name)))
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let with = |new: Value| {
            let mut whole = value.clone();
            whole[name.as_str()] = new;
            put(whole)
        };
        let absent = || {
            let mut whole = value.clone();
            if let Some(fields) = whole.as_object_mut() {
                fields.remove(name);
            }
            put(whole)
        };
        if !is_required(name) {
            zeros.extend(values(field).into_iter().map(|value| Zero {
                path: path.clone(),
                object: with(value),
                absent: absent(),
            }));
        }
        match value.get(name) {
            Some(present) if present.is_object() => collect(field, present, &path, &with, zeros),
            Some(present) => {
                for (index, member) in present.as_array().into_iter().flatten().enumerate() {
                    let path = format!("{path}[{index}]");
                    let put = |new: Value| {
                        let mut list = present.clone();
                        list[index] = new;
                        with(list)
                    };
                    collect(&field["items"], member, &path, &put, zeros);
                }
            }
            // Below an object that is there for this alone.
            None if field["required"].is_null() => {
                collect(field, &json!({}), &path, &with, zeros);
            }
            None => {}
        }
    }
}

/// What the API server lets pass of zero, empty and null.
fn values(schema: &Value) -> Vec<Value> {
    let is_few = |key: &str| schema[key].as_f64().unwrap_or_default() <= 0.0;
    let is = |key: &str| schema[key] == true;
    let mut values = Vec::new();
    if is("nullable") || is("x-kubernetes-preserve-unknown-fields") {
        values.push(Value::Null);
    }
    let of_type = match schema["type"].as_str().unwrap_or_default() {
        "string" if is_few("minLength") && schema["pattern"].is_null() => vec![json!("")],
        "integer" | "number" if is_few("minimum") => vec![json!(0)],
        "boolean" => vec![json!(false)],
        "array" if is_few("minItems") => {
            let mut lists = vec![json!([])];
            let members = self::values(&schema["items"]).into_iter();
            let empty = members.filter(|member| *member == "");
            lists.extend(empty.map(|member| json!([member])));
            lists
        }
        "object" if is_few("minProperties") && schema["required"].is_null() => vec![json!({})],
        _ => Vec::new(),
    };
    let allowed = schema["enum"].as_array();
    values.extend(
        of_type
            .into_iter()
            .filter(|value| allowed.is_none_or(|allowed| allowed.contains(value))),
    );
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: Definition = (
        "a.yaml",
        "spec: {versions: [{storage: true, schema: {openAPIV3Schema: {properties: {spec: {\
         required: [need], properties: {\
         need: {type: string}, name: {type: string}, count: {type: integer}, \
         many: {type: array, items: {properties: {on: {type: boolean}}}}}}}}}}]}",
    );

    fn tried(made: fn(Value) -> Result<String, String>) -> ZerosTried {
        let object = json!({ "spec": { "need": "n", "name": "a", "many": [{}] } });
        check(DEFINITION, "spec", &object, &[], made)
    }

    #[test]
    fn zero_must_be_unset_or_refused_by_name() {
        let filled = tried(|object| {
            let spec = &object["spec"];
            let name = spec["name"].as_str().filter(|name| !name.is_empty());
            let count = spec["count"].as_u64().filter(|count| *count > 0);
            Ok(format!("{name:?} {count:?}"))
        });
        assert_eq!((filled.count, filled.faults.as_str()), (4, ""));
        let counted = tried(|object| Ok(object["spec"]["count"].to_string()));
        let expected = "a.yaml: spec.count makes \"0\" in place of \"null\"\n";
        assert_eq!(counted.faults, expected);
        let named = tried(|object| {
            let is_empty = object["spec"]["name"] == "";
            if is_empty {
                Err("spec.name: it is empty".to_owned())
            } else {
                Ok(String::new())
            }
        });
        assert_eq!(named.faults, "");
        let unnamed = tried(|object| {
            let is_empty = object["spec"]["name"] == "";
            if is_empty {
                Err("invalid".to_owned())
            } else {
                Ok(String::new())
            }
        });
        let expected = "a.yaml: spec.name is refused without its name: invalid\n";
        assert_eq!(unnamed.faults, expected);
        let none = tried(|_| Err("never".to_owned()));
        assert_eq!(none.faults, "a.yaml: the object itself is refused: never\n");
    }
}
