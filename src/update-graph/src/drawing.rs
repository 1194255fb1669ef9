//! A channel as a picture.
//!
//! - [`layout`]: which releases and updates are drawn, and where
//! - [`svg`]: the picture
//! - [`dot`]: the same for graphviz
//! - [`page`]: the picture, the shortest path and the same data as tables, as a page without script

pub mod dot;
pub mod layout;
pub mod page;
pub mod svg;

pub use layout::Drawing;

/// What the address of a page begins with that a drawing links to: metadata may say anything.
const LINK: &str = "https://";

/// A text as part of XML and HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
