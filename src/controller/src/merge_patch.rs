//! Merge patches of whole objects.

use serde_json::{Map, Value};

/// The merge patch that makes `to` of `from`, and leaves nothing of `from`.
pub(crate) fn replacement(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let mut patch = Map::new();
    for (key, value) in to {
        match from.get(key) {
            Some(present) if present == value => {}
            present => {
                let present = present.unwrap_or(&Value::Null);
                patch.insert(key.clone(), replacement(present, value));
            }
        }
    }
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_replacement_leaves_nothing_of_what_was_there() {
        let from = json!({ "a": 1, "b": { "c": [1, 2], "d": "x" }, "e": {} });
        let to = json!({ "a": 1, "b": { "c": [2] }, "f": { "g": true } });
        assert_eq!(
            replacement(&from, &to),
            json!({ "b": { "c": [2], "d": null }, "e": null, "f": { "g": true } })
        );
        assert_eq!(replacement(&to, &to), json!({}));
        assert_eq!(replacement(&json!(3), &to), to);
    }
}
