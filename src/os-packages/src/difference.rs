//! What differs between two images.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::content::OsContent;
use crate::package::OsPackage;
use crate::version::compare;

/// A package that has another version. Its name is followed by `:` and its architecture where an
/// image has several packages of the name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PackageChange {
    pub name: String,
    pub from: String,
    pub to: String,
}

/// A package that only one of two images has, named likewise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OnePackage {
    pub name: String,
    pub version: String,
}

/// How the packages of two images differ; each list is sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PackageDifference {
    pub upgraded: Vec<PackageChange>,
    pub downgraded: Vec<PackageChange>,
    /// The same version, written in another way or built for another architecture.
    pub rebuilt: Vec<PackageChange>,
    pub added: Vec<OnePackage>,
    pub removed: Vec<OnePackage>,
    /// How many packages are the same.
    pub unchanged: usize,
}

/// Why packages cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDifference {
    #[error("neither image has a package database")]
    NoDatabase,
    #[error("the first image has no package database")]
    NoneBefore,
    #[error("the second image has no package database")]
    NoneAfter,
    #[error("the images have packages of different managers")]
    Managers,
}

/// Compares the packages of two images.
///
/// # Errors
/// [`NoDifference`]: one of them has no list, or their versions follow different rules.
pub fn packages(from: &OsContent, to: &OsContent) -> Result<PackageDifference, NoDifference> {
    let (from, to) = match (&from.packages, &to.packages) {
        (Some(from), Some(to)) => (from, to),
        (None, None) => return Err(NoDifference::NoDatabase),
        (None, Some(_)) => return Err(NoDifference::NoneBefore),
        (Some(_), None) => return Err(NoDifference::NoneAfter),
    };
    let manager = from.manager;
    if manager != to.manager {
        return Err(NoDifference::Managers);
    }
    let [before, after] = [from, to].map(|list| by_name(list.packages()));
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let mut difference = PackageDifference::default();
    for name in names {
        let [from, to] = [&before, &after].map(|all| all.get(name).map_or(&[][..], Vec::as_slice));
        let is_plain = from.len() <= 1 && to.len() <= 1;
        let shown = |package: &OsPackage| {
            if is_plain {
                package.name.clone()
            } else {
                format!("{}:{}", package.name, package.architecture)
            }
        };
        let groups = pairs(from, to);
        difference.unchanged += groups.same;
        for (from, to) in groups.changed {
            let change = PackageChange {
                name: shown(to),
                from: from.version.clone(),
                to: to.version.clone(),
            };
            match compare(manager, &from.version, &to.version) {
                std::cmp::Ordering::Less => difference.upgraded.push(change),
                std::cmp::Ordering::Greater => difference.downgraded.push(change),
                std::cmp::Ordering::Equal => difference.rebuilt.push(change),
            }
        }
        let one = |package: &&OsPackage| OnePackage {
            name: shown(package),
            version: package.version.clone(),
        };
        difference.added.extend(groups.added.iter().map(one));
        difference.removed.extend(groups.removed.iter().map(one));
    }
    Ok(difference)
}

fn by_name(packages: &[OsPackage]) -> BTreeMap<&str, Vec<&OsPackage>> {
    let mut names: BTreeMap<&str, Vec<&OsPackage>> = BTreeMap::new();
    for package in packages {
        names.entry(&package.name).or_default().push(package);
    }
    names
}

/// What became of the packages of one name.
struct Groups<'a> {
    same: usize,
    changed: Vec<(&'a OsPackage, &'a OsPackage)>,
    added: Vec<&'a OsPackage>,
    removed: Vec<&'a OsPackage>,
}

