//! Debian packages, by their archive's own tools.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, anyhow, bail};
use images::Tree;
use images::tree::EntryContent;
use tar::Archive;

use crate::architecture::Architecture;
use crate::run::{output, text};

/// Directorys that no program of ours reads: other languages, character sets, manuals.
const LEFT_OUT: &[&str] = &[
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/aarch64-linux-gnu/gconv",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
];

/// Of documentation only this is kept: what a package's licence asks for.
const DOCUMENTATION: &str = "usr/share/doc/";
const COPYRIGHT: &str = "/copyright";

/// A package that is on disk.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Architecture as Debian calls it, such as `amd64`.
    pub architecture: String,
    /// SHA-256 of the file in the archive, in hexadecimal.
    pub sha256: String,
    file: PathBuf,
    /// The fields of its control file, as `dpkg` keeps them.
    control: String,
}

/// The packages of these names, in the versions that this machine's archives offer.
///
/// A version that was fetched before is taken from the directory. `apt-get` holds what it fetches
/// against the archive's signature.
///
/// # Errors
/// An archive has no such package, or cannot be reached.
pub fn fetch(
    names: &[&str],
    architecture: Architecture,
    directory: &Path,
) -> anyhow::Result<Vec<Package>> {
    let made = std::fs::create_dir_all(directory);
    made.with_context(|| format!("cannot make {}", directory.display()))?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let apt = Apt::new(architecture, directory)?;
    let shown = apt.show(names)?;
    let packages = names.iter().zip(&shown);
    packages
        .map(|(name, shown)| apt.fetch(name, &fields(shown)))
        .collect()
}

/// apt, which knows this machine's archives.
struct Apt<'a> {
    /// Where packages are kept.
    directory: &'a Path,
    architecture: Architecture,
    /// Arguments by which it knows the packages of another processor.
    settings: Vec<String>,
}

/// What the archives say of packages, by architecture and name.
type Shown = BTreeMap<(Architecture, String), String>;

impl<'a> Apt<'a> {
    /// apt for a processor. For another than this machine's it fetches the indexes, and leaves
    /// those of the machine alone.
    fn new(architecture: Architecture, directory: &'a Path) -> anyhow::Result<Self> {
        let name = architecture.name();
        let mut apt = Self {
            directory,
            architecture,
            settings: Vec::new(),
        };
        if text(directory, &["dpkg", "--print-architecture"])? == name {
            return Ok(apt);
        }
        let state = directory.join(format!("apt-{name}"));
        std::fs::create_dir_all(state.join("lists/partial"))?;
        let state = state.to_str().context("the cache's path is not UTF-8")?;
        let settings = [
            format!("Dir::State::lists={state}/lists"),
            // No package is installed.
            "Dir::State::status=/dev/null".to_owned(),
            format!("Dir::Cache={state}"),
            format!("APT::Architecture={name}"),
            format!("APT::Architectures={name}"),
            format!("APT::Architectures::={name}"),
        ];
        let settings = settings.into_iter();
        apt.settings = settings.flat_map(|one| ["-o".to_owned(), one]).collect();
        apt.run("apt-get", directory, &["--quiet", "update"])?;
        Ok(apt)
    }

    /// What a program of apt prints.
    fn run(&self, program: &str, directory: &Path, words: &[&str]) -> anyhow::Result<Vec<u8>> {
        let settings = self.settings.iter().map(String::as_str);
        let words = words.iter().copied();
        let all: Vec<&str> = [program].into_iter().chain(settings).chain(words).collect();
        output(directory, &all)
    }

    /// What the archives say of each of these packages. A process asks once for each: `apt-cache`
    /// takes a second to read the whole index.
    fn show(&self, names: &[&str]) -> anyhow::Result<Vec<String>> {
        static KNOWN: Mutex<Shown> = Mutex::new(Shown::new());
        // Each write is whole.
        let mut shown_before = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = |name: &str| (self.architecture, name.to_owned());
        let new: Vec<&str> = (names.iter().copied())
            .filter(|name| !shown_before.contains_key(&key(name)))
            .collect();
        if !new.is_empty() {
            let words = [&["show", "--no-all-versions"], &new[..]].concat();
            let shown = self.run("apt-cache", self.directory, &words)?;
            for shown in String::from_utf8(shown)?.split("\n\n") {
                if let Some(name) = fields(shown).get("Package") {
                    shown_before.insert(key(name), shown.to_owned());
                }
            }
        }
        let found = names.iter().map(|name| {
            let shown = shown_before.get(&key(name)).cloned();
            shown.ok_or_else(|| anyhow!("apt-cache says nothing of {name}"))
        });
        found.collect()
    }

