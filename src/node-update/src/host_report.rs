//! What `mcd host-check` and `mcd host-remove` print: one JSON document each.
//!
//! `slipway install` and `slipway uninstall` read them from the logs of pods. Program and reader
//! come from one release, so a document of another form is refused, not interpreted.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of both documents.
pub const SCHEMA: u32 = 1;

/// A requirement of a host. `docs/reference/daemon.md`, "Checks of a host", explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostCheck {
    /// The host is booted from an ostree deployment.
    Ostree,
    /// The host's loader and libraries run `mcd-os`.
    Libraries,
    /// systemd, its bus and logind run.
    Systemd,
    /// The host has skopeo.
    Skopeo,
    /// The kubelet has a kubeconfig that a daemon can use.
    Kubelet,
    /// The boot loader counts boots of an unverified target.
    BootLoader,
    /// SELinux, where it enforces, has Slipway's policy module.
    Selinux,
    /// No other program updates the host by itself.
    Updaters,
    /// The host is recorded to be in a configuration.
    Record,
    /// `/boot` and `/var` have room for a target.
    Room,
    /// The host's processor is that of the program.
    Architecture,
}

impl HostCheck {
    /// Every check, in the order of a report.
    pub const ALL: [Self; 11] = [
        Self::Ostree,
        Self::Libraries,
        Self::Systemd,
        Self::Skopeo,
        Self::Kubelet,
        Self::BootLoader,
        Self::Selinux,
        Self::Updaters,
        Self::Record,
        Self::Room,
        Self::Architecture,
    ];

    /// The word in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ostree => "ostree",
            Self::Libraries => "libraries",
            Self::Systemd => "systemd",
            Self::Skopeo => "skopeo",
            Self::Kubelet => "kubelet",
            Self::BootLoader => "boot-loader",
            Self::Selinux => "selinux",
            Self::Updaters => "updaters",
            Self::Record => "record",
            Self::Room => "room",
            Self::Architecture => "architecture",
        }
    }
}

impl fmt::Display for HostCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostVerdict {
    /// The host has what is needed.
    Ok,
    /// Slipway works, with the limit that the message names.
    Warning,
    /// The host lacks it, or it could not be found out.
    Missing,
}

/// The result of one check. Shape: `{"check", "result", "message"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFinding {
    pub check: HostCheck,
    pub result: HostVerdict,
    /// What was found, and of anything but [`HostVerdict::Ok`] what to do; one line.
    pub message: String,
}

/// What `mcd host-check` prints. Shape: `{"schema", "findings"}`, with one finding for each of
/// [`HostCheck::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReport {
    pub schema: u32,
    pub findings: Vec<HostFinding>,
}

/// What became of `mcd host-remove`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostRemovalOutcome {
    /// Nothing of Slipway is on the host.
    Removed,
    /// Something is under way on the host; nothing was removed.
    Refused,
    /// A step failed; running it again resumes the removal.
    Failed,
}

/// What `mcd host-remove` prints. Shape: `{"schema", "outcome", "reasons", "removed"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRemoval {
    pub schema: u32,
    pub outcome: HostRemovalOutcome,
    /// Why it was refused or failed, or what was left out.
    pub reasons: Vec<String>,
    /// Paths, refs and settings that this run removed.
    pub removed: Vec<String>,
}

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not JSON of this form.
    #[error("cannot understand the document of the host")]
    Json(#[source] serde_json::Error),
    /// Another version of Slipway wrote it.
    #[error("schema of the document of the host is {found}, not {SCHEMA}")]
    Schema { found: u32 },
    /// A check has no finding: nothing is good that was not looked for.
    #[error("findings of the host has none of check {0}")]
    Missing(HostCheck),
    /// A check has two findings.
    #[error("findings of the host has two of check {0}")]
    Repeated(HostCheck),
}

impl HostReport {
    /// A report of these findings.
    pub const fn new(findings: Vec<HostFinding>) -> Self {
        Self {
            schema: SCHEMA,
            findings,
        }
    }

