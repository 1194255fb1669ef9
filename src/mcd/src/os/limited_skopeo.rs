//! `limited-skopeo`: this program in the place of skopeo, for a fetch under a limit.

use std::path::{Path, PathBuf};

use host::throttle;

use super::self_check::SELF;
use crate::protocol::{HelperReport, Verb};

/// This program and the arguments that precede those of skopeo.
pub(super) fn command(limit_file: &str) -> (PathBuf, Vec<String>) {
    let verb = Verb::LimitedSkopeo {
        limit_file: limit_file.to_owned(),
        arguments: Vec::new(),
    };
    (PathBuf::from(SELF), verb.words())
}

/// Runs skopeo to its end. The image library quotes standard error and the exit code.
pub(super) fn run(limit_file: &str, arguments: &[String]) -> anyhow::Result<HelperReport> {
    let status = throttle::run(arguments, Path::new(limit_file))?;
    Ok(if status.success() {
        HelperReport::done()
    } else {
        HelperReport::failed(vec![format!("skopeo ended with {status}")])
    })
}
