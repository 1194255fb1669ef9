//! The programs of the last release, built from its commit, and what it deploys. They are kept in
//! the cache, and `target/last-release` leads there.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::compile::show_bar;
use crate::job::{BUILD_LIMIT, Job, Log, Outcome};
use crate::progress::Meter;
use crate::table::PROGRAMS;
use crate::workspace::Workspace;

/// Name of the job.
pub(crate) const JOB: &str = "last-release";

/// Stands for the last release until there is a tag: the first commit that could be released.
const FIRST: &str = "273c31683fcc5d3d14c3600c618b6a60809e8155";

/// What is there when the rest is.
const WHOLE: &str = "whole";

/// Builds it, if it is not there.
pub(crate) fn job(workspace: &Workspace, after: &[&'static str]) -> Job {
    let workspace = workspace.clone();
    let job = Job::new(JOB, after, move |log| {
        let commit = commit(&workspace)?;
        let dir = workspace.cache.join(JOB).join(&commit);
        if !dir.join(WHOLE).exists() {
            build(&workspace, &commit, &dir, log)
                .with_context(|| format!("cannot build the last release, {commit}"))?;
        }
        let link = workspace.root.join("target").join(JOB);
        absent(fs::remove_file(&link))?;
        symlink(&dir, &link).with_context(|| format!("cannot make {}", link.display()))?;
        Ok(Outcome {
            note: commit,
            ..Outcome::default()
        })
    });
    job.meter(Meter::Cargo)
}

/// The commit of the newest tag of a version before this commit.
fn commit(workspace: &Workspace) -> Result<String> {
    let before = [
        "tag",
        "--list",
        "v[0-9]*",
        "--merged=HEAD~1",
        "--sort=-version:refname",
    ];
    let tags = workspace.output("git", &before)?;
    let name = newest(&tags).unwrap_or(FIRST);
    let commit = format!("{name}^{{commit}}");
    workspace.output("git", &["rev-parse", "--verify", "--quiet", &commit])
        .with_context(|| {
            format!("this clone does not have {name}, the last release: it has to be whole, `git fetch --unshallow`")
        })
}

fn newest(tags: &str) -> Option<&str> {
    tags.lines().find(|tag| !tag.is_empty())
}

fn build(workspace: &Workspace, commit: &str, dir: &Path, log: &Log) -> Result<()> {
    // What was broken off is begun again, but for what cargo has compiled.
    let source = dir.join("source");
    absent(fs::remove_dir_all(&source))?;
    fs::create_dir_all(&source)?;
    let archive = dir.join("source.tar");
    let mut git = workspace.command("git");
    git.args(["archive", "--output"]).arg(&archive).arg(commit);
    log.run(&mut git, BUILD_LIMIT)?;
    let mut tar = workspace.command("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(&source);
    log.run(&mut tar, BUILD_LIMIT)?;
    fs::remove_file(&archive)?;

    let target = dir.join("target");
    let mut cargo = workspace.compiler("cargo");
    // As suites build those under test; the debug information would only be stripped.
    cargo
        .current_dir(&source)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0")
        .args(["build", "--locked", "--workspace"])
        .args(PROGRAMS.iter().flat_map(|name| ["--bin", *name]));
    show_bar(&mut cargo);
    log.run(&mut cargo, BUILD_LIMIT)?;
    for program in PROGRAMS {
        let mut strip = workspace.command("strip");
        strip.arg("--strip-all").arg("-o").arg(dir.join(program));
        strip.arg(target.join("debug").join(program));
        log.run(&mut strip, BUILD_LIMIT)?;
    }
    let deployed = dir.join("deploy");
    absent(fs::remove_dir_all(&deployed))?;
    fs::rename(source.join("deploy"), &deployed)?;
    ensure!(deployed.join("crds").is_dir(), "it has no deploy/crds");
    fs::remove_dir_all(&source)?;
    fs::remove_dir_all(&target)?;
    fs::File::create(dir.join(WHOLE))?;
    others(dir)
}

/// Releases before it go: each has 200 MB.
fn others(dir: &Path) -> Result<()> {
    let all = dir.parent().context("no folder of releases")?;
    for entry in fs::read_dir(all)? {
        let path = entry?.path();
        if path != dir {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

/// What is not there need not be removed.
fn absent(removed: std::io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_release_is_the_newest_tag_or_the_first_that_could_be_one() {
        assert_eq!(newest("v0.3.0\nv0.2.0\n"), Some("v0.3.0"));
        assert_eq!(newest(""), None);
    }
}
