//! Lists of names in sentences.

use std::fmt;

/// How many names a sentence lists before it only counts.
const NAMES: usize = 10;

/// The first items, and how many more there are.
pub(crate) fn list<T: fmt::Display>(items: &[T], separator: &str) -> String {
    let shown: Vec<String> = items.iter().take(NAMES).map(ToString::to_string).collect();
    let shown = shown.join(separator);
    match items.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn long_lists_are_counted() {
        assert_eq!(list::<u8>(&[], ", "), "");
        assert_eq!(list(&["a", "b"], ", "), "a, b");
        let twelve: Vec<u8> = (0..12).collect();
        assert_eq!(list(&twelve, " "), "0 1 2 3 4 5 6 7 8 9 and 2 more");
    }
}
