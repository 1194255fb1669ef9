//! Conditions of any kind: their status, the one writer of their lists, and enums that keep what
//! they do not know.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a condition holds.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Not determined yet. Also what an empty or foreign status counts as.
    #[default]
    #[serde(other)]
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        })
    }
}

/// A condition in the form of `metav1.Condition`, with the closed set of types `T`.
///
/// Shape: all but `observedGeneration` are required; `reason` is CamelCase and not empty.
/// Source: Kubernetes API conventions, "Typical status properties".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition<T> {
    /// What it is about.
    pub r#type: T,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// Why, for programs.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// Why, for people; at most 32768 bytes.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// Generation of the object that it was set from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// A condition in a list that holds each type once.
///
/// The forms of conditions differ in which fields they require; `set` and `find` need only these
/// parts, which every form has.
pub trait Listed {
    /// What tells one condition of a list from another.
    type Type: PartialEq;

    /// What it is about.
    fn r#type(&self) -> &Self::Type;

    /// Whether it holds.
    fn status(&self) -> ConditionStatus;

    /// Takes over when `present`, a condition of the same type, last changed.
    fn keep_transition_time(&mut self, present: &Self);
}

impl<T: PartialEq> Listed for Condition<T> {
    type Type = T;

    fn r#type(&self) -> &T {
        &self.r#type
    }

    fn status(&self) -> ConditionStatus {
        self.status
    }

    fn keep_transition_time(&mut self, present: &Self) {
        self.last_transition_time
            .clone_from(&present.last_transition_time);
    }
}

/// Puts `condition` into its list: in the place of the one of its type, or last.
///
/// Shape: `condition` has the time of now as its time of transition, which stays only if the status
/// differs from the present one's. Conditions of other types keep their content and places.
/// Source: Kubernetes API conventions, "Typical status properties".
pub fn set<C: Listed>(conditions: &mut Vec<C>, mut condition: C) {
    let present = conditions
        .iter_mut()
        .find(|present| present.r#type() == condition.r#type());
    match present {
        Some(present) => {
            if present.status() == condition.status() {
                condition.keep_transition_time(present);
            }
            *present = condition;
        }
        None => conditions.push(condition),
    }
}

/// The condition of a type.
pub fn find<'a, C: Listed>(conditions: &'a [C], r#type: &C::Type) -> Option<&'a C> {
    conditions
        .iter()
        .find(|condition| condition.r#type() == r#type)
}

/// Declares an enum of known words that also keeps a word it does not know, because other writers
/// share the list it stands in.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(from = "String", into = "String")]
        $vis enum $name {
            $($(#[$doc])* $variant,)+
            /// A word of another writer, kept as it is.
            Other(String),
        }

        impl $name {
            /// Every word that is known.
            pub const KNOWN: &'static [&'static str] = &[$($word),+];

            /// The word as written in the API.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $($word => Self::$variant,)+
                    _ => Self::Other(word),
                }
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                match word {
                    $name::Other(word) => word,
                    known => known.as_str().to_owned(),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }
    };
}
pub(crate) use words;

#[cfg(test)]
mod tests;
