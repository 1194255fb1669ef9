//! Definitions of kinds.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::ControlPlane;
use crate::wait::until_blocking;

/// How long the API server may take to serve them.
const SERVED_WITHIN: Duration = Duration::from_mins(1);

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl ControlPlane {
    /// Applies the definitions in a file or a folder, and waits until the API server serves their
    /// kinds. `kubectl wait` fails where it meets one without a status.
    ///
    /// # Errors
    /// They are refused, or not served in time.
    pub fn define(&self, path: &str) -> Result<()> {
        self.kubectl(&["apply", "--server-side", "-f", path])?;
        until_blocking(
            "definitions to be served",
            SERVED_WITHIN,
            LOOK_EVERY,
            || {
                let printed = self.kubectl(&["get", "-f", path, "--output=json"])?;
                let printed: Value = serde_json::from_str(&printed).context("kubectl get")?;
                let one = std::slice::from_ref(&printed);
                let all = printed
                    .get("items")
                    .and_then(Value::as_array)
                    .map_or(one, Vec::as_slice);
                let missing = all.iter().find(|definition| !is_established(definition));
                Ok(missing.map_or(Ok(()), |definition| {
                    Err(format!("{:?}", definition.pointer("/metadata/name")))
                }))
            },
        )
    }
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array);
    let is =
        |condition: &Value, key, word| condition.get(key).and_then(Value::as_str) == Some(word);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| is(condition, "type", "Established") && is(condition, "status", "True"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_is_established_by_its_condition() {
        let of = |status: &Value| is_established(&json!({ "status": status }));
        let condition =
            |status| json!({ "conditions": [{ "type": "Established", "status": status }] });
        assert!(of(&condition("True")));
        for status in [
            json!(null),
            json!({ "conditions": null }),
            condition("False"),
        ] {
            assert!(!of(&status), "{status}");
        }
    }
}
