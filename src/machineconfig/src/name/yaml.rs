//! YAML as `go-yaml` 2.4.0 prints it: block style, sorted keys, lists not indented, lines folded at
//! column 80.
//!
//! Equal: which strings are plain, single-quoted, double-quoted or literal; escapes; folding;
//! indentation and chomping hints of literal strings; empty lists and maps. Not equal, because no
//! MachineConfig has them: fractions, keys longer than 128 characters or that are not plain
//! strings, and keys that differ only in numbers, which `go-yaml` sorts by value.

use serde_json::Value;

use super::scalar::{is_break, is_printable, is_text};

/// Columns a line may reach before it is folded at the next blank.
const WIDTH: usize = 80;
/// Columns of one level.
const INDENT: usize = 2;

/// Prints a document.
pub(super) fn print(value: &Value) -> String {
    let mut printer = Printer {
        text: String::new(),
        column: 0,
        after_blank: true,
        in_indentation: true,
    };
    printer.node(value, 0, false);
    printer.start_line(0);
    printer.text
}

/// Where the printer is. The two flags say what the last character was for: they decide whether a
/// blank or a line break comes next.
#[derive(Debug)]
struct Printer {
    text: String,
    /// Characters since the last line break.
    column: usize,
    /// The last character was white space, or nothing is printed yet.
    after_blank: bool,
    /// Nothing but indentation and dashes is on this line yet.
    in_indentation: bool,
}

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

impl Printer {
    /// Prints a value whose own lines start at `indent`.
    fn node(&mut self, value: &Value, indent: usize, in_list: bool) {
        match value {
            Value::Object(members) if members.is_empty() => self.word("{}"),
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_key(|(name, _)| *name);
                for (name, member) in members {
                    self.start_line(indent);
                    self.plain(name, indent, false);
                    self.indicator(":", false, false);
                    self.member(member, indent);
                }
            }
            Value::Array(items) if items.is_empty() => self.word("[]"),
            Value::Array(items) => {
                // A list within a list starts on its dash; one that is a member starts below its
                // name, at its column.
                let indent = if in_list {
                    indent
                } else {
                    indent.saturating_sub(INDENT)
                };
                for item in items {
                    self.start_line(indent);
                    self.indicator("-", true, true);
                    self.node(item, indent + INDENT, true);
                }
            }
            Value::String(text) => self.scalar(text, indent),
            Value::Null => self.word("null"),
            Value::Bool(truth) => self.word(if *truth { "true" } else { "false" }),
            Value::Number(number) => self.word(&number.to_string()),
        }
    }

    fn member(&mut self, value: &Value, indent: usize) {
        self.node(value, indent + INDENT, false);
    }

    /// Prints what needs no quotes and is never folded.
    fn word(&mut self, word: &str) {
        self.plain(word, 0, false);
    }

    fn scalar(&mut self, text: &str, indent: usize) {
        match style(text) {
            Style::Plain => self.plain(text, indent, true),
            Style::SingleQuoted => self.single_quoted(text, indent),
            Style::DoubleQuoted => self.double_quoted(text, indent),
            Style::Literal => self.literal(text, indent),
        }
    }

    fn put(&mut self, c: char) {
        self.text.push(c);
        self.column += 1;
    }

    fn put_break(&mut self, c: char) {
        self.text.push(c);
        self.column = 0;
    }

    /// Goes to `indent`, on a new line unless this one is still empty up to there.
    fn start_line(&mut self, indent: usize) {
        let here = self.in_indentation
            && (self.column < indent || self.column == indent && self.after_blank);
        if !here {
            self.put_break('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.after_blank = true;
        self.in_indentation = true;
    }

    fn indicator(&mut self, indicator: &str, wants_blank: bool, indents: bool) {
        if wants_blank && !self.after_blank {
            self.put(' ');
        }
        indicator.chars().for_each(|c| self.put(c));
        self.after_blank = false;
        self.in_indentation &= indents;
    }

    fn plain(&mut self, text: &str, indent: usize, folds: bool) {
        if !self.after_blank {
            self.put(' ');
        }
        let mut after_space = false;
        for (at, c) in text.char_indices() {
            let before_space = text.get(at + 1..).is_some_and(|rest| rest.starts_with(' '));
            if c == ' ' && folds && !after_space && self.column > WIDTH && !before_space {
                self.start_line(indent);
            } else {
                self.put(c);
                if c != ' ' {
                    self.in_indentation = false;
                }
            }
            after_space = c == ' ';
        }
        self.after_blank = false;
        self.in_indentation = false;
    }

    fn single_quoted(&mut self, text: &str, indent: usize) {
        self.indicator("'", true, false);
        let (mut after_space, mut after_break) = (false, false);
        for (at, c) in text.char_indices() {
            if c == ' ' {
                let inside = at > 0 && at < text.len() - 1;
                let before_space = text.get(at + 1..).is_some_and(|rest| rest.starts_with(' '));
                if !after_space && self.column > WIDTH && inside && !before_space {
                    self.start_line(indent);
                } else {
                    self.put(c);
                }
                after_space = true;
            } else if is_break(c) {
                if !after_break && c == '\n' {
                    self.put_break('\n');
                }
                self.put_break(c);
                self.in_indentation = true;
                after_break = true;
            } else {
                if after_break {
                    self.start_line(indent);
                }
                if c == '\'' {
                    self.put(c);
                }
                self.put(c);
                self.in_indentation = false;
                (after_space, after_break) = (false, false);
            }
        }
        self.indicator("'", false, false);
    }

    fn double_quoted(&mut self, text: &str, indent: usize) {
        self.indicator("\"", true, false);
        // At each character, go-yaml tests the start of the text for a byte order mark.
        let escape_all = text.starts_with('\u{feff}');
        let mut after_space = false;
        for (at, c) in text.char_indices() {
            if escape_all || !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                escape(c).chars().for_each(|c| self.put(c));
                after_space = false;
            } else if c == ' ' {
                let inside = at > 0 && at < text.len() - 1;
                if !after_space && self.column > WIDTH && inside {
                    self.start_line(indent);
                    if text.get(at + 1..).is_some_and(|rest| rest.starts_with(' ')) {
                        self.put('\\');
                    }
                } else {
                    self.put(c);
                }
                after_space = true;
            } else {
                self.put(c);
                after_space = false;
            }
        }
        self.indicator("\"", false, false);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.indicator("|", true, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.indicator(&INDENT.to_string(), false, false);
        }
        let mut last = text.chars().rev();
        match (last.next(), last.next()) {
            (Some(end), before) if is_break(end) => {
                if before.is_none_or(is_break) {
                    self.indicator("+", false, false);
                }
            }
            _ => self.indicator("-", false, false),
        }
        self.put_break('\n');
        self.in_indentation = true;
        self.after_blank = true;
        let mut after_break = true;
        for c in text.chars() {
            if is_break(c) {
                self.put_break(c);
                self.in_indentation = true;
                after_break = true;
            } else {
                if after_break {
                    self.start_line(indent);
                }
                self.put(c);
                self.in_indentation = false;
                after_break = false;
            }
        }
    }
}

