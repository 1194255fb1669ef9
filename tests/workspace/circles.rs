//! Modules that lie side by side import each other in one direction only. A module and those inside
//! it are one room, and may import each other.
//!
//! An arrow leads from a module to one beside it where a file of the first names something of the
//! second: in a `use`, in another path, or in an attribute. A circle is a set of modules of which
//! each leads to all others, over however many arrows.
//!
//! - `naming`: what a source file names

pub(crate) mod naming;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use self::naming::{Import, Names, Naming};
use crate::packages::packages;
use crate::sources::root;

/// Crates that still have circles, and how many modules of each are in one. It only shrinks.
const EXCEPTIONS: &[(&str, usize)] = &[];

/// Imports that an imported name leads over, at most.
const HOPS: usize = 8;

/// A module's place: the names from its crate's root to it. The root has none.
pub(crate) type Place = Names;

/// The modules of a crate, without those that are compiled for tests alone.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    pub(crate) modules: BTreeMap<Place, Module>,
}

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) file: PathBuf,
    pub(crate) naming: Naming,
}

/// What a path leads to: a module, or something else in one.
struct Target {
    place: Place,
    is_module: bool,
}

/// Which module leads to which beside it, and what says so: files with the paths in them.
type Arrows = BTreeMap<(Place, Place), BTreeMap<PathBuf, BTreeSet<String>>>;

/// Modules that lie side by side and each lead to all others, with the arrows among them.
#[derive(Debug)]
struct Circle {
    modules: BTreeSet<Place>,
    arrows: Arrows,
}

impl Crate {
    /// Reads the crate whose `lib.rs` lies in this folder, module by module.
    pub(crate) fn read(folder: &Path, text: impl Fn(&Path) -> String) -> Self {
        let mut this = Self::default();
        let mut open = vec![(Place::new(), folder.join("lib.rs"))];
        while let Some((place, file)) = open.pop() {
            let naming = Naming::of(&text(&file));
            for name in &naming.modules {
                let inner = [&place[..], std::slice::from_ref(name)].concat();
                let file = folder.join(inner.join("/") + ".rs");
                open.push((inner, file));
            }
            this.modules.insert(place, Module { file, naming });
        }
        this
    }

    fn imports(&self, place: &[String]) -> impl Iterator<Item = &Import> {
        let module = self.modules.get(place).into_iter();
        module.flat_map(|module| &module.naming.imports)
    }

    /// What a path leads to from a module; none if that is in another crate. The last name of a
    /// path is a module's only in an import.
    fn target(
        &self,
        from: &[String],
        path: &[String],
        is_import: bool,
        hops: usize,
    ) -> Option<Target> {
        let [first, rest @ ..] = path else {
            return None;
        };
        let is_module = |rest: &[String]| is_import || !rest.is_empty();
        let module = |place: &[String]| Target {
            place: place.to_vec(),
            is_module: true,
        };
        let mut target = match first.as_str() {
            "crate" => module(&[]),
            "self" => module(from),
            "super" => module(&from[..from.len().saturating_sub(1)]),
            _ => self.step(from, first, is_module(rest), hops)?,
        };
        let mut names = rest;
        while let [name, rest @ ..] = names
            && target.is_module
        {
            names = rest;
            if name == "super" {
                target.place.pop();
            } else {
                let next = self.step(&target.place, name, is_module(rest), hops);
                target.is_module = false;
                target = next.unwrap_or(target);
            }
        }
        Some(target)
    }

    /// What a name of a module leads to: a module inside it, or what it imports from around it or
    /// inside it. What it imports from elsewhere is its own arrow, and so is none here.
    fn step(&self, from: &[String], name: &str, is_module: bool, hops: usize) -> Option<Target> {
        let inner = [from, &[name.to_owned()]].concat();
        if is_module && self.modules.contains_key(&inner) {
            return Some(Target {
                place: inner,
                is_module: true,
            });
        }
        // An import may have its own name in its path: `use anyhow::anyhow`.
        let hops = hops.checked_sub(1)?;
        let mut imports = self.imports(from);
        imports.find_map(|import| {
            if import.name.as_deref() != Some(name) {
                return None;
            }
            let target = self.target(from, &import.path, true, hops)?;
            let is_near = target.place.starts_with(from) || from.starts_with(&target.place);
            is_near.then_some(target)
        })
    }

