//! `limited-skopeo`: this program in the place of skopeo, for a fetch under a limit, and for layers
//! that have more than an archive.

use std::path::{Path, PathBuf};

use host::throttle;

use super::self_check::SELF;
use crate::protocol::{HelperReport, Verb};

/// In the place of a file: there is no limit.
const NO_LIMIT: &str = "-";

/// This program and the arguments that precede those of skopeo.
pub(super) fn command(limit_file: Option<&str>) -> (PathBuf, Vec<String>) {
    let verb = Verb::LimitedSkopeo {
        limit_file: limit_file.unwrap_or(NO_LIMIT).to_owned(),
        arguments: Vec::new(),
    };
    (PathBuf::from(SELF), verb.to_arguments())
}

/// Runs skopeo to its end. The image library quotes standard error and the exit code.
pub(super) fn run(limit_file: &str, arguments: &[String]) -> anyhow::Result<HelperReport> {
    let limit_file = (limit_file != NO_LIMIT).then(|| Path::new(limit_file));
    let status = throttle::run(arguments, limit_file)?;
    Ok(if status.success() {
        HelperReport::done()
    } else {
        HelperReport::failed(vec![format!("skopeo ended with {status}")])
    })
}
