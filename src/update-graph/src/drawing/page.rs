//! A channel as a page: picture, shortest path, and the same data as tables. It needs no script.

use std::collections::{BTreeMap, BTreeSet};

use release::Version;
use release::update_graph::{UpdateGraph, UpdateRisk};

use super::layout::{Drawing, DrawingRequest, UpdateKind};
use super::svg::svg;
use super::{LINK, escaped};
use crate::annotated::SilencedEdge;

/// What a page is about.
#[derive(Clone, Debug)]
pub struct ChannelPage<'a> {
    pub channel: &'a str,
    pub architecture: &'a str,
    /// All channels, for the form.
    pub channels: &'a [String],
    pub graph: &'a UpdateGraph,
    /// Updates that are blocked silently.
    pub silenced: &'a [SilencedEdge],
    pub request: &'a DrawingRequest,
}

const STYLE: &str = ":root{color-scheme:light dark}body{font:14px sans-serif;margin:1.5em}\
table{border-collapse:collapse}td,th{border:1px solid GrayText;padding:.3em .6em;text-align:left;vertical-align:top}\
figure{overflow:auto;margin:1em 0}label{margin-right:1em}";

impl ChannelPage<'_> {
    /// Prints the page.
    pub fn html(&self) -> String {
        let drawing = Drawing::new(self.graph, self.silenced, self.request);
        let title = format!("Updates of {} ({})", self.channel, self.architecture);
        let title = escaped(&title);
        let mut text = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        text.push_str(&self.form());
        text.push_str(&self.path(&drawing));
        if drawing.releases.is_empty() {
            text.push_str("<p>The channel has no release of this architecture.</p>\n");
        } else {
            text.push_str("<figure>\n");
            text.push_str(&svg(&drawing));
            text.push_str(&self.caption(&drawing));
        }
        text.push_str(&self.updates(&drawing));
        text.push_str(&risks(&drawing));
        text.push_str("</body>\n</html>\n");
        text
    }

    fn form(&self) -> String {
        let options = self.channels.iter().map(|name| {
            let selected = if name == self.channel {
                " selected"
            } else {
                ""
            };
            format!("<option{selected}>{}</option>", escaped(name))
        });
        let options: String = options.collect();
        let value = |version: &Option<Version>| {
            version
                .as_ref()
                .map_or_else(String::new, Version::to_string)
        };
        format!(
            "<form method=\"get\"><label>Channel <select name=\"channel\">{options}</select></label>\
             <label>Architecture <input name=\"arch\" size=\"8\" value=\"{}\"></label>\
             <label>From <input name=\"from\" size=\"12\" value=\"{}\"></label>\
             <label>To <input name=\"to\" size=\"12\" value=\"{}\"></label>\
             <button>Show</button></form>\n",
            escaped(self.architecture),
            value(&self.request.from),
            value(&self.request.to),
        )
    }

    fn path(&self, drawing: &Drawing<'_>) -> String {
        let Some(from) = &self.request.from else {
            return String::new();
        };
        if !self.graph.nodes.contains_key(from) {
            return format!("<p>Release {from} is not in this channel.</p>\n");
        }
        if let Some(to) = self
            .request
            .to
            .as_ref()
            .filter(|to| !self.graph.nodes.contains_key(to))
        {
            return format!("<p>Release {to} is not in this channel.</p>\n");
        }
        let Some((_, hops)) = &drawing.path else {
            return format!("<p>No update leads there from {from}.</p>\n");
        };
        if hops.is_empty() {
            return format!("<p>{from} is the newest release that can be reached.</p>\n");
        }
        let is_recommended = hops.iter().all(|hop| hop.risks.is_empty());
        let kind = if is_recommended {
            "recommended"
        } else {
            "conditional"
        };
        let mut text = format!("<h2>Shortest path ({kind})</h2>\n<ol>\n");
        let mut before = from;
        for hop in hops {
            let names = hop.risks.iter().map(|risk| escaped(&risk.name));
            let names: Vec<String> = names.collect();
            let option = if names.is_empty() {
                ""
            } else {
                " --allow-not-recommended"
            };
            let risks = if names.is_empty() {
                String::new()
            } else {
                format!(" unless these apply: {}", names.join(", "))
            };
            text.extend([format!(
                "<li>{to}{risks}: <code>slipway upgrade --to {to}{option}</code>; what changes: {changes}</li>\n",
                changes = changes(before, &hop.to),
                to = hop.to
            )]);
            before = &hop.to;
        }
        text.push_str("</ol>\n");
        text
    }

    fn caption(&self, drawing: &Drawing<'_>) -> String {
        let hidden = if drawing.hidden > 0 {
            let mut query = format!("channel={}&amp;arch={}", self.channel, self.architecture);
            for (name, version) in [("from", &self.request.from), ("to", &self.request.to)] {
                if let Some(version) = version {
                    let version = version.to_string().replace('+', "%2B");
                    query.extend([format!("&amp;{name}={version}")]);
                }
            }
            format!(
                " {} updates that follow from these are not drawn: <a href=\"?{query}&amp;all=true\">draw all</a>.",
                drawing.hidden
            )
        } else {
            String::new()
        };
        format!(
            "<figcaption>{} releases, {} updates.{hidden}</figcaption>\n</figure>\n",
            drawing.releases.len(),
            drawing.updates.len()
        )
    }

    /// Updates out of the release that runs; without one, nothing.
    fn updates(&self, drawing: &Drawing<'_>) -> String {
        let Some(from) = &self.request.from else {
            return String::new();
        };
        let mut rows: BTreeMap<&Version, String> = BTreeMap::new();
        for edge in self.graph.edges.iter().filter(|edge| edge.from == *from) {
            rows.insert(&edge.to, "recommended".to_owned());
        }
        for group in &self.graph.conditional {
            for edge in group.edges.iter().filter(|edge| edge.from == *from) {
                let names: Vec<String> = group.risks.iter().map(risk_link).collect();
                rows.insert(&edge.to, format!("conditional: {}", names.join(", ")));
            }
        }
        for blocked in self
            .silenced
            .iter()
            .filter(|blocked| blocked.edge.from == *from)
        {
            rows.insert(
                &blocked.edge.to,
                format!("blocked by {}", escaped(&blocked.by)),
            );
        }
        let drawn: BTreeSet<&Version> = drawing
            .releases
            .iter()
            .map(|release| release.version)
            .collect();
        let mut text = format!(
            "<h2>Updates from {from}</h2>\n<table>\n<tr><th>Release</th><th>Update</th><th>What changes</th></tr>\n"
        );
        for (to, what) in rows.iter().rev().filter(|(to, _)| drawn.contains(**to)) {
            let changes = changes(from, to);
            text.extend([format!(
                "<tr><td>{to}</td><td>{what}</td><td>{changes}</td></tr>\n"
            )]);
        }
        text.push_str("</table>\n");
        text
    }
}