/// The style of a text, decided as go-yaml decides it.
fn style(text: &str) -> Style {
    if text.contains('\n') {
        return if may_be_literal(text) {
            Style::Literal
        } else {
            Style::DoubleQuoted
        };
    }
    if !is_text(text) {
        return Style::DoubleQuoted;
    }
    let breaks = text.contains(is_break);
    let outer_blank = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
    let edges = outer_blank(text.chars().next()) || outer_blank(text.chars().next_back());
    if !may_be_quoted_once(text) {
        Style::DoubleQuoted
    } else if breaks || edges || has_indicator(text) {
        Style::SingleQuoted
    } else {
        Style::Plain
    }
}

/// No character that must be escaped, and no blank before a line break.
fn has_nothing_special(text: &str) -> bool {
    text.chars().all(is_printable) && !pairs(text).any(|(one, next)| one == ' ' && is_break(next))
}

fn may_be_literal(text: &str) -> bool {
    has_nothing_special(text) && !text.ends_with(' ')
}

fn may_be_quoted_once(text: &str) -> bool {
    has_nothing_special(text) && !pairs(text).any(|(one, next)| is_break(one) && next == ' ')
}

fn pairs(text: &str) -> impl Iterator<Item = (char, char)> {
    text.chars().zip(text.chars().skip(1))
}

/// Whether a character has a meaning where it stands, outside quotes and outside `[]` and `{}`.
fn has_indicator(text: &str) -> bool {
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    let is_blank = |c: Option<char>| c.is_none_or(|c| c == ' ' || c == '\t');
    let mut after_blank = true;
    let mut chars = text.chars().peekable();
    let mut first = true;
    while let Some(c) = chars.next() {
        let before_blank = is_blank(chars.peek().copied());
        let means = match c {
            ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
            | '`' => first,
            '#' => after_blank,
            '?' | '-' => first && before_blank,
            ':' => before_blank,
            _ => false,
        };
        if means {
            return true;
        }
        after_blank = matches!(c, ' ' | '\t' | '\0') || is_break(c);
        first = false;
    }
    false
}

fn escape(c: char) -> String {
    let code = u32::from(c);
    match c {
        '\0' => "\\0".to_owned(),
        '\u{07}' => "\\a".to_owned(),
        '\u{08}' => "\\b".to_owned(),
        '\t' => "\\t".to_owned(),
        '\n' => "\\n".to_owned(),
        '\u{0b}' => "\\v".to_owned(),
        '\u{0c}' => "\\f".to_owned(),
        '\r' => "\\r".to_owned(),
        '\u{1b}' => "\\e".to_owned(),
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\u{85}' => "\\N".to_owned(),
        '\u{a0}' => "\\_".to_owned(),
        '\u{2028}' => "\\L".to_owned(),
        '\u{2029}' => "\\P".to_owned(),
        _ if code <= 0xff => format!("\\x{code:02X}"),
        _ if code <= 0xffff => format!("\\u{code:04X}"),
        _ => format!("\\U{code:08X}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are those of `ghodss/yaml` 1.0.0 over `go-yaml` 2.4.0.
    #[test]
    fn texts_are_printed_as_go_yaml_prints_them() {
        for line in include_str!("../../tests/fixtures/yaml.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let theirs = case["answer"].as_str().unwrap_or_else(|| panic!("{line}"));
            assert_eq!(print(&case["value"]), theirs, "{}", case["value"]);
        }
    }
}
