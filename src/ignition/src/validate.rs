//! What the specification allows, and what a node can follow.
//!
//! The rules are those of `coreos/ignition`'s `config/v3_5/types` and `config/validate`, with four
//! differences: special mode bits are refused (`docs/reference/daemon.md`, "Rejected changes"),
//! `data:` URLs are decoded to the last byte, so that broken base64 or gzip or a wrong hash is
//! found here and not on a node, the names of units and drop-ins must be file names, and
//! `overwrite` without a source is allowed: rendering sets it on every file.

mod disks;
mod passwd;
mod paths;
mod repeated;
mod resources;
mod units;

use super::{Config, Problem, Warning};

pub use paths::MAX_FILE_MODE;

#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub problems: Vec<Problem>,
    pub warnings: Vec<Warning>,
}

impl Verdict {
    fn refuse(&mut self, field: impl Into<String>, why: impl Into<String>) {
        self.problems.push(Problem {
            field: field.into(),
            why: why.into(),
        });
    }

    fn warn(&mut self, field: impl Into<String>, text: impl Into<String>) {
        self.warnings.push(Warning {
            field: field.into(),
            text: text.into(),
        });
    }
}

/// Judges a whole configuration.
pub(super) fn validate(config: &Config) -> Verdict {
    let mut verdict = Verdict::default();
    resources::validate(config, &mut verdict);
    disks::validate(&config.storage, &mut verdict);
    paths::validate(config, &mut verdict);
    units::validate(&config.systemd, &mut verdict);
    passwd::validate(&config.passwd, &mut verdict);
    repeated::validate(config, &mut verdict);
    verdict
}

/// Whether an optional text is absent or empty.
fn is_unset(text: Option<&str>) -> bool {
    text.is_none_or(str::is_empty)
}
