//! Texts that people wrote, in a line of a message.

/// Characters of such a text that are shown.
const CHARS: usize = 300;

/// The text on one line, cut at a length at which a message about many nodes stays readable.
pub(crate) fn one_line(text: &str) -> String {
    let is_apart = |c: char| c.is_whitespace() || c.is_control();
    let words = text.split(is_apart).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    let mut shown: String = line.chars().take(CHARS).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_long_texts_cut() {
        for (text, expected) in [
            ("", ""),
            (" \n\t", ""),
            ("disk  fails\r\n\u{1b}soon ", "disk fails soon"),
        ] {
            assert_eq!(one_line(text), expected, "{text:?}");
        }
        let long = one_line(&"ä".repeat(CHARS + 1));
        assert_eq!(long.chars().count(), CHARS + 1);
        assert!(long.ends_with("ä…"));
        assert!(!one_line(&"ä".repeat(CHARS)).ends_with('…'));
    }
}
