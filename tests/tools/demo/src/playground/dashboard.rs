//! The queries of the product's dashboard as a page that Prometheus serves: the dashboard itself
//! needs a program that draws it.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Name of the page.
const PAGE: &str = "dashboard.html";

/// Writes the page into the folder of Prometheus' console templates.
#[expect(clippy::disallowed_methods, reason = "a run's own files")]
pub(super) fn write(consoles: &Path) -> Result<()> {
    let file = testbed::workspace().join("deploy/monitoring/dashboard.json");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let page = page(&serde_json::from_str(&text)?)?;
    let path = consoles.join(PAGE);
    std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// A template: each panel with its queries, their values of now, and a link to their graph.
fn page(dashboard: &Value) -> Result<String> {
    let title = text(dashboard, "title");
    let mut page = format!("<!doctype html><meta charset=\"utf-8\"><title>{title}</title>\n");
    page.push_str(
        "<style>body{font:15px sans-serif;max-width:60em;margin:2em auto}code{color:#555}</style>\n",
    );
    page.extend([format!("<h1>{title}</h1>\n")]);
    let panels = dashboard.get("panels").and_then(Value::as_array);
    for panel in panels.context("a dashboard without panels")? {
        page.extend([format!("<h2>{}</h2>\n", text(panel, "title"))]);
        let targets = panel.get("targets").and_then(Value::as_array);
        for target in targets.into_iter().flatten() {
            page.push_str(&query(&text(target, "expr")));
        }
    }
    Ok(page)
}

/// One query. In a template, backquotes enclose a text as it is.
fn query(expression: &str) -> String {
    format!(
        "<p><a href=\"{{{{ graphLink `{expression}` }}}}\"><code>{{{{ `{expression}` }}}}</code></a></p>\n\
         <ul>\n\
         {{{{ range query `{expression}` }}}}<li>{{{{ .Labels }}}} {{{{ .Value }}}}</li>\n\
         {{{{ else }}}}<li>no value</li>\n{{{{ end }}}}</ul>\n"
    )
}

fn text(value: &Value, field: &str) -> String {
    let text = value.get(field).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_query_is_evaluated_and_leads_to_its_graph() {
        let panels = json!([{ "title": "Nodes", "targets": [{ "expr": "a{b=\"c\"}" }] }]);
        let page = page(&json!({ "title": "All", "panels": panels })).unwrap();
        assert!(page.contains("<h1>All</h1>\n<h2>Nodes</h2>\n"), "{page}");
        assert!(page.contains("{{ range query `a{b=\"c\"}` }}"), "{page}");
        assert!(
            page.contains("<a href=\"{{ graphLink `a{b=\"c\"}` }}\">"),
            "{page}"
        );
    }

    #[test]
    fn a_dashboard_without_panels_is_refused() {
        page(&json!({ "title": "All" })).unwrap_err();
    }
}
