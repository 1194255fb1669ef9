//! Cells that stand under each other.

/// Prints rows, each after `indent` blanks.
///
/// All cells of a row but the last are filled with blanks to the longest of their column, and one
/// more.
pub(super) fn table<C: AsRef<str>, const COLUMNS: usize>(
    indent: usize,
    rows: &[[C; COLUMNS]],
) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.as_ref().chars().count())
            .max()
            .unwrap_or_default()
            + 1
    };
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for row in rows {
        text.extend(std::iter::repeat_n(' ', indent));
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = cell.as_ref();
            text.push_str(cell);
            if column + 1 < COLUMNS {
                let blanks = width - cell.chars().count();
                text.extend(std::iter::repeat_n(' ', blanks));
            }
        }
        text.push('\n');
    }
    text
}

/// Joins blocks that are not empty, each with an empty line after it.
pub(super) fn blocks(blocks: &[String]) -> String {
    let mut text = String::new();
    for block in blocks.iter().filter(|block| !block.is_empty()) {
        text.push_str(block);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let rows = [["a", "1", "x"], ["long", "2", ""], ["b", "333", "y"]];
        assert_eq!(table(2, &rows), "  a    1   x\n  long 2   \n  b    333 y\n");
        assert_eq!(table::<&str, 2>(0, &[]), "");
    }
}
