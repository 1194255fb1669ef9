//! The drawing, for graphviz.

use super::LINK;
use super::layout::{Drawing, UpdateKind};

/// Prints a drawing in the DOT language.
pub fn dot(drawing: &Drawing<'_>) -> String {
    let mut text =
        "digraph channel {\n  rankdir=LR;\n  node [shape=box, fontsize=11];\n".to_owned();
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    for release in &drawing.releases {
        let name = quoted(&release.version.to_string());
        let url = release
            .url
            .filter(|url| url.starts_with(LINK))
            .map_or_else(String::new, |url| format!("URL={}", quoted(url)));
        let pen = if release.is_on_path {
            " penwidth=3"
        } else {
            ""
        };
        text.extend([format!("  {name} [{}];\n", format!("{url}{pen}").trim())]);
    }
    for update in &drawing.updates {
        let name = |number: usize| {
            let release = drawing.releases.get(number);
            release.map_or_else(String::new, |release| quoted(&release.version.to_string()))
        };
        let kind = match update.kind {
            UpdateKind::Recommended => "style=solid".to_owned(),
            UpdateKind::Conditional(risks) => {
                let names: Vec<&str> = risks.iter().map(|risk| risk.name.as_str()).collect();
                format!("style=dashed label={}", quoted(&names.join(", ")))
            }
            UpdateKind::Silenced(by) => format!("style=dotted color=gray label={}", quoted(by)),
        };
        let pen = if update.is_on_path { " penwidth=3" } else { "" };
        let (from, to) = (name(update.from), name(update.to));
        text.extend([format!("  {from} -> {to} [{kind}{pen}];\n")]);
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::super::layout::DrawingRequest;
    use super::*;
    use crate::path::tests::graph;

    #[test]
    fn every_release_and_update_is_a_statement() {
        let graph = graph(&["4.1.0 4.1.1"], &["4.1.1 4.2.0"]);
        let text = dot(&Drawing::new(&graph, &[], &DrawingRequest::default()));
        let expected = "  \"4.1.1\" -> \"4.2.0\" [style=dashed label=\"ToyRisk\"];\n  \
                        \"4.1.0\" -> \"4.1.1\" [style=solid];\n}\n";
        assert!(text.ends_with(expected), "{text}");
        assert!(
            text.contains("  \"4.2.0\" [URL=\"https://example.com/4.2.0\"];\n"),
            "{text}"
        );
    }

    #[test]
    fn only_pages_become_links() {
        let mut graph = graph(&["4.1.0 4.1.1"], &[]);
        for node in graph.nodes.values_mut() {
            node.metadata = [("url".to_owned(), "javascript:alert(1)".to_owned())].into();
        }
        let text = dot(&Drawing::new(&graph, &[], &DrawingRequest::default()));
        assert!(text.contains("  \"4.1.0\" [];\n"), "{text}");
        assert!(!text.contains("URL"), "{text}");
    }
}
