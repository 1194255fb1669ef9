//! Text of others without the characters that steer a terminal.
//!
//! Objects of a cluster hold what nodes, releases and update services wrote. On a terminal an
//! escape sequence in it could change what other lines say, or what the clipboard holds.

use std::borrow::Cow;

/// What stands in the place of such a character.
const REPLACED: char = char::REPLACEMENT_CHARACTER;

/// The text, as it can be printed to a terminal.
///
/// Control characters (C0, DEL, C1) but line ends and tabs, and characters that change the
/// direction of what follows, become `�`: as wide as one character, and visible.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    // A line of a file from Windows is a line.
    let text = text.replace("\r\n", "\n");
    Cow::Owned(text.replace(steers, REPLACED.encode_utf8(&mut [0; 4])))
}

/// Whether a terminal does something else than to show it.
///
/// Source: ECMA-48 (control functions); Unicode Standard Annex 9, "Directional Formatting
/// Characters".
fn steers(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            true
        }
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        let table = [
            ("a\tb\nc", "a\tb\nc"),
            ("Zürich, 東京, a\u{200d}b", "Zürich, 東京, a\u{200d}b"),
            ("a\r\nb\rc", "a\nb�c"),
            // The clipboard, and the line above.
            ("\x1b]52;c;eA==\x07", "�]52;c;eA==�"),
            ("\x1b[1A\x1b[2Kdone", "�[1A�[2Kdone"),
            ("\u{9b}2J\u{9d}0;x\u{9c}", "�2J�0;x�"),
            ("\0\x08\x7f", "���"),
            ("\u{202e}exe\u{2069}\u{200f}\u{61c}", "�exe���"),
        ];
        for (text, expected) in table {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }
}
