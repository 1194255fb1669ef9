//! JSON to types, with a warning for each member that the types do not know.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::json::{Json, TypeError};
use super::{Config, Error, Problem, VERSION, Warning, version};

/// Reads a configuration of version 3.`minor`.
pub(super) fn three(value: &Value, minor: u8) -> Result<(Config, Vec<Warning>), Error> {
    let mut value = value.clone();
    drop_nulls(&mut value);
    let mut warnings = version::drop_newer(&mut value, minor);
    let (mut config, unknown) = typed::<Config>(&value)?;
    VERSION.clone_into(&mut config.ignition.version);
    warnings.extend(unknown);
    Ok((config, warnings))
}

/// Reads `value` into `T` and names each member that was lost on the way.
///
/// What is lost is found by printing the result again, so that a type cannot forget to say what it
/// does not know. Members that are empty may be missing from the print: nothing is lost with them.
pub(super) fn typed<T>(value: &Value) -> Result<(T, Vec<Warning>), Error>
where
    T: DeserializeOwned + Serialize,
{
    let typed: T =
        serde_path_to_error::deserialize(Json(value)).map_err(|error| unreadable(&error))?;
    let printed = serde_json::to_value(&typed).unwrap_or_default();
    let mut lost = Vec::new();
    compare(value, &printed, "", &mut lost);
    let warnings = lost
        .into_iter()
        .map(|field| Warning {
            field,
            text: "is not known and is left out".to_owned(),
        })
        .collect();
    Ok((typed, warnings))
}

/// The member that has another type, without its text.
fn unreadable(error: &serde_path_to_error::Error<TypeError>) -> Error {
    Error::Invalid(vec![Problem {
        field: error.path().to_string(),
        why: error.inner().to_string(),
    }])
}

/// Removes members that are `null`: they count as absent, as in OpenShift's MCO.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, member| !member.is_null());
            object.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn compare(read: &Value, printed: &Value, at: &str, lost: &mut Vec<String>) {
    match (read, printed) {
        (Value::Object(read), Value::Object(printed)) => {
            for (name, member) in read {
                let field = if at.is_empty() {
                    name.clone()
                } else {
                    format!("{at}.{name}")
                };
                match printed.get(name) {
                    Some(printed) => compare(member, printed, &field, lost),
                    None if holds_nothing(member) => {}
                    // Perhaps a supported object, empty but for unsupported members.
                    None if member.is_object() => compare(member, &json!({}), &field, lost),
                    None => lost.push(field),
                }
            }
        }
        (Value::Array(read), Value::Array(printed)) => {
            for (index, (read, printed)) in read.iter().zip(printed).enumerate() {
                compare(read, printed, &format!("{at}[{index}]"), lost);
            }
        }
        _ => {}
    }
}

/// Whether a member says nothing: no text, no number but 0, no item and no member that does.
fn holds_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(holds_nothing),
    }
}
