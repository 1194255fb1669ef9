//! Whether a response covers all stores.

use serde_json::Value;

/// The query parameter with which a querier of several stores refuses where one is away.
/// Prometheus ignores it.
///
/// Source: Thanos, Querier API, "Partial Response".
pub const REFUSED: &str = "partial_response=false";

/// Whether a response of the query API has no warnings.
///
/// With a store away, a querier responds `success` with `warnings`, by what the others have: a sum
/// without the series that fail looks like health.
///
/// # Errors
/// The first warning, and how many more there are.
pub fn check_whole(response: &Value) -> Result<(), String> {
    let warnings = match response.get("warnings") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(warnings)) => warnings.as_slice(),
        Some(other) => std::slice::from_ref(other),
    };
    let Some(first) = warnings.first() else {
        return Ok(());
    };
    let first = first
        .as_str()
        .map_or_else(|| first.to_string(), str::to_owned);
    Err(match warnings.len() - 1 {
        0 => format!("the answer may be partial: {first}"),
        more => format!("the answer may be partial: {first}, and {more} more warnings"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answer_with_warnings_is_not_whole() {
        let prefix = "the answer may be partial: ";
        let table = [
            (json!({}), None),
            (json!({ "warnings": null }), None),
            (json!({ "warnings": [] }), None),
            (json!({ "infos": ["metric might not be a counter"] }), None),
            (json!({ "warnings": ["a is away"] }), Some("a is away")),
            (
                json!({ "warnings": ["a is away", "b", "c"] }),
                Some("a is away, and 2 more warnings"),
            ),
            (json!({ "warnings": "a" }), Some("a")),
            (json!({ "warnings": [{ "a": 1 }] }), Some("{\"a\":1}")),
        ];
        for (response, expected) in table {
            let expected = expected.map(|text| format!("{prefix}{text}"));
            assert_eq!(check_whole(&response).err(), expected, "{response}");
        }
    }
}