    /// Reads what `mcd host-check` printed: the last line, also of the log of its pod.
    ///
    /// # Errors
    /// All of [`Error`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let report: Self = serde_json::from_str(last_line(text)).map_err(Error::Json)?;
        of_this_schema(report.schema)?;
        for check in HostCheck::ALL {
            let of_it = |finding: &&HostFinding| finding.check == check;
            match report.findings.iter().filter(of_it).count() {
                0 => return Err(Error::Missing(check)),
                1 => {}
                _ => return Err(Error::Repeated(check)),
            }
        }
        Ok(report)
    }

    /// The findings with a result, in order.
    pub fn with(&self, result: HostVerdict) -> impl Iterator<Item = &HostFinding> {
        self.findings
            .iter()
            .filter(move |finding| finding.result == result)
    }
}

impl HostRemoval {
    /// Reads what `mcd host-remove` printed: the last line, also of the log of its pod.
    ///
    /// # Errors
    /// [`Error::Json`], [`Error::Schema`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let removal: Self = serde_json::from_str(last_line(text)).map_err(Error::Json)?;
        of_this_schema(removal.schema)?;
        Ok(removal)
    }
}

/// The document in the log of a pod, in which lines of the program's log precede it.
fn last_line(text: &str) -> &str {
    text.trim_end().lines().next_back().unwrap_or_default()
}

const fn of_this_schema(found: u32) -> Result<(), Error> {
    if found == SCHEMA {
        Ok(())
    } else {
        Err(Error::Schema { found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> HostReport {
        let finding = |check| HostFinding {
            check,
            result: HostVerdict::Ok,
            message: String::new(),
        };
        HostReport::new(HostCheck::ALL.map(finding).to_vec())
    }

    fn text(report: &HostReport) -> String {
        serde_json::to_string(report).unwrap()
    }

    #[test]
    fn a_report_is_read_as_it_was_printed() {
        let mut report = report();
        report.findings[1].result = HostVerdict::Missing;
        report.findings[1].message = "libostree-1.so.1 is not there".to_owned();
        report.findings[5].result = HostVerdict::Warning;
        let text = text(&report);
        assert_eq!(HostReport::parse(&text).unwrap(), report);
        let finding =
            r#"{"check":"libraries","result":"missing","message":"libostree-1.so.1 is not there"}"#;
        assert!(text.starts_with(r#"{"schema":1,"findings":[{"check":"ostree","result":"ok""#));
        assert!(text.contains(finding), "{text}");
        let log = format!("INFO put a program on the host\n{text}\n");
        assert_eq!(HostReport::parse(&log).unwrap(), report);
        let missing: Vec<_> = report.with(HostVerdict::Missing).collect();
        assert_eq!(missing, [&report.findings[1]]);
    }

    #[test]
    fn words_of_checks_are_those_in_json() {
        for check in HostCheck::ALL {
            let word = serde_json::to_value(check).unwrap();
            assert_eq!(word, check.as_str());
        }
    }

    #[test]
    fn a_report_without_a_check_or_of_another_version_is_refused() {
        let complete = report();
        let mut table = Vec::new();
        let mut other = complete.clone();
        other.schema = 2;
        table.push((
            text(&other),
            "schema of the document of the host is 2, not 1",
        ));
        let mut partial = complete.clone();
        partial.findings.remove(8);
        table.push((
            text(&partial),
            "findings of the host has none of check record",
        ));
        let mut twice = complete.clone();
        twice.findings.push(complete.findings[0].clone());
        table.push((text(&twice), "findings of the host has two of check ostree"));
        let unknown = text(&complete).replace("skopeo", "podman");
        for broken in [unknown, String::new(), "{\"schema\":1}".to_owned()] {
            table.push((broken, "cannot understand the document of the host"));
        }
        for (text, expected) in table {
            assert_eq!(HostReport::parse(&text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_removal_is_read_as_it_was_printed() {
        let removal = HostRemoval {
            schema: SCHEMA,
            outcome: HostRemovalOutcome::Refused,
            reasons: vec!["attempt a-1 is under way on this host".to_owned()],
            removed: Vec::new(),
        };
        let text = serde_json::to_string(&removal).unwrap();
        assert_eq!(HostRemoval::parse(&text).unwrap(), removal);
        let other = text.replace("\"schema\":1", "\"schema\":3");
        assert!(HostRemoval::parse(&other).is_err());
        HostRemoval::parse("{}").unwrap_err();
    }
}
