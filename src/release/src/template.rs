//! Placeholders in the version operator's own manifests, `{{.ReleaseImage}}` and others.

use std::collections::BTreeMap;

/// What takes the place of placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Pull spec of the release image.
    pub release_image: String,
    pub cluster_profile: String,
    /// Pull specs of the release's images, by name.
    pub images: BTreeMap<String, String>,
}

/// A placeholder that this program does not know: a newer release may have more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("line {0}: a placeholder does not end")]
    Open(usize),
    #[error("line {line}: unknown placeholder {text:?}")]
    Unknown {
        line: usize,
        /// What is between the braces.
        text: String,
    },
}

impl Values {
    /// Puts the values in.
    ///
    /// Shape: Go's templates, of which the manifests use `.ReleaseImage`, `.ClusterProfile`,
    /// `index .Images "name"` (empty where there is no such image) and texts in quotes; a dash
    /// inside the braces removes the blanks outside.
    ///
    /// # Errors
    /// [`Error`], of the first placeholder that is wrong.
    pub fn render(&self, text: &str) -> Result<String, Error> {
        let mut rendered = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            let line = || text.len() - behind.len();
            let line = || text.get(..line()).unwrap_or(text).split('\n').count();
            let is_trimmed = behind.starts_with("- ");
            let behind = behind
                .strip_prefix('-')
                .filter(|_| is_trimmed)
                .unwrap_or(behind);
            let end = end(behind).ok_or_else(|| Error::Open(line()))?;
            let (inner, tail) = behind.split_at(end);
            let tail = tail.get(2..).unwrap_or_default();
            rendered.push_str(if is_trimmed {
                before.trim_end()
            } else {
                before
            });
            let (inner, tail) = match inner.strip_suffix(" -") {
                Some(inner) => (inner, tail.trim_start()),
                None => (inner, tail),
            };
            let value = self.value(inner.trim()).ok_or_else(|| Error::Unknown {
                line: line(),
                text: inner.trim().to_owned(),
            })?;
            rendered.push_str(&value);
            rest = tail;
        }
        rendered.push_str(rest);
        Ok(rendered)
    }

    fn value(&self, expression: &str) -> Option<String> {
        match expression {
            ".ReleaseImage" => Some(self.release_image.clone()),
            ".ClusterProfile" => Some(self.cluster_profile.clone()),
            _ => match expression.strip_prefix("index ") {
                None => quoted(expression),
                Some(place) => {
                    let name = place.trim_start().strip_prefix(".Images ")?;
                    let name = quoted(name.trim())?;
                    Some(self.images.get(&name).cloned().unwrap_or_default())
                }
            },
        }
    }
}

/// Where the closing braces begin: not those inside quotes.
fn end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match quote {
            Some('"') if is_escaped => is_escaped = false,
            Some('"') if character == '\\' => is_escaped = true,
            Some(open) if character == open => quote = None,
            None if matches!(character, '"' | '`') => quote = Some(character),
            None if text.get(at..).is_some_and(|rest| rest.starts_with("}}")) => return Some(at),
            Some(_) | None => {}
        }
    }
    None
}

/// A text in quotes, whose escapes are those of JSON as far as manifests use them, or in
/// backquotes.
fn quoted(expression: &str) -> Option<String> {
    let raw = expression
        .strip_prefix('`')
        .and_then(|text| text.strip_suffix('`'));
    match raw {
        Some(raw) => Some(raw.to_owned()),
        None => serde_json::from_str(expression).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str) -> Result<String, Error> {
        Values {
            release_image: "q/r@sha256:0".to_owned(),
            cluster_profile: "ha".to_owned(),
            images: BTreeMap::from([("pod".to_owned(), "q/p@sha256:1".to_owned())]),
        }
        .render(text)
    }

    #[test]
    fn placeholders_are_replaced() {
        for (text, expected) in [
            ("a: '{{.ReleaseImage}}'", "a: 'q/r@sha256:0'"),
            ("a: {{ .ClusterProfile }}\n}}", "a: ha\n}}"),
            (
                "{{index .Images \"pod\"}}|{{index .Images \"x\"}}",
                "q/p@sha256:1|",
            ),
            (
                r#"r {{ "{{ with $x := \"a\" | q }}{{ end }}" }}."#,
                r#"r {{ with $x := "a" | q }}{{ end }}."#,
            ),
            ("{{`{{a}}`}}", "{{a}}"),
            ("a  {{- \"b\" -}}\n c", "abc"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(render(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn unknown_placeholder_is_named_with_its_line() {
        let error = render("a\nb {{ .Other }}").unwrap_err();
        assert_eq!(error.to_string(), "line 2: unknown placeholder \".Other\"");
        let error = render("a\n\nb {{ .Other ").unwrap_err();
        assert_eq!(error.to_string(), "line 3: a placeholder does not end");
    }
}
