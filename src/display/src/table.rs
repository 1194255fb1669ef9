//! A table with a mark before each row and aligned columns.

use crate::ink::{Ink, Tone};

/// What stands between two columns.
const GAP: &str = "  ";

#[derive(Clone, Copy, Debug)]
pub struct Column {
    title: &'static str,
    is_right: bool,
    at_least: usize,
}

impl Column {
    pub const fn left(title: &'static str) -> Self {
        Self {
            title,
            is_right: false,
            at_least: 0,
        }
    }

    pub const fn right(title: &'static str) -> Self {
        Self {
            is_right: true,
            ..Self::left(title)
        }
    }

    /// As wide as this text, so that a table that is drawn again stands still.
    #[must_use]
    pub const fn as_wide_as(self, text: &str) -> Self {
        Self {
            at_least: text.len(),
            ..self
        }
    }
}

/// A text of one row.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Shown as one line.
    pub text: String,
    pub tone: Tone,
}

impl Cell {
    /// One with a meaning.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        Self { text, tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// Columns and rows.
#[derive(Clone, Debug)]
pub struct AlignedTable<'a> {
    columns: &'a [Column],
    rows: Vec<(Cell, Vec<Cell>)>,
}

impl<'a> AlignedTable<'a> {
    /// One without rows.
    pub const fn new(columns: &'a [Column]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row: its mark, a single character, and a cell for each column.
    pub fn push(&mut self, mark: Cell, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push((mark, cells.into_iter().collect()));
    }

    /// A line of titles and one for each row, without spaces at their ends. Of the last column,
    /// what is beyond `width` is left out.
    pub fn draw(&self, ink: Ink, width: usize) -> Vec<String> {
        let widths: Vec<_> = (0..self.columns.len()).map(|at| self.width(at)).collect();
        let titles = self.columns.iter().map(|column| Cell::from(column.title));
        let heading = self.line(Ink::Plain, &" ".into(), titles, &widths, width);
        let rows = self
            .rows
            .iter()
            .map(|(mark, cells)| self.line(ink, mark, cells.iter().cloned(), &widths, width));
        let heading = ink.paint(Tone::Soft, &heading);
        std::iter::once(heading).chain(rows).collect()
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(at));
        let column = self.columns.get(at);
        let least = column.map_or(0, |column| column.at_least.max(column.title.len()));
        let lengths = cells.map(|cell| cell.text.chars().count());
        lengths.fold(least, usize::max)
    }

    fn line(
        &self,
        ink: Ink,
        mark: &Cell,
        cells: impl Iterator<Item = Cell>,
        widths: &[usize],
        width: usize,
    ) -> String {
        let mut line = format!("{} ", ink.paint(mark.tone, &mark.text));
        let mut used = 2;
        let mut padding = 0;
        let columns = self.columns.iter().zip(widths).zip(cells);
        for (number, ((column, wide), cell)) in columns.enumerate() {
            if number > 0 {
                padding += GAP.len();
            }
            let left = width.saturating_sub(used + padding);
            let text = cut(&cell.text, left);
            let rest = wide.saturating_sub(text.chars().count());
            if column.is_right {
                padding += rest;
            }
            // What ends a line is no padding.
            if !text.is_empty() {
                line.push_str(&" ".repeat(padding));
                line.push_str(&ink.paint(cell.tone, &text));
                used += padding + text.chars().count();
                padding = 0;
            }
            if !column.is_right {
                padding += rest;
            }
        }
        line
    }
}

/// The first `width` characters as one line, the last of them an ellipsis where something is left
/// out. A line end or a tab becomes a space.
pub fn cut(text: &str, width: usize) -> String {
    let on_one_line = |character: char| match character {
        '\n' | '\r' | '\t' => ' ',
        other => other,
    };
    if text.chars().count() <= width {
        return text.chars().map(on_one_line).collect();
    }
    let kept = text.chars().take(width.saturating_sub(1)).map(on_one_line);
    kept.chain((width > 0).then_some('\u{2026}')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ink::strip;

    const COLUMNS: [Column; 3] = [
        Column::left("NAME").as_wide_as("a-long-name"),
        Column::right("SIZE"),
        Column::left("WHY"),
    ];

    fn table() -> AlignedTable<'static> {
        let mut table = AlignedTable::new(&COLUMNS);
        let good = Cell::new("+", Tone::Good);
        let tall = Cell::new("12,345", Tone::Bad);
        table.push(good.clone(), ["one".into(), tall, "of two\nlines".into()]);
        table.push(good, ["two".into(), "1".into(), Cell::default()]);
        table.push("!".into(), ["three".into(), Cell::default(), "no".into()]);
        table
    }

    #[test]
    fn columns_are_aligned_and_lines_end_with_text() {
        let expected = "
  NAME           SIZE  WHY
+ one          12,345  of two lines
+ two               1
! three                no";
        let lines = table().draw(Ink::Plain, 80);
        assert_eq!(format!("\n{}", lines.join("\n")), expected);
    }

    #[test]
    fn colours_change_no_column() {
        let plain = table().draw(Ink::Plain, 80);
        let coloured = table().draw(Ink::Coloured, 80);
        assert_ne!(coloured, plain);
        let stripped: Vec<_> = coloured.iter().map(|line| strip(line)).collect();
        assert_eq!(stripped, plain);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [24, 30, 80] {
            for line in table().draw(Ink::Plain, width) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        let lines = table().draw(Ink::Plain, 30);
        assert_eq!(lines[1], "+ one          12,345  of two…");
    }
}
