//! Patterns of labels of machine pools.

use regex::Regex;

/// What is malformed in a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GlobError {
    #[error("it ends with a backslash")]
    OpenEscape,
    #[error("a class has no ]")]
    OpenClass,
    #[error("a class is empty or begins with -")]
    EmptyClass,
    #[error("a range has no end")]
    OpenRange,
    #[error("a range ends before it begins")]
    ReversedRange,
}

/// A pattern that a whole label matches.
///
/// Shape: `*` stands for any text without `/`, `?` for one character but `/`, `[a-z]` for one of a
/// class and `[^a-z]` for one of none, `\` makes the next character a plain one.
/// Source: `path.Match` of Go, which upstream calls.
#[derive(Debug, Clone)]
pub struct Glob(Regex);

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`GlobError`].
    pub(crate) fn parse(pattern: &str) -> Result<Self, GlobError> {
        let mut regex = String::from("^(?s:");
        let mut rest = pattern.chars();
        while let Some(character) = rest.next() {
            match character {
                '*' => regex.push_str("[^/]*"),
                '?' => regex.push_str("[^/]"),
                '\\' => regex.push_str(&escaped(&mut rest)?),
                '[' => regex.push_str(&class(&mut rest)?),
                plain => regex.push_str(&regex::escape(&plain.to_string())),
            }
        }
        regex.push_str(")$");
        // What is left are ranges whose ends are the wrong way round.
        let regex = Regex::new(&regex).map_err(|_| GlobError::ReversedRange)?;
        Ok(Self(regex))
    }

    pub fn matches(&self, label: &str) -> bool {
        self.0.is_match(label)
    }
}

fn escaped(rest: &mut impl Iterator<Item = char>) -> Result<String, GlobError> {
    let next = rest.next().ok_or(GlobError::OpenEscape)?;
    Ok(regex::escape(&next.to_string()))
}

/// The part of a class after `[`.
fn class(rest: &mut std::str::Chars<'_>) -> Result<String, GlobError> {
    let mut class = String::from("[");
    if rest.as_str().starts_with('^') {
        rest.next();
        class.push('^');
    }
    let mut count = 0;
    loop {
        match rest.next().ok_or(GlobError::OpenClass)? {
            ']' if count > 0 => break,
            ']' | '-' => return Err(GlobError::EmptyClass),
            '\\' => class.push_str(&escaped(rest)?),
            first => class.push_str(&in_class(first)),
        }
        if rest.as_str().starts_with('-') {
            rest.next();
            class.push('-');
            match rest.next().ok_or(GlobError::OpenClass)? {
                ']' | '-' => return Err(GlobError::OpenRange),
                '\\' => class.push_str(&escaped(rest)?),
                last => class.push_str(&in_class(last)),
            }
        }
        count += 1;
    }
    class.push(']');
    Ok(class)
}

/// A character as a class of a regular expression has it: `&` and `~` mean something there if they
/// stand twice.
fn in_class(character: char) -> String {
    if character.is_alphanumeric() {
        character.to_string()
    } else {
        format!("\\x{{{:x}}}", u32::from(character))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_match_as_paths_of_go() {
        let table = [
            ("infra", "infra", true),
            ("infra", "infra-2", false),
            ("*", "gpu", true),
            ("*", "a/b", false),
            ("gpu-*", "gpu-", true),
            ("g?u", "gpu", true),
            ("g?u", "g/u", false),
            ("gpu-[0-3]", "gpu-2", true),
            ("gpu-[0-3]", "gpu-4", false),
            ("gpu-[^0-3]", "gpu-4", true),
            ("[a&&b]", "&", true),
            ("a.c", "abc", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
        ];
        for (pattern, label, expected) in table {
            let glob = Glob::parse(pattern).unwrap();
            assert_eq!(glob.matches(label), expected, "{pattern} {label}");
        }
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for pattern in ["[", "[]", "[a", "[a-", "[a-]", "[-a]", "a\\", "[b-a]", "[^"] {
            assert!(Glob::parse(pattern).is_err(), "{pattern}");
        }
    }
}
