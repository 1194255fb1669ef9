//! A small writer of SVG: elements with attributes, in order, escaped.

use std::fmt::{self, Display, Formatter};

/// An element of an SVG document. Printing it gives the document's text.
#[derive(Clone, Debug)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<Child>,
}

#[derive(Clone, Debug)]
enum Child {
    Element(Element),
    Text(String),
}

impl Element {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            attributes: Vec::new(),
            children: Vec::new(),
        }
    }

    /// The root of a document of this size in pixels.
    pub fn document(width: f64, height: f64) -> Self {
        Self::new("svg")
            .with("xmlns", "http://www.w3.org/2000/svg")
            .with("width", Pixels(width))
            .with("height", Pixels(height))
            .with(
                "viewBox",
                format!("0 0 {} {}", Pixels(width), Pixels(height)),
            )
    }

    /// A rectangle from its left upper corner.
    pub fn rect(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self::new("rect")
            .with("x", Pixels(x))
            .with("y", Pixels(y))
            .with("width", Pixels(width.max(0.0)))
            .with("height", Pixels(height))
    }

    pub fn line(from: (f64, f64), to: (f64, f64)) -> Self {
        Self::new("line")
            .with("x1", Pixels(from.0))
            .with("y1", Pixels(from.1))
            .with("x2", Pixels(to.0))
            .with("y2", Pixels(to.1))
    }

    /// A line through points, or the area between them.
    pub fn path(points: impl IntoIterator<Item = (f64, f64)>, is_closed: bool) -> Self {
        let mut data = String::new();
        for (x, y) in points {
            let command = if data.is_empty() { 'M' } else { 'L' };
            let (x, y) = (Pixels(x), Pixels(y));
            data = format!("{data}{command}{x} {y}");
        }
        if is_closed {
            data.push('Z');
        }
        Self::new("path").with("d", data)
    }

    /// A line of text, its baseline at `y`.
    pub fn text(x: f64, y: f64, text: impl Into<String>) -> Self {
        Self::new("text")
            .with("x", Pixels(x))
            .with("y", Pixels(y))
            .saying(text)
    }

    /// With an attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// With these after the children that it has.
    #[must_use]
    pub fn holding(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children
            .extend(children.into_iter().map(Child::Element));
        self
    }

    /// With a text after the children that it has.
    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.children.push(Child::Text(text.into()));
        self
    }

    /// With a tooltip, which viewers show while the pointer rests on the element.
    #[must_use]
    pub fn explained(self, text: impl Into<String>) -> Self {
        self.holding([Self::new("title").saying(text)])
    }

    fn write(&self, f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
        write!(f, "{:depth$}<{}", "", self.name)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}=\"{}\"", Escaped(value))?;
        }
        match self.children.as_slice() {
            [] => writeln!(f, "/>"),
            [Child::Text(text)] => writeln!(f, ">{}</{}>", Escaped(text), self.name),
            children => {
                writeln!(f, ">")?;
                for child in children {
                    match child {
                        Child::Element(element) => element.write(f, depth + 1)?,
                        Child::Text(text) => writeln!(f, "{}", Escaped(text))?,
                    }
                }
                writeln!(f, "{:depth$}</{}>", "", self.name)
            }
        }
    }
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

/// A length: tenths of a pixel are enough.
struct Pixels(f64);

impl Display for Pixels {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let tenths = format!("{:.1}", self.0);
        f.write_str(tenths.strip_suffix(".0").unwrap_or(&tenths))
    }
}

/// Text between tags and in attributes; characters that XML cannot hold at all are left out.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\n' | '\t' => write!(f, "{character}")?,
                character if character.is_control() => {}
                character => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Element;

    #[test]
    fn what_a_cluster_says_cannot_break_the_document() {
        let element = Element::new("g")
            .with("class", "a\"b")
            .holding([Element::text(1.0, 2.25, "<pod> & \u{1b}[31mbudget").explained("why")]);
        let expected = "<g class=\"a&quot;b\">\n <text x=\"1\" y=\"2.2\">\n&lt;pod&gt; &amp; \
                        [31mbudget\n  <title>why</title>\n </text>\n</g>\n";
        assert_eq!(element.to_string(), expected);
    }

    #[test]
    fn a_path_joins_its_points() {
        let path = Element::path([(0.0, 1.0), (2.5, 3.0)], true);
        assert_eq!(path.to_string(), "<path d=\"M0 1L2.5 3Z\"/>\n");
    }
}
