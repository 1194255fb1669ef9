//! `-o jsonpath=…`: a template of texts, and of paths in braces.
//!
//! Paths are of RFC 9535, with what kubectl adds: `$` may be left out, names may have hyphens and
//! escaped dots, and `{range PATH}` to `{end}` is repeated for each value.

use std::str::{Chars, FromStr};

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

/// A template, parsed.
///
/// Source: kubectl, "`JSONPath` support".
#[derive(Clone, Debug, PartialEq)]
pub struct JsonTemplate(Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq)]
enum TemplatePart {
    Text(String),
    Values(ValuePath),
    Each(ValuePath, Vec<Self>),
}

/// Where values are: in the whole document, or below the present value of a loop.
#[derive(Clone, Debug, PartialEq)]
struct ValuePath {
    of_document: bool,
    query: JpQuery,
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(String);

impl FromStr for JsonTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        // The uppermost level, then one for each loop that is open, with its path.
        let mut outer: Vec<(ValuePath, Vec<TemplatePart>)> = Vec::new();
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((plain, braces)) = rest.split_once('{') {
            if !plain.is_empty() {
                parts.push(TemplatePart::Text(plain.to_owned()));
            }
            let end = closing(braces)
                .ok_or_else(|| TemplateError(format!("{{{braces} has no closing brace")))?;
            let (inside, after) = (
                braces.get(..end).unwrap_or_default().trim(),
                braces.get(end + 1..).unwrap_or_default(),
            );
            if inside == "end" {
                let (path, before) = outer
                    .pop()
                    .ok_or_else(|| TemplateError("{end} has no {range …} before it".to_owned()))?;
                let each = TemplatePart::Each(path, std::mem::replace(&mut parts, before));
                parts.push(each);
            } else if let Some(path) = inside.strip_prefix("range ") {
                outer.push((path.trim().parse()?, std::mem::take(&mut parts)));
            } else if inside.starts_with(['"', '\'']) {
                parts.push(TemplatePart::Text(quoted(inside)?));
            } else {
                parts.push(TemplatePart::Values(inside.parse()?));
            }
            rest = after;
        }
        if !outer.is_empty() {
            return Err(TemplateError("{range …} has no {end}".to_owned()));
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_owned()));
        }
        let is_path = |part: &TemplatePart| !matches!(part, TemplatePart::Text(_));
        if !parts.iter().any(is_path) {
            return Err(TemplateError(format!(
                "{text:?} has no path in braces, such as {{.digest}}"
            )));
        }
        Ok(Self(parts))
    }
}

impl JsonTemplate {
    /// The template with the values of a document: strings as they are, all else as JSON, several
    /// values of one path with a blank between them, and nothing where a path finds nothing.
    pub(crate) fn print(&self, document: &Value) -> String {
        let mut text = String::new();
        print(&self.0, document, document, &mut text);
        text
    }
}

fn print(parts: &[TemplatePart], document: &Value, present: &Value, text: &mut String) {
    for part in parts {
        match part {
            TemplatePart::Text(plain) => text.push_str(plain),
            TemplatePart::Values(path) => {
                for (number, value) in path.find(document, present).into_iter().enumerate() {
                    if number > 0 {
                        text.push(' ');
                    }
                    match value.as_str() {
                        Some(value) => text.push_str(value),
                        None => text.push_str(&value.to_string()),
                    }
                }
            }
            TemplatePart::Each(path, parts) => {
                for value in path.find(document, present) {
                    print(parts, document, value, text);
                }
            }
        }
    }
}

impl ValuePath {
    fn find<'a>(&self, document: &'a Value, present: &'a Value) -> Vec<&'a Value> {
        let root = if self.of_document { document } else { present };
        // A query that was parsed fails on no document.
        let found = js_path_process(&self.query, root).unwrap_or_default();
        found.into_iter().map(|found| found.val).collect()
    }
}

impl FromStr for ValuePath {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let of_document = text.starts_with('$');
        let path = text.strip_prefix(['$', '@']).unwrap_or(text);
        let is_path = path.starts_with(['.', '[']) || (path.is_empty() && !text.is_empty());
        if !is_path {
            return Err(TemplateError(format!(
                "path {text:?} does not begin with a dot or a bracket"
            )));
        }
        let query = parse_json_path(&standard(path))
            .map_err(|_| TemplateError(format!("{text:?} is no JSONPath")))?;
        Ok(Self { of_document, query })
    }
}

/// A path as RFC 9535 has it: names that follow dots are put in brackets, since only there they may
/// have hyphens and dots.
fn standard(path: &str) -> String {
    let mut standard = "$".to_owned();
    let mut rest = path.chars();
    while let Some(char) = rest.next() {
        match char {
            '[' => bracket(&mut rest, &mut standard),
            '.' => {
                if rest.as_str().starts_with('.') {
                    rest.next();
                    standard.push_str("..");
                }
                let next = rest.as_str().chars().next();
                match next {
                    Some('*') => {
                        rest.next();
                        standard.push_str("[*]");
                    }
                    // What follows are brackets, or nothing: a lone dot is the value itself.
                    Some('[') | None => {}
                    Some(_) => name(&mut rest, &mut standard),
                }
            }
            // It is no JSONPath, and the parser says so.
            other => standard.push(other),
        }
    }
    standard
}

