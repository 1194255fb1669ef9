//! The guides of the book: each command of their pages is run on a held playground, in the order
//! of the book, and prints what the page shows.
//!
//! - `page`: the commands of a page
//! - `compare`: whether an output is that of the page
//! - `process`: the playground
#![expect(
    clippy::disallowed_methods,
    reason = "a test that runs commands, and writes a run's own files"
)]

mod compare;
mod page;
#[path = "../../tools/demo/tests/playground/process.rs"]
mod process;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use testbed::{Programs, logs, workspace};

use crate::page::Page;
use crate::process::{end, hold, printed};

/// Blocks of all guides that are shown only: what the lab has not. Beside each stands its reason.
const NOT_RUN: usize = 1;

/// Guides without a block that is run, and why.
const NOTHING_TO_RUN: [(&str, &str); 3] = [
    ("guides/adopt.md", "suite `install` adopts a cluster"),
    ("guides/alerts.md", "it has no commands of its own"),
    (
        "guides/control-plane-only.md",
        "suite `skew` carries a cluster over two minor releases",
    ),
];

/// Seconds that a command may take: an update of the whole cluster.
const COMMAND_SECS: &str = "900";

/// A playground. Dropped, it is ended.
struct Held(PathBuf);

impl Drop for Held {
    fn drop(&mut self) {
        // What the test found before counts more; `END=1` ends what is left.
        drop(end(&self.0));
    }
}

/// The guides in the order of the book, by their names.
fn guides() -> Result<Vec<(String, Page)>> {
    let docs = workspace().join("docs");
    let read = |name: &str| {
        let path = docs.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let names = page::guides(&read("SUMMARY.md")?);
    let pages = names.into_iter().map(|name| {
        let page = Page::parse(&read(&name)?).with_context(|| format!("docs/{name}"))?;
        Ok((name, page))
    });
    pages.collect()
}

#[test]
fn each_guide_has_commands_that_are_run() -> Result<()> {
    let guides = guides()?;
    for (name, page) in &guides {
        let is_exempt = NOTHING_TO_RUN.iter().any(|(exempt, _)| exempt == name);
        ensure!(
            page.commands.is_empty() == is_exempt,
            "docs/{name} has {} commands that are run",
            page.commands.len()
        );
    }
    let not_run: usize = guides.iter().map(|(_, page)| page.not_run).sum();
    ensure!(
        not_run == NOT_RUN,
        "{not_run} blocks are not run, and not {NOT_RUN}"
    );
    Ok(())
}

#[test]
#[ignore = "needs the lab, Ignition, Prometheus and Alertmanager"]
fn each_command_prints_what_its_page_shows() -> Result<()> {
    let out = logs::folder("guides", "held");
    let programs = Programs::built()?;
    let (code, text) = hold(programs.folder(), &out)?;
    ensure!(code == Some(0), "the playground does not start:\n{text}");
    let held = Held(out.canonicalize()?);
    let mut faults = Vec::new();
    for (name, page) in guides()? {
        for command in &page.commands {
            let place = format!("docs/{name}:{}", command.line);
            // After a command that fails, the next ones would only fail, too.
            if let Some(fault) = run(&held.0, command).with_context(|| place.clone())? {
                faults.push(format!("{place}: {fault}"));
            }
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n\n"));
    Ok(())
}

/// Runs a command in the playground's folder, and compares what it prints; how that differs.
///
/// # Errors
///
/// The command fails.
fn run(out: &Path, command: &page::Command) -> Result<Option<String>> {
    let page::Command { text, output, .. } = command;
    // As in a terminal, standard error stands between the lines of standard output.
    let script = format!("exec 2>&1\n. ./cluster.env\n{text}");
    let ran = Command::new("timeout")
        .args(["--signal=KILL", COMMAND_SECS])
        .args(["bash", "-euo", "pipefail", "-c", &script])
        .current_dir(out)
        .stdin(Stdio::null())
        .output()
        .context("cannot run bash")?;
    let seen = printed(&ran);
    keep(out, text, &seen)?;
    ensure!(
        ran.status.success(),
        "`{text}` ends with {}:\n{seen}",
        ran.status
    );
    Ok((!compare::is_same(output, &seen)).then(|| {
        let wanted = output.join("\n");
        format!("`{text}` prints another output\nwanted:\n{wanted}\nseen:\n{seen}")
    }))
}

/// Appends a command and its output to a file of the run, for a page to be corrected by.
fn keep(out: &Path, text: &str, seen: &str) -> Result<()> {
    let path = out.join("transcript.txt");
    let mut transcript = std::fs::read_to_string(&path).unwrap_or_default();
    writeln!(transcript, "$ {}\n{seen}", text.replace('\n', "\n> "))?;
    std::fs::write(&path, transcript).with_context(|| format!("cannot write {}", path.display()))
}