/// Pairs the packages of one name: equal ones, then those of one architecture, then what is left.
fn pairs<'a>(from: &[&'a OsPackage], to: &[&'a OsPackage]) -> Groups<'a> {
    let (mut from, mut to) = (from.to_vec(), to.to_vec());
    let same = take_pairs(&mut from, &mut to, |one, other| one == other).len();
    let mut changed = take_pairs(&mut from, &mut to, |one, other| {
        one.architecture == other.architecture
    });
    changed.extend(take_pairs(&mut from, &mut to, |_, _| true));
    Groups {
        same,
        changed,
        added: to,
        removed: from,
    }
}

/// Takes pairs that belong together out of two lists, in the order of the first one.
fn take_pairs<'a>(
    from: &mut Vec<&'a OsPackage>,
    to: &mut Vec<&'a OsPackage>,
    is_pair: fn(&OsPackage, &OsPackage) -> bool,
) -> Vec<(&'a OsPackage, &'a OsPackage)> {
    let mut pairs = Vec::new();
    from.retain(|one| {
        let Some(place) = to.iter().position(|other| is_pair(one, other)) else {
            return true;
        };
        pairs.push((*one, to.remove(place)));
        false
    });
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::package::PackageManager::{self, Dpkg, Rpm};
    use crate::package::tests::list;

    fn content(manager: PackageManager, lines: &[&str]) -> OsContent {
        OsContent {
            packages: Some(list(manager, lines)),
            ..OsContent::default()
        }
    }

    fn lines(difference: &PackageDifference) -> Vec<String> {
        let changes = [
            ("up", &difference.upgraded),
            ("down", &difference.downgraded),
            ("rebuilt", &difference.rebuilt),
        ];
        let changes = changes.into_iter().flat_map(|(what, changes)| {
            let line =
                move |it: &PackageChange| format!("{what} {} {} {}", it.name, it.from, it.to);
            changes.iter().map(line)
        });
        let ones = [
            ("added", &difference.added),
            ("removed", &difference.removed),
        ];
        let ones = ones.into_iter().flat_map(|(what, ones)| {
            ones.iter()
                .map(move |it| format!("{what} {} {}", it.name, it.version))
        });
        changes.chain(ones).collect()
    }

    #[test]
    fn packages_are_sorted_by_what_became_of_them() {
        for (manager, from, to, expected, unchanged) in [
            (
                Rpm,
                &[
                    "a 1-1 x",
                    "b 1-9 x",
                    "c 2-1 x",
                    "d 1-1 x",
                    "e 01-1 x",
                    "f 1-1 noarch",
                ][..],
                &[
                    "a 1-1 x", "b 1-10 x", "c 1-1 x", "e 1-1 x", "f 1-1 x", "g 3-1 x",
                ][..],
                &[
                    "up b 1-9 1-10",
                    "down c 2-1 1-1",
                    "rebuilt e 01-1 1-1",
                    "rebuilt f 1-1 1-1",
                    "added g 3-1",
                    "removed d 1-1",
                ][..],
                1,
            ),
            // Of several kernels the one that both have stays.
            (
                Rpm,
                &["kernel 1-1 x", "kernel 2-1 x"],
                &["kernel 2-1 x", "kernel 3-1 x"],
                &["up kernel:x 1-1 3-1"],
                1,
            ),
            (
                Rpm,
                &["kernel 1-1 x"],
                &["kernel 1-1 x", "kernel 2-1 x"],
                &["added kernel:x 2-1"],
                1,
            ),
            (
                Dpkg,
                &["libc6 2.36-1 amd64", "libc6 2.36-1 i386"],
                &["libc6 2.36-2 amd64", "libc6 2.36-2 i386"],
                &[
                    "up libc6:amd64 2.36-1 2.36-2",
                    "up libc6:i386 2.36-1 2.36-2",
                ],
                0,
            ),
            (
                Dpkg,
                &["linux-image-6.1.0-27-amd64 6.1.1 amd64"],
                &["linux-image-6.1.0-28-amd64 6.1.2 amd64"],
                &[
                    "added linux-image-6.1.0-28-amd64 6.1.2",
                    "removed linux-image-6.1.0-27-amd64 6.1.1",
                ],
                0,
            ),
            (Dpkg, &[], &[], &[], 0),
        ] {
            let difference = packages(&content(manager, from), &content(manager, to)).unwrap();
            assert_eq!(lines(&difference), expected, "{from:?}");
            assert_eq!(difference.unchanged, unchanged, "{from:?}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_named() {
        let (none, dpkg, rpm) = (OsContent::default(), content(Dpkg, &[]), content(Rpm, &[]));
        for (from, to, expected) in [
            (&none, &none, NoDifference::NoDatabase),
            (&none, &dpkg, NoDifference::NoneBefore),
            (&rpm, &none, NoDifference::NoneAfter),
            (&rpm, &dpkg, NoDifference::Managers),
        ] {
            assert_eq!(packages(from, to), Err(expected));
        }
    }

    proptest! {
        #[test]
        fn each_package_is_counted_once(
            from in prop::collection::vec("[a-c] [1-3]-1 [xy]", 0..8),
            to in prop::collection::vec("[a-c] [1-3]-1 [xy]", 0..8),
        ) {
            let [from, to] = [from, to].map(|lines| {
                content(Rpm, &lines.iter().map(String::as_str).collect::<Vec<_>>())
            });
            let found = packages(&from, &to).unwrap();
            let both = found.unchanged + found.upgraded.len() + found.downgraded.len() + found.rebuilt.len();
            prop_assert_eq!(both + found.removed.len(), from.packages().len());
            prop_assert_eq!(both + found.added.len(), to.packages().len());
            let same = packages(&from, &from).unwrap();
            prop_assert!(lines(&same).is_empty());
            let reverse = packages(&to, &from).unwrap();
            prop_assert_eq!(found.added.len(), reverse.removed.len());
        }
    }
}
