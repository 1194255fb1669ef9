//! The picture, as SVG. Kinds of updates differ by their dashes, not by colours alone.

use std::cmp::Ordering;
use std::fmt::Write as _;

use super::layout::{Drawing, DrawnRelease, UpdateKind};
use super::{LINK, escaped};

/// Pixels from column to column.
const COLUMN: usize = 220;

/// Pixels from row to row.
const ROW: usize = 30;

/// Pixels around the picture, and above the first row.
const MARGIN: usize = 20;
const HEAD: usize = 40;

/// Size of a release's box.
const WIDTH: usize = 100;
const HEIGHT: usize = 20;

/// Pixels of the legend below.
const LEGEND: usize = 40;

/// Colours come from the page's scheme, light or dark.
const STYLE: &str = "text{font:12px sans-serif;fill:CanvasText}\
.release rect{fill:Canvas;stroke:CanvasText}\
.path rect{stroke-width:3}\
.update{fill:none;stroke:CanvasText;stroke-width:1;opacity:.55}\
.conditional{stroke-dasharray:6 4}\
.silenced{stroke-dasharray:1 4;stroke:GrayText}\
.update.path{stroke-width:3;opacity:1}";

/// Prints a drawing.
pub fn svg(drawing: &Drawing<'_>) -> String {
    let rows = drawing
        .columns
        .iter()
        .map(|(_, rows)| *rows)
        .max()
        .unwrap_or_default();
    let width = 2 * MARGIN + drawing.columns.len().max(2) * COLUMN;
    let foot = HEAD + rows * ROW + MARGIN;
    let height = foot + LEGEND;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" color-scheme=\"light dark\">\n<title>Updates of a channel</title>\n\
         <style>{STYLE}</style>\n"
    );
    for (column, (name, _)) in drawing.columns.iter().enumerate() {
        let x = MARGIN + column * COLUMN;
        push(
            &mut text,
            &format!("<text x=\"{x}\" y=\"{MARGIN}\">{}</text>", escaped(name)),
        );
    }
    for update in &drawing.updates {
        if let (Some(from), Some(to)) = (
            drawing.releases.get(update.from),
            drawing.releases.get(update.to),
        ) {
            push(&mut text, &line(from, to, update.kind, update.is_on_path));
        }
    }
    for release in &drawing.releases {
        push(&mut text, &shape(release));
    }
    push(&mut text, &legend(foot));
    text.push_str("</svg>\n");
    text
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn place(release: &DrawnRelease<'_>) -> (usize, usize) {
    (MARGIN + release.column * COLUMN, HEAD + release.row * ROW)
}

fn line(
    from: &DrawnRelease<'_>,
    to: &DrawnRelease<'_>,
    kind: UpdateKind<'_>,
    is_on_path: bool,
) -> String {
    let ((x, y), (to_x, to_y)) = (place(from), place(to));
    let (y, to_y) = (y + HEIGHT / 2, to_y + HEIGHT / 2);
    let shape = match from.column.cmp(&to.column) {
        Ordering::Equal => {
            // A bow to the right of the column, the wider the more rows it passes.
            let (x, bow) = (x + WIDTH, 12 + 6 * from.row.abs_diff(to.row).min(12));
            let bowed = x + bow;
            format!("M{x} {y}C{bowed} {y} {bowed} {to_y} {x} {to_y}")
        }
        Ordering::Less => {
            let x = x + WIDTH;
            let (near, far) = (x + COLUMN / 4, to_x - COLUMN / 4);
            format!("M{x} {y}C{near} {y} {far} {to_y} {to_x} {to_y}")
        }
        Ordering::Greater => {
            let to_x = to_x + WIDTH;
            format!("M{x} {y}L{to_x} {to_y}")
        }
    };
    let (class, what) = match kind {
        UpdateKind::Recommended => ("", "recommended".to_owned()),
        UpdateKind::Conditional(risks) => {
            let names: Vec<&str> = risks.iter().map(|risk| risk.name.as_str()).collect();
            (" conditional", format!("conditional: {}", names.join(", ")))
        }
        UpdateKind::Silenced(by) => (" silenced", format!("blocked by {by}")),
    };
    let path = if is_on_path { " path" } else { "" };
    format!(
        "<path class=\"update{class}{path}\" d=\"{shape}\"><title>{} to {}, {}</title></path>",
        from.version,
        to.version,
        escaped(&what)
    )
}

fn shape(release: &DrawnRelease<'_>) -> String {
    let (x, y) = place(release);
    let class = if release.is_on_path {
        "release path"
    } else {
        "release"
    };
    let version = release.version.to_string();
    let mut text = format!(
        "<g class=\"{class}\"><title>{version}</title>\
         <rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"4\"/>\
         <text x=\"{}\" y=\"{}\">{version}</text></g>",
        x + 6,
        y + 14
    );
    if let Some(url) = release.url.filter(|url| url.starts_with(LINK)) {
        text = format!("<a href=\"{}\">{text}</a>", escaped(url));
    }
    text
}

fn legend(y: usize) -> String {
    let mut text = String::new();
    let kinds = [
        ("", "recommended"),
        (" conditional", "conditional: risks"),
        (" silenced", "blocked"),
        (" path", "shortest path"),
    ];
    for (number, (class, name)) in kinds.into_iter().enumerate() {
        let (x, y) = (MARGIN + number % 2 * COLUMN, y + number / 2 * 18);
        // Writing to a String cannot fail.
        let written = write!(
            text,
            "<path class=\"update{class}\" d=\"M{x} {y}L{} {y}\"/><text x=\"{}\" y=\"{}\">{name}</text>",
            x + 40,
            x + 48,
            y + 4
        );
        if written.is_err() {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::layout::DrawingRequest;
    use super::*;
    use crate::path::tests::graph;

    #[test]
    fn the_picture_names_each_update_and_its_risks() {
        let graph = graph(&["4.1.0 4.1.1"], &["4.1.1 4.2.0"]);
        let request = DrawingRequest {
            from: Some("4.1.0".parse().unwrap()),
            ..DrawingRequest::default()
        };
        let text = svg(&Drawing::new(&graph, &[], &request));
        assert!(
            text.contains("<title>4.1.0 to 4.1.1, recommended</title>"),
            "{text}"
        );
        assert!(
            text.contains("class=\"update conditional path\"")
                && text.contains("conditional: ToyRisk"),
            "{text}"
        );
        assert!(
            text.contains("<a href=\"https://example.com/4.2.0\">"),
            "{text}"
        );
    }
}
