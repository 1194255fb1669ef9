//! What upper layers hide of lower ones.

use std::collections::HashSet;

use crate::budget::{Budget, Excess};
use crate::layer::Act;

/// What the layers above hide, as layers are read from the uppermost down.
///
/// A whiteout hides nothing of its own layer, so what a layer hides counts from the next one on.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    /// The directory or file that is read. What lies neither in it nor on the way to it is not
    /// remembered.
    scope: String,
    above: Hidden,
    own: Hidden,
}

#[derive(Debug, Default)]
struct Hidden {
    /// Paths that are there, so that those of the same name below do not count.
    there: HashSet<String>,
    /// Paths that are hidden with all that is below them: whiteouts, and files in the place of
    /// directories.
    whole: HashSet<String>,
    /// Directorys of which the layers below show nothing.
    content: HashSet<String>,
}

impl Hidden {
    fn hides(&self, path: &str) -> bool {
        let is_hidden = |path: &str| self.whole.contains(path);
        self.there.contains(path)
            || is_hidden(path)
            || ancestors(path)
                .any(|directory| is_hidden(directory) || self.content.contains(directory))
    }
}

impl Shadow {
    /// Of a directory or file; of the whole image where it is empty.
    pub(super) fn new(scope: &str) -> Self {
        Self {
            scope: scope.to_owned(),
            ..Self::default()
        }
    }

    /// Takes an entry and the cost of its path; whether it shows and lies in the scope, or on the
    /// way to it.
    pub(super) fn takes(
        &mut self,
        act: &Act,
        is_directory: bool,
        budget: &Budget,
    ) -> Result<bool, Excess> {
        if !self.concerns(act.path()) {
            return Ok(false);
        }
        budget.use_path(act.path())?;
        Ok(self.sees(act, is_directory))
    }

    fn concerns(&self, path: &str) -> bool {
        let is_in = |path: &str, directory: &str| {
            let rest = path.strip_prefix(directory);
            directory.is_empty()
                || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        is_in(path, &self.scope) || is_in(&self.scope, path)
    }

    /// Takes an entry; whether it shows.
    fn sees(&mut self, act: &Act, is_directory: bool) -> bool {
        match act {
            Act::Put(path) => {
                let is_seen = !self.above.hides(path);
                if is_directory {
                    // Directorys of several layers are one.
                } else if is_seen {
                    self.own.there.insert(path.clone());
                    self.own.whole.insert(path.clone());
                }
                is_seen
            }
            Act::Hide(path) => {
                self.own.whole.insert(path.clone());
                false
            }
            Act::HideContent(directory) => {
                self.own.content.insert(directory.clone());
                false
            }
        }
    }

    /// The next entries are of the layer below.
    pub(super) fn next_layer(&mut self) {
        let own = std::mem::take(&mut self.own);
        self.above.there.extend(own.there);
        self.above.whole.extend(own.whole);
        self.above.content.extend(own.content);
    }

    /// Whether no layer below shows anything in this directory.
    pub(super) fn hides_all_in(&self, directory: &str) -> bool {
        [&self.above, &self.own].into_iter().any(|hidden| {
            hidden.content.contains(directory) || hidden.whole.contains(directory) || {
                let mut all = ancestors(directory);
                all.any(|above| hidden.whole.contains(above) || hidden.content.contains(above))
            }
        })
    }
}

/// The directories that a path lies in, the nearest first, down to the root.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let path = rest.filter(|path| !path.is_empty())?;
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        rest = Some(directory);
        Some(directory)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::BudgetLimits;

    fn put(path: &str) -> Act {
        Act::Put(path.to_owned())
    }

    #[test]
    fn ancestors_end_at_the_root() {
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!(ancestors("a").collect::<Vec<_>>(), [""]);
        assert_eq!(ancestors("").count(), 0);
    }

    #[test]
    fn upper_layers_hide_what_is_below() {
        let mut shadow = Shadow::default();
        for (act, is_directory, expected) in [
            (put("a"), true, true),
            (put("a/x"), false, true),
            (Act::Hide("b".to_owned()), false, false),
            // Of the same layer it hides nothing.
            (put("b/own"), false, true),
            (Act::HideContent("c".to_owned()), false, false),
            (put("c/own"), false, true),
            (put("d"), false, true),
        ] {
            assert_eq!(shadow.sees(&act, is_directory), expected, "{act:?}");
        }
        shadow.next_layer();
        for (path, expected) in [
            ("a/x", false),
            ("a/y", true),
            ("b", false),
            ("b/y", false),
            ("bb", true),
            ("c/y", false),
            ("c/y/z", false),
            ("d/y", false),
        ] {
            assert_eq!(shadow.sees(&put(path), false), expected, "{path}");
        }
        assert!(shadow.hides_all_in("b") && shadow.hides_all_in("c/y"));
        assert!(!shadow.hides_all_in("a"));
    }

    #[test]
    fn root_may_be_hidden() {
        let mut shadow = Shadow::default();
        shadow.sees(&Act::HideContent(String::new()), false);
        assert!(shadow.hides_all_in("a/b"));
        shadow.next_layer();
        assert!(!shadow.sees(&put("x"), false));
    }

    #[test]
    fn only_paths_in_the_scope_and_on_the_way_to_it_cost() {
        let limits = BudgetLimits {
            paths_bytes: 250,
            ..BudgetLimits::TO_DISK
        };
        let (mut shadow, budget) = (Shadow::new("a/b"), Budget::new(limits));
        for path in ["a/b/x", "a", "a/b"] {
            assert_eq!(shadow.takes(&put(path), path == "a", &budget), Ok(true));
        }
        for path in ["a/bx", "b", "a/c/x"] {
            assert_eq!(shadow.takes(&put(path), false, &budget), Ok(false));
        }
        let error = shadow.takes(&put("a/b/y"), false, &budget);
        assert_eq!(error, Err(Excess::Paths(250)));
    }
}