    /// Which module leads to which that lies beside it, or beside a module around it.
    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (from, module) in &self.modules {
            // An import may bring in a module and a function of one name.
            let imports = module.naming.imports.iter();
            let imports = imports.flat_map(|import| [(&import.path, true), (&import.path, false)]);
            let paths = module.naming.paths.iter().map(|path| (path, false));
            for (path, is_import) in imports.chain(paths) {
                let Some(Target { place: to, .. }) = self.target(from, path, is_import, HOPS)
                else {
                    continue;
                };
                let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if common < from.len() && common < to.len() {
                    let arrow = (from[..=common].to_vec(), to[..=common].to_vec());
                    let files = arrows.entry(arrow).or_default();
                    let paths = files.entry(module.file.clone()).or_default();
                    paths.insert(path.join("::"));
                }
            }
        }
        arrows
    }

    /// All circles.
    fn circles(&self) -> Vec<Circle> {
        let arrows = self.arrows();
        let starts: BTreeSet<&Place> = arrows.keys().map(|(from, _)| from).collect();
        let reached: BTreeMap<&Place, BTreeSet<&Place>> = starts
            .iter()
            .map(|place| (*place, reached_from(place, &arrows)))
            .collect();
        let leads = |from: &Place, to: &Place| reached.get(from).is_some_and(|r| r.contains(to));
        let mut sets: BTreeSet<BTreeSet<Place>> = BTreeSet::new();
        for place in starts.iter().filter(|place| leads(place, place)) {
            let both = starts
                .iter()
                .filter(|other| leads(place, other) && leads(other, place));
            sets.insert(both.map(|other| (*other).clone()).collect());
        }
        let circle = |modules: BTreeSet<Place>| {
            let mut arrows = arrows.clone();
            arrows.retain(|(from, to), _| modules.contains(from) && modules.contains(to));
            Circle { modules, arrows }
        };
        sets.into_iter().map(circle).collect()
    }

    /// Files with `use …::*` of this crate's modules: what it imports cannot be read there.
    fn wildcards(&self) -> Vec<&Path> {
        let has_wildcard = |place: &Place| {
            let mut imports = self.imports(place).filter(|import| import.name.is_none());
            imports.any(|import| self.target(place, &import.path, true, HOPS).is_some())
        };
        let modules = self.modules.iter().filter(|(place, _)| has_wildcard(place));
        modules.map(|(_, module)| module.file.as_path()).collect()
    }
}

/// The modules that one leads to, over however many arrows.
fn reached_from<'a>(place: &'a Place, arrows: &'a Arrows) -> BTreeSet<&'a Place> {
    let mut reached = BTreeSet::new();
    let mut open = vec![place];
    while let Some(place) = open.pop() {
        let ends = arrows.keys().filter(|(start, _)| start == place);
        open.extend(ends.map(|(_, end)| end).filter(|end| reached.insert(*end)));
    }
    reached
}

impl fmt::Display for Circle {
    /// The modules, and a line for each file that has an arrow of theirs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modules: Vec<String> = self.modules.iter().map(|place| place.join("::")).collect();
        write!(f, "a circle of {}: {}", modules.len(), modules.join(", "))?;
        for ((from, to), files) in &self.arrows {
            for (file, paths) in files {
                let (from, to) = (from.join("::"), to.join("::"));
                let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                write!(
                    f,
                    "\n    {from} → {to}: {}: {}",
                    file.display(),
                    paths.join(", ")
                )?;
            }
        }
        Ok(())
    }
}

/// What is wrong with a crate's circles, when so many modules may be in one.
fn fault(name: &str, circles: &[Circle], allowed: usize) -> Option<String> {
    let count: usize = circles.iter().map(|circle| circle.modules.len()).sum();
    if count == allowed {
        return None;
    }
    if count < allowed {
        return Some(format!(
            "{name}: {count} modules in circles, not {allowed} any more: lower EXCEPTIONS"
        ));
    }
    let count = format!("{name}: {count} modules in circles, {allowed} may be");
    let mut lines = vec![format!("{count}: move what they share below them")];
    lines.extend(circles.iter().map(|circle| format!("  {circle}")));
    Some(lines.join("\n"))
}

#[test]
fn no_modules_side_by_side_import_each_other_in_a_circle() {
    let mut exceptions: BTreeMap<&str, usize> = EXCEPTIONS.iter().copied().collect();
    assert_eq!(
        exceptions.len(),
        EXCEPTIONS.len(),
        "a crate is listed twice"
    );
    let mut faults = Vec::new();
    let packages = packages();
    for package in packages
        .iter()
        .filter(|package| package.folder.starts_with("src"))
    {
        let source = Crate::read(&package.folder.join("src"), |file| {
            std::fs::read_to_string(root().join(file)).unwrap()
        });
        assert!(source.modules.len() > 1, "{} has no module", package.name);
        let wildcards = source.wildcards();
        assert!(
            wildcards.is_empty(),
            "`use …::*` hides what is imported: {wildcards:?}"
        );
        let allowed = exceptions.remove(package.name.as_str()).unwrap_or_default();
        faults.extend(fault(&package.name, &source.circles(), allowed));
    }
    let unknown = exceptions
        .keys()
        .map(|name| format!("{name}: no crate, remove from EXCEPTIONS"));
    faults.extend(unknown);
    assert!(
        faults.is_empty(),
        "modules import each other in circles\n{}",
        faults.join("\n")
    );
}

#[cfg(test)]
mod tests;
