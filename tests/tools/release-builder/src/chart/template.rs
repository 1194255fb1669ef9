//! Texts of `deploy/` as templates of Helm.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::objects::{Document, ObjectFile};
use super::values;
use crate::images;

/// What opens an expression of a template.
const OPEN: &str = "{{";

/// An expression that prints [`OPEN`].
const OPEN_AS_TEXT: &str = "{{ \"{{\" }}";

/// Keeps a CRD, and with it all objects of its kind, when the release of Helm is uninstalled.
///
/// Source: Helm, "Charts Tips and Tricks", "Tell Helm Not To Uninstall a Resource".
const KEEP: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// The template of a file.
///
/// # Errors
/// An object cannot be printed.
pub(super) fn of(file: &ObjectFile) -> Result<String> {
    let mut template = String::new();
    for document in &file.documents {
        write!(template, "---\n{}", of_document(document)?)?;
    }
    let switches: Vec<_> = file.switches.iter().map(|it| it.path()).collect();
    Ok(match &switches[..] {
        [] => template,
        [one] => format!("{{{{- if {one} }}}}\n{template}{{{{- end }}}}\n"),
        all => format!(
            "{{{{- if and {} }}}}\n{template}{{{{- end }}}}\n",
            all.join(" ")
        ),
    })
}

fn of_document(document: &Document) -> Result<String> {
    let is_crd = document.manifest.id.kind == "CustomResourceDefinition";
    let text = if is_crd {
        keep(&document.text)?
    } else {
        document.text.clone()
    };
    let text = of_text(&text)?;
    let Some((switch, patched)) = &document.patched else {
        return Ok(text);
    };
    let patched = of_text(&serde_saphyr::to_string(patched)?)?;
    let switch = switch.path();
    Ok(format!(
        "{{{{- if {switch} }}}}\n{patched}{{{{- else }}}}\n{text}{{{{- end }}}}\n"
    ))
}

/// The text as a template that prints it, with images by value.
fn of_text(text: &str) -> Result<String> {
    images::replace(&escape(text), |component| {
        let key = values::key(component.name);
        Ok(format!(
            "{{{{ .Values.images.{key}.repository }}}}@{{{{ .Values.images.{key}.digest }}}}"
        ))
    })
}

/// The text as a template that prints it.
pub(super) fn escape(text: &str) -> String {
    text.replace(OPEN, OPEN_AS_TEXT)
}

/// The text of a CRD with the annotation [`KEEP`].
///
/// # Errors
/// It has no line `metadata:`.
fn keep(text: &str) -> Result<String> {
    const METADATA: &str = "\nmetadata:\n";
    const ANNOTATIONS: &str = "  annotations:\n";
    let text = format!("\n{text}");
    let (before, after) = text
        .split_once(METADATA)
        .context("a CRD without metadata")?;
    let fields_end = after
        .split_inclusive('\n')
        .take_while(|line| line.starts_with(' '));
    let fields_end = fields_end.map(str::len).sum();
    let (fields, rest) = after.split_at(fields_end);
    let (key, value) = KEEP;
    let line = format!("    {key}: {value}\n");
    let fields = match fields.split_once(ANNOTATIONS) {
        Some((before, after)) => format!("{before}{ANNOTATIONS}{line}{after}"),
        None => format!("{ANNOTATIONS}{line}{fields}"),
    };
    let before = before.trim_start_matches('\n');
    Ok(format!("{before}{METADATA}{fields}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_an_expression_is_printed() {
        for (text, expected) in [
            ("{{ $labels.node }}", "{{ \"{{\" }} $labels.node }}"),
            ("{{{a}}}", "{{ \"{{\" }}{a}}}"),
            ("{a}", "{a}"),
        ] {
            assert_eq!(escape(text), expected);
        }
    }

    #[test]
    fn crds_are_kept_with_their_annotations() {
        let with = |fields: &str| format!("kind: C\nmetadata:\n{fields}  name: a\nspec:\n  b: c\n");
        let line = "    helm.sh/resource-policy: keep\n";
        for (fields, expected) in [
            ("", format!("  annotations:\n{line}")),
            (
                "  annotations:\n    d: e\n",
                format!("  annotations:\n{line}    d: e\n"),
            ),
        ] {
            assert_eq!(keep(&with(fields)).unwrap(), with(&expected));
        }
    }
}
