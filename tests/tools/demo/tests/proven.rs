//! The demo with the true programs: every node is updated, and no law is broken.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use testbed::Programs;
use testbed::logs;

/// `SLIPWAY_KEEP_RECORDS` names a folder that gets a record of the run.
#[test]
#[ignore = "needs the lab"]
#[expect(clippy::disallowed_methods, reason = "a test that runs a program")]
fn true_programs_break_no_law() -> Result<()> {
    let programs = Programs::built()?;
    let out = logs::folder("demo", "true");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    demo.arg("--programs").arg(programs.folder());
    demo.arg("--out").arg(out);
    if let Some(dir) = std::env::var_os("SLIPWAY_KEEP_RECORDS") {
        demo.arg("--keep-record")
            .arg(Path::new(&dir).join("demo.json.gz"));
    }
    let output = demo.stdin(Stdio::null()).output();
    let output = output.context("cannot run the demo")?;
    ensure!(
        output.status.success(),
        "the demo fails:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
