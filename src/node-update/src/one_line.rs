//! Texts of other programs and parsers, as part of a reason.

/// The text as one line that is never empty: lines are joined by `; `, and blanks around them go.
pub fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if lines.is_empty() {
        "no reason was given".to_owned()
    } else {
        lines.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_that_says_something() {
        for (text, line) in [
            ("plain", "plain"),
            (" two\r\n  lines \n\n", "two; lines"),
            ("", "no reason was given"),
            (" \n ", "no reason was given"),
        ] {
            assert_eq!(one_line(text), line);
        }
    }
}
