//! Programs of Debian's next release. They are as new as the lab needs, and this machine's release
//! has older ones; they run on its C library.

#![expect(
    clippy::disallowed_methods,
    reason = "what the lab is made of is made again after a crash"
)]

use std::fs;
use std::io::{Write as _, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::archive::Archive;
use crate::cache::{self, Recipe};
use crate::program::{command, run};

/// Code name of the release.
pub(crate) const NEXT_SUITE: &str = "forky";

/// In the folder: a line for each package, `name_version_architecture`.
const VERSIONS: &str = "versions";

/// Packages of which the lab takes programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packages {
    /// The folder of the cache that keeps them.
    pub(crate) kind: &'static str,
    pub(crate) names: &'static [&'static str],
    /// In `/usr/bin`, each with the arguments for which it prints its version.
    pub(crate) programs: &'static [(&'static str, &'static [&'static str])],
}

impl Packages {
    /// The folder that has them, with more files by `more`; fetched once.
    ///
    /// # Errors
    ///
    /// The release is not to be had, a package lacks a program, or one does not run on this
    /// machine.
    pub(crate) fn find(
        self,
        recipe: Recipe,
        more: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let archive = Archive::of_machine()?;
        let recipe = recipe
            .with("suite", NEXT_SUITE)
            .with("archive", &archive.uri)
            .with("packages", self.names.join(" "))
            .with("programs", format!("{:?}", self.programs));
        cache::folder(self.kind, &recipe, |dir| {
            self.fetch(&archive, dir)?;
            more(dir)
        })
    }

    fn fetch(self, archive: &Archive, dir: &Path) -> Result<()> {
        let apt = Apt::new(archive, NEXT_SUITE, &[], &dir.join("apt"))?;
        // A line of progress. Where standard error is closed, nothing reads it.
        drop(writeln!(
            stderr(),
            "{NEXT_SUITE}: {}",
            self.names.join(", ")
        ));
        let fetched = apt.download(self.names)?;
        let root = dir.join("root");
        let mut versions = String::new();
        for package in &fetched {
            run(command("dpkg-deb").arg("--extract").args([package, &root]))?;
            let name = package.file_stem().unwrap_or_default().to_string_lossy();
            versions.push_str(&name);
            versions.push('\n');
        }
        fs::write(dir.join(VERSIONS), versions)?;
        for (name, version) in self.programs {
            let from = root.join("usr/bin").join(name);
            let to = dir.join(name);
            fs::rename(&from, &to)
                .with_context(|| format!("{} have no {name}", self.names.join(", ")))?;
            run(command(&to).args(*version))
                .with_context(|| format!("{name} of {NEXT_SUITE} does not run on this machine"))?;
        }
        fs::remove_dir_all(&root)?;
        fs::remove_dir_all(&apt.dir)?;
        Ok(())
    }
}

/// The versions that a folder of [`Packages::find`] has.
///
/// # Errors
///
/// It is no such folder.
pub(crate) fn versions(dir: &Path) -> Result<String> {
    let path = dir.join(VERSIONS);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// apt for another release or processor, with nothing of what this machine's apt keeps.
pub(crate) struct Apt {
    dir: PathBuf,
    /// The first one is that of packages that name none; none at all: this machine's.
    architectures: Vec<String>,
}

impl Apt {
    /// Fetches the index of a release into a folder.
    ///
    /// # Errors
    ///
    /// The archive has no such release, or cannot be reached.
    pub(crate) fn new(
        archive: &Archive,
        suite: &str,
        architectures: &[&str],
        dir: &Path,
    ) -> Result<Self> {
        for folder in ["lists/partial", "archives/partial", "deb"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        let keyring = archive.keyring.as_deref();
        let signed = keyring.map(|keyring| format!("[signed-by={}] ", keyring.display()));
        let line = format!(
            "deb {}{} {suite} main\n",
            signed.unwrap_or_default(),
            archive.uri
        );
        fs::write(dir.join("sources.list"), line)?;
        fs::write(dir.join("status"), "")?;
        let apt = Self {
            dir: dir.to_owned(),
            architectures: architectures.iter().map(ToString::to_string).collect(),
        };
        let archive = &archive.uri;
        run(apt.command("apt-get").args(["--quiet=2", "update"]))
            .with_context(|| format!("{archive} has no release {suite}"))?;
        Ok(apt)
    }

    /// Fetches packages; their files.
    fn download(&self, packages: &[&str]) -> Result<Vec<PathBuf>> {
        let folder = self.dir.join("deb");
        let mut apt = self.command("apt-get");
        run(apt
            .args(["--quiet=2", "download"])
            .args(packages)
            .current_dir(&folder))?;
        packages_in(&folder)
    }

    /// Fetches packages and all that they depend on; their files.
    ///
    /// # Errors
    ///
    /// The release has no such package, or cannot be reached.
    pub(crate) fn closure(&self, packages: &[&str]) -> Result<Vec<PathBuf>> {
        let mut apt = self.command("apt-get");
        let only = ["--quiet=2", "--yes", "--no-install-recommends"];
        run(apt
            .args(only)
            .args(["--download-only", "install"])
            .args(packages))?;
        packages_in(&self.dir.join("archives"))
    }

    fn command(&self, program: &str) -> Command {
        let at = |name: &str| self.dir.join(name).display().to_string();
        let settings = [
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State={}", at("")),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::State::status={}", at("status")),
            format!("Dir::Cache={}", at("")),
            // What it fetches is root's.
            "APT::Sandbox::User=root".to_owned(),
            // Descriptions and the like.
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::Languages=none".to_owned(),
        ];
        let first = self.architectures.first();
        let first = first.map(|first| format!("APT::Architecture={first}"));
        let all = self.architectures.iter();
        let all = all.map(|one| format!("APT::Architectures::={one}"));
        let settings: Vec<String> = settings.into_iter().chain(first).chain(all).collect();
        let mut command = command(program);
        command.args(settings.iter().flat_map(|setting| ["-o", setting.as_str()]));
        command
    }
}

/// The packages in a folder, in order.
fn packages_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let listing = fs::read_dir(folder)?;
    let files: std::io::Result<Vec<_>> = listing.map(|entry| Ok(entry?.path())).collect();
    let mut files = files?;
    files.retain(|file| file.extension().is_some_and(|end| end == "deb"));
    files.sort();
    Ok(files)
}