/// Takes over what is in brackets, where nothing but an escaped dot differs.
fn bracket(rest: &mut Chars<'_>, standard: &mut String) {
    standard.push('[');
    let (mut depth, mut quote) = (1, None);
    while depth > 0 {
        let Some(char) = rest.next() else { return };
        match (quote, char) {
            (Some(_), '\\') => match rest.next() {
                Some('.') => standard.push('.'),
                escaped => {
                    standard.push('\\');
                    standard.extend(escaped);
                }
            },
            (open, _) => {
                match (open, char) {
                    (Some(open), char) if char == open => quote = None,
                    (None, '\'' | '"') => quote = Some(char),
                    (None, '[') => depth += 1,
                    (None, ']') => depth -= 1,
                    _ => {}
                }
                standard.push(char);
            }
        }
    }
}

/// Takes a name over, up to the next dot or bracket that is not escaped.
fn name(rest: &mut Chars<'_>, standard: &mut String) {
    let mut name = String::new();
    while let Some(char) = rest.as_str().chars().next() {
        if char == '.' || char == '[' {
            break;
        }
        rest.next();
        let char = if char == '\\' {
            rest.next().unwrap_or(char)
        } else {
            char
        };
        name.push(char);
    }
    let name = name.replace('\\', "\\\\").replace('\'', "\\'");
    standard.extend(["['", &name, "']"]);
}

/// Where the brace closes that was open before a text; braces in quotes do not count.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, char) in text.char_indices() {
        match (quote, char) {
            _ if is_escaped => is_escaped = false,
            (_, '\\') => is_escaped = true,
            (Some(open), char) if char == open => quote = None,
            (None, '\'' | '"') => quote = Some(char),
            (None, '}') => return Some(at),
            _ => {}
        }
    }
    None
}

/// A text in quotes, with its escapes.
fn quoted(text: &str) -> Result<String, TemplateError> {
    let failed = || TemplateError(format!("{text} is no text in quotes"));
    let quote = text.chars().next().ok_or_else(failed)?;
    let inner = text
        .strip_prefix(quote)
        .and_then(|inner| inner.strip_suffix(quote))
        .ok_or_else(failed)?;
    let mut plain = String::new();
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        plain.push(match char {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(same @ ('\\' | '"' | '\'')) => same,
                _ => return Err(failed()),
            },
            char if char == quote => return Err(failed()),
            char => char,
        });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        json!({
            "digest": "sha256:aaaa",
            "metadata": {"version": "4.18.9", "previous": ["4.18.1", "4.18.2"]},
            "warnings": null,
            "versions": {"machine-os": "9.6.1"},
            "config": {"config": {"Labels": {"io.openshift.release": "4.18.9"}}},
            "references": {"spec": {"tags": [
                {"name": "cli", "from": {"name": "quay.io/cli@sha256:1"}},
                {"name": "it's", "from": {"name": "quay.io/os@sha256:2"}}
            ]}}
        })
    }

    #[test]
    fn templates_of_kubectl_are_printed() {
        for (template, expected) in [
            ("{.digest}", "sha256:aaaa"),
            ("{$.digest}", "sha256:aaaa"),
            ("{ .digest }", "sha256:aaaa"),
            ("{['digest']}", "sha256:aaaa"),
            ("{.metadata.previous[-1]}", "4.18.2"),
            ("{.metadata.previous[*]}", "4.18.1 4.18.2"),
            ("{.metadata.previous}", r#"["4.18.1","4.18.2"]"#),
            ("{.metadata.previous[0:1]}", "4.18.1"),
            ("{.versions.machine-os}", "9.6.1"),
            (r"{.config.config.Labels.io\.openshift\.release}", "4.18.9"),
            (
                r"{.config.config.Labels['io\.openshift\.release']}",
                "4.18.9",
            ),
            ("{..version}", "4.18.9"),
            ("{.warnings}", "null"),
            ("{.absent.field}", ""),
            (
                r#"{.references.spec.tags[?(@.name=="cli")].from.name}"#,
                "quay.io/cli@sha256:1",
            ),
            (
                r#"{range .references.spec.tags[*]}{.name}{"\t"}{@.from.name}{"\n"}{end}"#,
                "cli\tquay.io/cli@sha256:1\nit's\tquay.io/os@sha256:2\n",
            ),
            (
                r"{range .references.spec.tags[*]}{.name} {$.digest};{end}",
                "cli sha256:aaaa;it's sha256:aaaa;",
            ),
            ("version={.metadata.version}!", "version=4.18.9!"),
            (r#"{"{"}{.digest}{'}'}"#, "{sha256:aaaa}"),
        ] {
            let parsed: JsonTemplate = template.parse().unwrap();
            assert_eq!(parsed.print(&document()), expected, "{template}");
        }
        let whole: JsonTemplate = "{@}".parse().unwrap();
        assert_eq!(whole.print(&document()), document().to_string());
    }

    #[test]
    fn texts_that_are_no_template_are_refused_with_the_reason() {
        for (template, expected) in [
            ("", "\"\" has no path in braces, such as {.digest}"),
            (".digest", "has no path in braces"),
            ("{.digest", "{.digest has no closing brace"),
            ("{digest}", "path \"digest\" does not begin with a dot"),
            ("{}", "path \"\" does not begin with a dot"),
            ("{.a[}", "\".a[\" is no JSONPath"),
            ("{.a[?(@.b=)]}", "is no JSONPath"),
            ("{range .a[*]}{.b}", "{range …} has no {end}"),
            ("{.a}{end}", "{end} has no {range …} before it"),
            (r#"{.a}{"\x"}"#, "is no text in quotes"),
        ] {
            let error = template.parse::<JsonTemplate>().unwrap_err().to_string();
            assert!(error.contains(expected), "{template}: {error}");
        }
    }
}
