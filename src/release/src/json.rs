//! JSON as this crate prints it.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// The bytes of a file: indented by two blanks, and a final newline.
///
/// Every value here prints: its keys are texts and it has no floats.
#[expect(
    clippy::expect_used,
    reason = "only maps with other keys than texts do not print"
)]
pub(crate) fn print(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("keys are texts");
    bytes.push(b'\n');
    bytes
}

/// Bytes on one line, without a newline.
#[expect(
    clippy::expect_used,
    reason = "only maps with other keys than texts do not print"
)]
pub(crate) fn print_line(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("keys are texts")
}

/// A value on one line as Go prints it: keys in order, and what has a meaning in HTML escaped.
pub(crate) fn print_as_go(value: &Value) -> String {
    let text = String::from_utf8_lossy(&print_line(&Sorted(value))).into_owned();
    // These characters can stand in texts only.
    ['<', '>', '&', '\u{2028}', '\u{2029}']
        .into_iter()
        .fold(text, |text, character| {
            let escaped = format!("\\u{:04x}", u32::from(character));
            text.replace(character, &escaped)
        })
}

/// A value with the keys of its maps in order.
struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                let sorted: BTreeMap<&String, Sorted<'_>> = map
                    .iter()
                    .map(|(key, value)| (key, Sorted(value)))
                    .collect();
                sorted.serialize(serializer)
            }
            Value::Array(list) => serializer.collect_seq(list.iter().map(Sorted)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.0.serialize(serializer)
            }
        }
    }
}
