//! Whether a response covers all stores.

use std::fmt;

use serde_json::Value;

/// The query parameter with which a querier of several stores refuses where one is away.
/// Prometheus ignores it.
///
/// Source: Thanos, Querier API, "Partial Response".
pub const REFUSED: &str = "partial_response=false";

/// A response that may lack what a store has that is away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PartialResponse {
    /// The first warning.
    pub warning: String,
    /// How many more warnings there are.
    pub more: usize,
}

impl fmt::Display for PartialResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the answer may be partial: {}", self.warning)?;
        match self.more {
            0 => Ok(()),
            more => write!(formatter, ", and {more} more warnings"),
        }
    }
}

/// Whether a response of the query API has no warnings.
///
/// With a store away, a querier responds `success` with `warnings`, by what the others have: a sum
/// without the series that fail looks like health.
///
/// # Errors
/// It has.
pub fn check_whole(response: &Value) -> Result<(), PartialResponse> {
    let warnings = match response.get("warnings") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(warnings)) => warnings.as_slice(),
        Some(other) => std::slice::from_ref(other),
    };
    let Some(first) = warnings.first() else {
        return Ok(());
    };
    Err(PartialResponse {
        warning: first
            .as_str()
            .map_or_else(|| first.to_string(), str::to_owned),
        more: warnings.len() - 1,
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
            let partial = check_whole(&response).err();
            assert_eq!(
                partial.map(|partial| partial.to_string()),
                expected,
                "{response}"
            );
        }
    }
}
