//! What single layers have at some paths, and what an image has there, with one layer over the
//! other. A layer is read once for all images that have it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::layer::Act;

/// A path that is read of images.
///
/// Shape: without slashes at its ends; a part `*` stands for any one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathPattern {
    pub path: String,
    /// Bytes that a file there may have; none where only its name is wanted.
    pub max_bytes: Option<u64>,
}

/// What the path of an entry is to a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Is,
    /// It may be a directory on the way.
    Above,
    Apart,
}

/// What a layer, or an image, has at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A file, of which the name is wanted.
    Name,
    /// A file whose bytes are in this one.
    File(PathBuf),
    /// A hard link to this path.
    Link(String),
    Directory,
    /// Something that is no file, or that lies on the way to one.
    Other,
}

/// One thing that a layer does, in the order of its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Put(String, Piece),
    Hide(String),
    HideContent(String),
}

/// What a layer does at the paths that are wanted and above them.
pub(super) type LayerRecord = Vec<Step>;

/// The paths that are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns(Vec<PathPattern>);

impl Patterns {
    pub(super) fn new(patterns: Vec<PathPattern>) -> Self {
        Self(patterns)
    }

    /// The pattern of a path.
    pub(super) fn of(&self, path: &str) -> Option<&PathPattern> {
        let mut patterns = self.0.iter();
        patterns.find(|pattern| relation(&pattern.path, path) == Relation::Is)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether what lies at a path may be wanted, or hide what is.
    pub(super) fn concern(&self, path: &str) -> bool {
        let mut patterns = self.0.iter();
        patterns.any(|pattern| relation(&pattern.path, path) != Relation::Apart)
    }

    /// Wants a path to which a hard link of another one leads; whether it was not wanted before.
    pub(super) fn add_target(&mut self, link: &str, target: &str) -> bool {
        let max_bytes = self.of(link).and_then(|pattern| pattern.max_bytes);
        let is_wanted = |pattern: &PathPattern| pattern.max_bytes.is_some();
        if max_bytes.is_none() || self.of(target).is_some_and(is_wanted) {
            return false;
        }
        self.0.insert(
            0,
            PathPattern {
                path: target.to_owned(),
                max_bytes,
            },
        );
        true
    }
}

fn relation(pattern: &str, path: &str) -> Relation {
    let mut pattern = pattern.split('/');
    for part in path.split('/').filter(|part| !part.is_empty()) {
        match pattern.next() {
            Some(wanted) if wanted == "*" || wanted == part => {}
            Some(_) | None => return Relation::Apart,
        }
    }
    if pattern.next().is_none() {
        Relation::Is
    } else {
        Relation::Above
    }
}

/// Hard links of a record whose bytes are wanted: path and target.
pub(super) fn links(record: &[Step]) -> impl Iterator<Item = (&str, &str)> {
    record.iter().filter_map(|step| match step {
        Step::Put(path, Piece::Link(target)) => Some((path.as_str(), target.as_str())),
        Step::Put(..) | Step::Hide(_) | Step::HideContent(_) => None,
    })
}

/// The step that an entry is, if it concerns what is wanted. `piece` is called for what is.
pub(super) fn step<E>(
    patterns: &Patterns,
    act: Act,
    is_directory: bool,
    piece: impl FnOnce(&str, &PathPattern) -> Result<Piece, E>,
) -> Result<Option<Step>, E> {
    if !patterns.concern(act.path()) {
        return Ok(None);
    }
    Ok(match act {
        Act::Hide(path) => Some(Step::Hide(path)),
        Act::HideContent(path) => Some(Step::HideContent(path)),
        Act::Put(path) => {
            let piece = match patterns.of(&path) {
                // Directorys of several layers are one.
                None if is_directory => return Ok(None),
                None => Piece::Other,
                Some(_) if is_directory => Piece::Directory,
                Some(pattern) => piece(&path, pattern)?,
            };
            Some(Step::Put(path, piece))
        }
    })
}

/// Puts layers over each other, the lowest first: the files of the image by path, none of those
/// whose name is wanted.
///
/// # Errors
/// The first path that a hard link leads to and that was not read.
pub(super) fn merge(records: &[&LayerRecord]) -> Result<BTreeMap<String, Option<PathBuf>>, String> {
    let mut files: BTreeMap<String, Option<PathBuf>> = BTreeMap::new();
    let mut dangling = None;
    for record in records {
        // Wherever it lies in the layer, a whiteout is about the layers below. A link may lead to
        // what its own layer hides, which is there while the layer is applied.
        let below = files.clone();
        for step in *record {
            match step {
                Step::Hide(path) => remove(&mut files, path, true),
                Step::HideContent(path) => remove(&mut files, path, false),
                Step::Put(..) => {}
            }
        }
        for step in *record {
            let Step::Put(path, piece) = step else {
                continue;
            };
            let file = match piece {
                Piece::Name => None,
                Piece::File(file) => Some(file.clone()),
                Piece::Link(target) => {
                    let found = files.get(target).or_else(|| below.get(target));
                    if let Some(Some(file)) = found {
                        Some(file.clone())
                    } else {
                        dangling.get_or_insert_with(|| target.clone());
                        continue;
                    }
                }
                Piece::Directory => {
                    files.remove(path);
                    continue;
                }
                Piece::Other => {
                    remove(&mut files, path, true);
                    continue;
                }
            };
            files.insert(path.clone(), file);
        }
    }
    match dangling {
        None => Ok(files),
        Some(target) => Err(target),
    }
}

/// Removes what lies below a path, and the path itself.
fn remove(files: &mut BTreeMap<String, Option<PathBuf>>, path: &str, itself: bool) {
    files.retain(|file, _| {
        let rest = file.strip_prefix(path);
        let is_below = path.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'));
        !(is_below || (itself && file == path))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns() -> Patterns {
        let pattern = |(path, max_bytes): (&str, Option<u64>)| PathPattern {
            path: path.to_owned(),
            max_bytes,
        };
        let all = [("a/db", Some(9)), ("m/*/k", None), ("a/d/*", Some(5))];
        Patterns::new(all.map(pattern).to_vec())
    }

    fn put(path: &str, piece: Piece) -> Step {
        Step::Put(path.to_owned(), piece)
    }

    fn file(path: &str, content: &str) -> Step {
        put(path, Piece::File(PathBuf::from(content)))
    }

    fn link(path: &str, target: &str) -> Step {
        put(path, Piece::Link(target.to_owned()))
    }

    fn hide(path: &str) -> Step {
        Step::Hide(path.to_owned())
    }

    fn hide_content(path: &str) -> Step {
        Step::HideContent(path.to_owned())
    }

    #[test]
    fn patterns_concern_paths_and_what_lies_above() {
        for (path, is_wanted, concerns) in [
            ("a/db", true, true),
            ("a", false, true),
            ("", false, true),
            ("a/db/x", false, false),
            ("a/dbx", false, false),
            ("m/1/k", true, true),
            ("m/1", false, true),
            ("m/1/x", false, false),
            ("m/1/2/k", false, false),
            ("a/d/x", true, true),
            ("a/d", false, true),
        ] {
            assert_eq!(patterns().of(path).is_some(), is_wanted, "{path}");
            assert_eq!(patterns().concern(path), concerns, "{path}");
        }
    }

    #[test]
    fn targets_of_links_are_wanted_once() {
        let mut patterns = patterns();
        assert!(patterns.add_target("a/db", "objects/x"));
        assert!(!patterns.add_target("a/db", "objects/x"));
        assert_eq!(patterns.of("objects/x").unwrap().max_bytes, Some(9));
        // The name is enough, or the target is read anyway.
        assert!(!patterns.add_target("m/1/k", "objects/y"));
        assert!(!patterns.add_target("a/db", "a/d/x"));
        assert!(patterns.add_target("a/db", "m/1/k"));
        assert_eq!(patterns.of("m/1/k").unwrap().max_bytes, Some(9));
    }

    #[test]
    fn entries_become_steps() {
        let take = |act: Act, is_directory: bool| {
            step(&patterns(), act, is_directory, |_, pattern| {
                Ok::<_, ()>(if pattern.max_bytes.is_some() {
                    Piece::File(PathBuf::from("1"))
                } else {
                    Piece::Name
                })
            })
            .unwrap()
        };
        let act = |path: &str| Act::Put(path.to_owned());
        assert_eq!(take(act("a/db"), false), Some(file("a/db", "1")));
        assert_eq!(take(act("a/db"), true), Some(put("a/db", Piece::Directory)));
        assert_eq!(take(act("m/1/k"), false), Some(put("m/1/k", Piece::Name)));
        assert_eq!(take(act("a"), false), Some(put("a", Piece::Other)));
        assert_eq!(take(act("a"), true), None);
        assert_eq!(take(act("b"), false), None);
        assert_eq!(take(Act::Hide("m/1".to_owned()), false), Some(hide("m/1")));
        let all = Act::HideContent(String::new());
        assert_eq!(take(all, false), Some(hide_content("")));
        assert_eq!(take(Act::Hide("m/1/x".to_owned()), false), None);
    }

    #[test]
    fn layers_lie_over_each_other() {
        let base = vec![
            file("a/db", "1"),
            put("m/1/k", Piece::Name),
            file("a/d/x", "2"),
        ];
        for (upper, expected) in [
            (vec![], "a/d/x=2 a/db=1 m/1/k"),
            (vec![file("a/db", "3")], "a/d/x=2 a/db=3 m/1/k"),
            (
                vec![hide("m/1"), put("m/2/k", Piece::Name)],
                "a/d/x=2 a/db=1 m/2/k",
            ),
            (vec![hide("a/db")], "a/d/x=2 m/1/k"),
            // A whiteout is about the layers below, wherever it lies.
            (
                vec![file("a/db", "3"), hide("a/db")],
                "a/d/x=2 a/db=3 m/1/k",
            ),
            (
                vec![hide_content("a/d"), file("a/d/y", "4")],
                "a/d/y=4 a/db=1 m/1/k",
            ),
            (vec![hide_content("")], ""),
            (vec![put("a", Piece::Other)], "m/1/k"),
            (vec![put("a/db", Piece::Directory)], "a/d/x=2 m/1/k"),
            (vec![put("a/db", Piece::Other)], "a/d/x=2 m/1/k"),
            (vec![link("a/db", "a/d/x")], "a/d/x=2 a/db=2 m/1/k"),
            (
                vec![file("o/1", "5"), link("a/db", "o/1")],
                "a/d/x=2 a/db=5 m/1/k o/1=5",
            ),
            (
                vec![file("o/1", "5"), link("o/2", "o/1"), link("a/db", "o/2")],
                "a/d/x=2 a/db=5 m/1/k o/1=5 o/2=5",
            ),
            // The link leads to the file of the layer below that its own layer hides.
            (vec![hide("a/d/x"), link("a/db", "a/d/x")], "a/db=2 m/1/k"),
            (
                vec![file("a/db", "6"), file("a/db", "7")],
                "a/d/x=2 a/db=7 m/1/k",
            ),
        ] {
            let files = merge(&[&base, &upper]).unwrap();
            let lines = files.iter().map(|(path, file)| match file {
                Some(file) => format!("{path}={}", file.display()),
                None => path.clone(),
            });
            assert_eq!(lines.collect::<Vec<_>>().join(" "), expected, "{upper:?}");
        }
    }

    #[test]
    fn links_to_nothing_are_named() {
        let record = vec![
            put("m/1/k", Piece::Name),
            link("a/db", "o/1"),
            link("a/d/x", "m/1/k"),
        ];
        assert_eq!(merge(&[&record]), Err("o/1".to_owned()));
        assert_eq!(
            merge(&[&vec![link("a/d/x", "m/1/k")]]),
            Err("m/1/k".to_owned())
        );
        assert_eq!(
            links(&record).collect::<Vec<_>>(),
            [("a/db", "o/1"), ("a/d/x", "m/1/k")]
        );
    }
}
