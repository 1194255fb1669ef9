//! An object as it is read.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// An object without `metadata.managedFields`.
///
/// They are as long as the object, and as values many times that: of a definition of 120 kB they
/// took megabytes. They are passed over while the text is read.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainObject(pub Value);

impl<'de> Deserialize<'de> for PlainObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = deserializer.deserialize_map(Fields::Object)?;
        Ok(Self(Value::Object(fields)))
    }
}

/// Of which map the fields are.
#[derive(Clone, Copy)]
enum Fields {
    Object,
    Metadata,
}

impl<'de> Visitor<'de> for Fields {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "an object",
            Self::Metadata => "an object's metadata",
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = match (self, key.as_str()) {
                (Self::Object, "metadata") => Value::Object(map.next_value_seed(Self::Metadata)?),
                (Self::Metadata, "managedFields") => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                _ => map.next_value()?,
            };
            fields.insert(key, value);
        }
        Ok(fields)
    }
}

impl<'de> DeserializeSeed<'de> for Fields {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_managed_fields_of_the_object_itself_are_passed_over() {
        let text = r#"{
            "kind": "A",
            "metadata": {"name": "a", "managedFields": [{"f:x": {}}], "labels": {"b": "c"}},
            "spec": {"managedFields": [1], "template": {"metadata": {"managedFields": [2]}}}
        }"#;
        let PlainObject(object) = serde_json::from_str(text).unwrap();
        let wanted = json!({
            "kind": "A",
            "metadata": {"name": "a", "labels": {"b": "c"}},
            "spec": {"managedFields": [1], "template": {"metadata": {"managedFields": [2]}}}
        });
        assert_eq!(object, wanted);
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for text in ["[]", r#"{"metadata": 1}"#, "null"] {
            serde_json::from_str::<PlainObject>(text).unwrap_err();
        }
    }
}
