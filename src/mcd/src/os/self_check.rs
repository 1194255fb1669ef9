//! `self-check`: whether this program runs in a root, the booted one or that of a new deployment.
//!
//! Verification and rollback of a target are this program's work in the target. It is linked
//! against libraries of the OS, so it is tried there before anything is bootable.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use chassis::report::Chain;
use host::ostree::{self, Deployments};
use host::process::{self, Program};
use host::record;

use super::context::Context;
use crate::protocol::{HelperReport, Verb};

/// Deadline of a check, which takes milliseconds; a slow disk takes longest.
const DEADLINE: Duration = Duration::from_mins(1);

/// This program, wherever it is.
pub(super) const SELF: &str = "/proc/self/exe";

/// Checks this root, or goes on as the same program in another one.
pub(super) fn run(context: &Context, root: Option<&str>) -> anyhow::Result<HelperReport> {
    if let Some(root) = root {
        let words = Verb::SelfCheck { root: None }.to_arguments();
        let error = ostree::run_in_root(Path::new(root), SELF, &words);
        return Err(error).context("this program does not start there");
    }
    Deployments::open_at(Path::new("/"))?;
    record::read(&context.root)?;
    Ok(HelperReport::done())
}

/// Why this program cannot run with `root` as its root; `None` if it can.
pub(super) fn fails_in(root: &Path) -> Option<String> {
    let verb = Verb::SelfCheck {
        root: Some(root.display().to_string()),
    };
    let words = verb.to_arguments();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = process::run(Program::Helper(Path::new(SELF)), &words, DEADLINE);
    let error = ran.err()?;
    Some(format!(
        "mcd-os does not run in the target, so it could neither verify it nor roll it back: {}",
        Chain(&error)
    ))
}
