//! What a pool selects by labels.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::{ParseExpressionError, SelectorExt as _};

/// The label selector of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Absent: selects nothing.
    Nothing,
    /// `{}`: would select every node, which is a mistake in a pool. Selects nothing, and is
    /// reported.
    Everything,
    /// At least one requirement.
    Labels(kube::core::Selector),
}

/// Why a selector cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} cannot be read: {requirement}")]
pub struct InvalidSelector {
    /// Path of the field in the pool.
    pub field: &'static str,
    pub requirement: InvalidRequirement,
}

/// A requirement of a selector that there cannot be: its operator and key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequirement {
    /// Values are missing.
    #[error("operator {0} on key {1} needs values")]
    NeedsValues(String, String),
    #[error("operator {0} on key {1} takes no values")]
    TakesNoValues(String, String),
    #[error("there is no operator {0:?} (on key {1})")]
    NoOperator(String, String),
    /// What the client library says of another.
    #[error("{0}")]
    Unparsed(String),
}

impl Selector {
    /// Reads the selector in `field` of a pool.
    ///
    /// # Errors
    /// For an operator that there is not, or values where there must be none, or none where there
    /// must be some: the API server accepts them in a custom resource.
    pub fn parse(
        field: &'static str,
        selector: Option<&LabelSelector>,
    ) -> Result<Self, InvalidSelector> {
        let Some(selector) = selector else {
            return Ok(Self::Nothing);
        };
        for requirement in selector.match_expressions.iter().flatten() {
            check(requirement).map_err(|requirement| InvalidSelector { field, requirement })?;
        }
        let selector = kube::core::Selector::try_from(selector.clone()).map_err(
            |ParseExpressionError(why)| InvalidSelector {
                field,
                requirement: InvalidRequirement::Unparsed(why),
            },
        )?;
        Ok(if selector.selects_all() {
            Self::Everything
        } else {
            Self::Labels(selector)
        })
    }

    /// Whether it selects an object with these labels.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Nothing | Self::Everything => false,
            Self::Labels(selector) => selector.matches(labels),
        }
    }
}

fn check(requirement: &LabelSelectorRequirement) -> Result<(), InvalidRequirement> {
    let LabelSelectorRequirement {
        key,
        operator,
        values,
    } = requirement;
    let empty = values.as_ref().is_none_or(Vec::is_empty);
    let fault = match operator.as_str() {
        "In" | "NotIn" if empty => InvalidRequirement::NeedsValues,
        "Exists" | "DoesNotExist" if !empty => InvalidRequirement::TakesNoValues,
        "In" | "NotIn" | "Exists" | "DoesNotExist" => return Ok(()),
        _ => InvalidRequirement::NoOperator,
    };
    Err(fault(operator.clone(), key.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{InvalidSelector, LabelSelector, Selector};

    fn read(selector: Value) -> LabelSelector {
        serde_json::from_value(selector).unwrap()
    }

    fn parse(selector: Value) -> Result<Selector, InvalidSelector> {
        Selector::parse("spec.nodeSelector", Some(&read(selector)))
    }

    fn matches(selector: Value, labels: Value) -> bool {
        parse(selector)
            .unwrap()
            .matches(&serde_json::from_value(labels).unwrap())
    }

    #[test]
    fn absent_and_empty_select_nothing() {
        assert_eq!(Selector::parse("f", None), Ok(Selector::Nothing));
        assert_eq!(parse(json!({})), Ok(Selector::Everything));
        assert!(!matches(json!({ "matchLabels": {} }), json!({ "a": "b" })));
    }

    #[test]
    fn labels_and_expressions_are_anded() {
        let selector = json!({
            "matchLabels": { "a": "1" },
            "matchExpressions": [
                { "key": "b", "operator": "In", "values": ["2", "3"] },
                { "key": "c", "operator": "DoesNotExist" }
            ]
        });
        assert!(matches(selector.clone(), json!({ "a": "1", "b": "3" })));
        assert!(!matches(selector.clone(), json!({ "a": "1", "b": "4" })));
        assert!(!matches(selector.clone(), json!({ "a": "1" })));
        assert!(!matches(selector, json!({ "a": "1", "b": "2", "c": "" })));
    }

    #[test]
    fn invalid_requirement_is_reported_with_its_key() {
        for (requirement, why) in [
            (
                json!({ "key": "a", "operator": "Like", "values": ["b"] }),
                "there is no operator \"Like\" (on key a)",
            ),
            (
                json!({ "key": "a", "operator": "In" }),
                "operator In on key a needs values",
            ),
            (
                json!({ "key": "a", "operator": "NotIn", "values": [] }),
                "operator NotIn on key a needs values",
            ),
            (
                json!({ "key": "a", "operator": "Exists", "values": ["b"] }),
                "operator Exists on key a takes no values",
            ),
        ] {
            let error = parse(json!({ "matchExpressions": [requirement] })).unwrap_err();
            let expected = format!("spec.nodeSelector cannot be read: {why}");
            assert_eq!(error.to_string(), expected);
        }
    }
}
