//! A release that goes through a cluster: the demo's last roll.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use testbed::Programs;

use crate::figure::{Figure, Unit};
use crate::idle::count;

/// What is read of the demo's `timeline.json`.
#[derive(Deserialize)]
struct Timeline {
    run_levels: Vec<serde_json::Value>,
    unwaited_share: Option<f64>,
}

/// Runs the demo, and takes the share of its update in which nothing was waited for.
///
/// Errors: the demo fails, or its timeline has no update.
#[expect(clippy::disallowed_methods, reason = "a program of the tests")]
pub(crate) fn measure(programs: &Programs, out: &Path) -> Result<Vec<Figure>> {
    let demo = std::env::current_exe()?.with_file_name("demo");
    let mcd = programs.path("mcd")?;
    let programs = mcd.parent().context("programs without a folder")?;
    let folder = out.join("demo");
    let log = out.join("demo.log");
    let file = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
    let mut command = Command::new(&demo);
    command
        .arg("--programs")
        .arg(programs)
        .arg("--out")
        .arg(&folder);
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let status = command.status();
    let status = status.with_context(|| format!("cannot run {}", demo.display()))?;
    ensure!(status.success(), "the demo failed: see {}", log.display());
    let timeline = fs::read(folder.join("timeline.json")).context("no timeline")?;
    let timeline: Timeline = serde_json::from_slice(&timeline).context("timeline.json")?;
    let share = timeline.unwaited_share.context("the demo had no update")?;
    let levels = count(timeline.run_levels.len());
    Ok(vec![Figure::new("ota_unwaited_ratio", share)?.beside(
        "run levels",
        levels,
        Unit::Count,
    )])
}
