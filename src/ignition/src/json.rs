//! JSON as serde's data model, with errors that hold what was found and expected as values:
//! `serde_json` has them as a sentence only.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    self, Deserializer, Expected, IntoDeserializer, SeqAccess as _, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// A JSON value to deserialize from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Json<'de>(pub(super) &'de Value);

/// Why a value cannot be read into a type.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypeError {
    /// The value is not of the type.
    Mismatch {
        /// What was found. It never holds a text: that may be the content of a file.
        found: String,
        expected: String,
    },
    /// All else, such as a missing member.
    Other,
}

impl de::Error for TypeError {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Other
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = if let Unexpected::Str(_) = found {
            "a string".to_owned()
        } else if found == Unexpected::Unit {
            "null".to_owned()
        } else {
            found.to_string()
        };
        Self::Mismatch {
            found,
            expected: expected.to_string(),
        }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::Mismatch {
            found: format!("invalid length {length}"),
            expected: expected.to_string(),
        }
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch { found, expected } => write!(f, "expected {expected}, found {found}"),
            Self::Other => f.write_str("cannot be read"),
        }
    }
}

impl std::error::Error for TypeError {}

impl<'de> IntoDeserializer<'de, TypeError> for Json<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Json<'de> {
    type Error = TypeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => visitor.visit_u64(number),
                (None, Some(number), _) => visitor.visit_i64(number),
                (None, None, number) => visitor.visit_f64(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => {
                let mut rest = SeqDeserializer::new(items.iter().map(Json));
                let value = visitor.visit_seq(&mut rest)?;
                match rest.size_hint() {
                    None | Some(0) => Ok(value),
                    // A struct that is written as a list has a member for each item.
                    Some(_) => Err(de::Error::invalid_length(
                        items.len(),
                        &"fewer elements in array",
                    )),
                }
            }
            Value::Object(members) => {
                let members = members
                    .iter()
                    .map(|(name, member)| (name.as_str(), Json(member)));
                visitor.visit_map(MapDeserializer::new(members))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        if self.0.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        visitor.visit_newtype_struct(self)
    }

    // Ignition's specification has no enums.
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Item {
        name: String,
        size: Option<u32>,
        #[serde(default)]
        list: Vec<bool>,
    }

    fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
        T::deserialize(Json(value)).map_err(|error| error.to_string())
    }

    #[test]
    fn value_reads_as_serde_json_reads_it() {
        for value in [
            json!({"name": "a", "size": 3, "list": [true, false]}),
            json!({"name": "a", "size": null, "unknown": {"x": [1.5, -1]}}),
            json!(["a", 7, []]),
        ] {
            let expected: Item = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(read::<Item>(&value), Ok(expected), "{value}");
        }
    }

    #[test]
    fn error_names_found_and_expected_and_no_text() {
        let found = |value: &Value| read::<u32>(value).unwrap_err();
        for (value, expected) in [
            (json!("secret"), "expected u32, found a string"),
            (json!(-1), "expected u32, found integer `-1`"),
            (json!(1.5), "expected u32, found floating point `1.5`"),
            (json!(true), "expected u32, found boolean `true`"),
            (json!(null), "expected u32, found null"),
            (json!([]), "expected u32, found sequence"),
            (json!({}), "expected u32, found map"),
        ] {
            assert_eq!(found(&value), expected);
        }
        assert_eq!(
            read::<Item>(&json!("secret")).unwrap_err(),
            "expected struct Item, found a string"
        );
        assert_eq!(
            read::<Item>(&json!(["a", 1, [], 2])).unwrap_err(),
            "expected fewer elements in array, found invalid length 4"
        );
        assert_eq!(
            read::<Item>(&json!({"size": 1})).unwrap_err(),
            "cannot be read"
        );
    }
}
