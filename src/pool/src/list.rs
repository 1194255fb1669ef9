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

/// Names of nodes as a sentence lists them: the first ten, and how many more there are. It has the
/// same size for a pool of any size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NameList {
    named: Vec<String>,
    more: usize,
}

impl NameList {
    /// A list of `names`, in their order.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = names.into_iter();
        Self {
            named: names.by_ref().take(NAMES).map(ToOwned::to_owned).collect(),
            more: names.count(),
        }
    }

    /// Whether it names this one, and does not only count it.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.named.iter().any(|named| named == name)
    }

    /// Whether there is no name.
    pub const fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}

impl fmt::Display for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named.join(", "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NameList, list};

    #[test]
    fn long_lists_are_counted() {
        assert_eq!(list::<u8>(&[], ", "), "");
        assert_eq!(list(&["a", "b"], ", "), "a, b");
        let twelve: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        let expected = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more";
        assert_eq!(list(&twelve, ", "), expected);
        let names = NameList::new(twelve.iter().map(String::as_str));
        assert_eq!(names.to_string(), expected);
        assert!(NameList::new([]).is_empty());
    }
}