    fn fetch(&self, name: &str, fields: &BTreeMap<&str, &str>) -> anyhow::Result<Package> {
        let directory = self.directory;
        let field = |key: &str| {
            let value = fields.get(key).map(|value| (*value).to_owned());
            value.ok_or_else(|| anyhow!("apt-cache says nothing of {name}'s {key}"))
        };
        let (version, architecture) = (field("Version")?, field("Architecture")?);
        let sha256 = field("SHA256")?;
        // As apt-get names it: the colon of an epoch is escaped.
        let escaped = version.replace(':', "%3a");
        let file = directory.join(format!("{name}_{escaped}_{architecture}.deb"));
        if !file.exists() {
            let scratch = tempfile::tempdir_in(directory).context("cannot make a directory")?;
            // apt's own user cannot write here: apt-get warns of that and continues as root.
            let wanted = format!("{name}={version}");
            let words = ["--quiet", "download", &wanted];
            self.run("apt-get", scratch.path(), &words)?;
            let fetched = scratch.path().join(file.file_name().unwrap_or_default());
            std::fs::rename(&fetched, &file)
                .with_context(|| format!("apt-get left no {}", fetched.display()))?;
        }
        let path = file.to_str().context("the cache's path is not UTF-8")?;
        let sum = text(directory, &["sha256sum", path])?;
        if !sum.starts_with(&sha256) {
            bail!("{path} is not what the archive has: remove it");
        }
        let control = text(directory, &["dpkg-deb", "--field", path])?;
        Ok(Package {
            name: name.to_owned(),
            version,
            architecture,
            sha256,
            file,
            control,
        })
    }
}

/// Fields of one line each.
fn fields(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter(|line| !line.starts_with(' '));
    lines.filter_map(|line| line.split_once(": ")).collect()
}

impl Package {
    /// Puts its files into a tree, and a record of it where scanners of images look.
    ///
    /// # Errors
    /// It cannot be read, or holds what no layer of ours may.
    pub fn unpack(&self, tree: &mut Tree) -> anyhow::Result<()> {
        let path = self
            .file
            .to_str()
            .context("the cache's path is not UTF-8")?;
        let archive = output(Path::new("/"), &["dpkg-deb", "--fsys-tarfile", path])?;
        let unpacked = unpack(&archive, tree);
        unpacked.with_context(|| format!("package {}", self.name))?;
        let record = format!("var/lib/dpkg/status.d/{}", self.name);
        let control = format!("{}\n", self.control).into_bytes();
        tree.put(&record, 0o644, EntryContent::Bytes(control))?;
        Ok(())
    }
}

fn unpack(archive: &[u8], tree: &mut Tree) -> anyhow::Result<()> {
    for entry in Archive::new(archive).entries()? {
        let mut entry = entry?;
        let path = entry
            .path()?
            .to_str()
            .context("a path is not UTF-8")?
            .to_owned();
        let path = path.trim_start_matches("./").trim_end_matches('/');
        if path.is_empty() || is_left_out(path) {
            continue;
        }
        let mode = entry.header().mode()?;
        let kind = entry.header().entry_type();
        let content = if kind.is_dir() {
            EntryContent::Directory
        } else if kind.is_file() {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            EntryContent::Bytes(bytes)
        } else if kind.is_symlink() {
            let target = entry.link_name()?.context("a link to nothing")?;
            let target = target.to_str().context("a link is not UTF-8")?;
            EntryContent::Link(target.to_owned())
        } else {
            bail!("{path} is of kind {kind:?}");
        };
        tree.put(path, mode, content)?;
    }
    Ok(())
}

fn is_left_out(path: &str) -> bool {
    let is_below = |directory: &&str| {
        path.strip_prefix(*directory)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if LEFT_OUT.iter().any(is_below) {
        return true;
    }
    // Links between packages' directories lead to the copyright of another.
    let documentation = path.strip_prefix(DOCUMENTATION);
    documentation.is_some_and(|rest| rest.contains('/') && !rest.ends_with(COPYRIGHT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_licences_of_the_documentation_are_kept() {
        for (path, expected) in [
            ("usr/share/doc/libc6/copyright", false),
            ("usr/share/doc/libc6/NEWS.gz", true),
            ("usr/share/doc/libgcc-s1", false),
            ("usr/share/locale", true),
            ("usr/share/locale/de/x", true),
            ("usr/share/localex", false),
            ("lib/x86_64-linux-gnu/libc.so.6", false),
            ("usr/lib/x86_64-linux-gnu/gconv/UTF-16.so", true),
        ] {
            assert_eq!(is_left_out(path), expected, "{path}");
        }
    }

    #[test]
    fn fields_of_one_line_are_read() {
        let text = "Package: libc6\nVersion: 2.36-9\nDescription: x\n more: y\n";
        assert_eq!(fields(text)["Version"], "2.36-9");
        assert_eq!(fields(text).get("more"), None);
    }
}
