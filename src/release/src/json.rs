//! JSON as this crate prints it.

use serde::Serialize;

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