/// The command that compares two releases, with the packages of their OS.
fn changes(from: &Version, to: &Version) -> String {
    format!("<code>slipway release info {from} {to} --packages</code>")
}

fn risk_link(risk: &UpdateRisk) -> String {
    let name = escaped(&risk.name);
    format!("<a href=\"#{name}\">{name}</a>")
}

/// The risks of drawn updates, with their pages.
fn risks(drawing: &Drawing<'_>) -> String {
    let mut named: BTreeMap<&str, &UpdateRisk> = BTreeMap::new();
    for update in &drawing.updates {
        if let UpdateKind::Conditional(risks) = update.kind {
            named.extend(risks.iter().map(|risk| (risk.name.as_str(), risk)));
        }
    }
    if named.is_empty() {
        return String::new();
    }
    let mut text = "<h2>Risks</h2>\n<table>\n<tr><th>Name</th><th>Risk</th></tr>\n".to_owned();
    for (name, risk) in named {
        let name = escaped(name);
        let link = if risk.url.starts_with(LINK) {
            let url = escaped(&risk.url);
            format!(" <a href=\"{url}\">{url}</a>")
        } else {
            String::new()
        };
        let message = escaped(&risk.message);
        text.extend([format!(
            "<tr id=\"{name}\"><td>{name}</td><td>{message}{link}</td></tr>\n"
        )]);
    }
    text.push_str("</table>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::graph;

    fn page(from: &str) -> String {
        let graph = graph(&["4.1.0 4.1.1"], &["4.1.1 4.2.0"]);
        let request = DrawingRequest {
            from: Some(from.parse().unwrap()),
            ..DrawingRequest::default()
        };
        let page = ChannelPage {
            channel: "fast-4.2",
            architecture: "amd64",
            channels: &["fast-4.2".to_owned()],
            graph: &graph,
            silenced: &[],
            request: &request,
        };
        page.html()
    }

    #[test]
    fn the_page_has_the_path_its_commands_and_its_risks() {
        let text = page("4.1.0");
        for part in [
            "<h2>Shortest path (conditional)</h2>",
            "<code>slipway upgrade --to 4.1.1</code>; what changes: \
             <code>slipway release info 4.1.0 4.1.1 --packages</code>",
            "<tr><td>4.1.1</td><td>recommended</td>\
             <td><code>slipway release info 4.1.0 4.1.1 --packages</code></td></tr>",
            "slipway release info 4.1.1 4.2.0 --packages",
            "unless these apply: ToyRisk: <code>slipway upgrade --to 4.2.0 --allow-not-recommended</code>",
            "<tr id=\"ToyRisk\"><td>ToyRisk</td><td>Toys &lt;may&gt; break. <a href=\"https://example.com/risk\">",
            "<svg ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("<script"));
    }

    #[test]
    fn the_page_is_that_of_the_golden() {
        let page = page("4.1.0");
        golden::assert(env!("CARGO_MANIFEST_DIR"), "tests/golden/page.html", &page);
    }

    #[test]
    fn a_release_that_is_not_there_is_named() {
        assert!(page("4.1.9").contains("Release 4.1.9 is not in this channel."));
        assert!(page("4.2.0").contains("4.2.0 is the newest release that can be reached."));
    }
}
