//! What `mcd-os` and the programs that run it exchange: verbs, exit codes and reports.
//!
//! A caller prints a [`Verb`] as words of a command line, and `mcd-os` parses it. At its end
//! `mcd-os` exits with the code of an [`HelperOutcome`] and, if the caller names a file, leaves a
//! [`HelperReport`] there. The daemon reads reports of units; `mcd pivot` and `mcd status` run
//! `mcd-os` themselves and read its exit code or its output.
//!
//! A daemon may find a unit that an older daemon started: a member that is new in a report has a
//! default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use node_update::plan::{Action, Step, Target};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Verb {
    /// Pulls an OS image into the host's repository and holds it there; nothing becomes bootable
    Fetch {
        /// Pull spec, without transport.
        image: String,
        /// Directory of the plan whose settings of registries apply; without it the running
        /// host's.
        #[arg(long, value_name = "PLAN_DIR")]
        plan: Option<String>,
        /// File with the most bytes a second that are fetched, read again all the time; as long as
        /// it is missing, there is no limit.
        #[arg(long, value_name = "FILE")]
        limit_file: Option<String>,
    },
    /// Runs skopeo for the image library, under a limit, and reads each layer to its end
    #[command(hide = true)]
    LimitedSkopeo {
        /// File with the most bytes a second; `-`: no limit.
        limit_file: String,
        /// Those of skopeo.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Finds out whether a plan could be applied, on a deployment that is made and thrown away
    Rehearse {
        /// Directory with plan.json and blobs.
        #[arg(value_name = "PLAN_DIR")]
        plan: String,
    },
    /// Applies a plan; what was begun before is continued
    Apply {
        /// Directory with plan.json and blobs.
        #[arg(value_name = "PLAN_DIR")]
        plan: String,
        /// Leaves a target booted whose verification fails, for people to examine.
        #[arg(long)]
        stay: bool,
    },
    /// Reverts or rolls back the update under way
    Rollback,
    /// Boots the previous deployment next, where no update is under way
    BootPrevious,
    /// Shows the deployments of this host and what is under way
    Deployments {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Pulls and pins images by the host's container runtime, and drops pins that are asked for no
    /// more
    Pin {
        /// File with the sets, as JSON.
        #[arg(value_name = "FILE")]
        request: String,
    },
    /// What runs at boot: compares the booted deployment with the journal
    Guard(Guard),
    /// Has the repository bring each object to disk by itself, as beside etcd
    SyncEachObject,
    /// Removes what Slipway has in the repository, in the boot loader and in deployments that are
    /// not booted; `mcd host-remove` runs it and removes the rest
    #[command(hide = true)]
    Remove,
    /// Checks the host against the configuration it is recorded to be in
    Verify {
        /// Checks files and units alone, which a person can change by hand.
        #[arg(long)]
        drift: bool,
    },
    /// Checks that this program runs, and reads the deployments and the record; changes nothing
    SelfCheck {
        /// Runs with this directory as its root: a deployment that is not booted.
        #[arg(long, value_name = "DIR")]
        root: Option<String>,
    },
}

/// Arguments of the guard.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Guard {
    /// Verifies the booted target by its checks, or rolls back.
    #[arg(long, conflicts_with = "install")]
    pub verify: bool,
    /// Installs the units that run the guard at boot.
    #[arg(long)]
    pub install: bool,
    /// Seconds that the checks may take to hold.
    #[arg(long, value_name = "SECONDS", default_value_t = Self::DEADLINE_SECS)]
    deadline: u64,
}

impl Guard {
    const DEADLINE_SECS: u64 = 600;

    /// Installs the units.
    pub const fn install() -> Self {
        Self {
            verify: false,
            install: true,
            deadline: Self::DEADLINE_SECS,
        }
    }

    /// Verifies the booted target once, without waiting for its checks to hold.
    pub const fn verify_once() -> Self {
        Self {
            verify: true,
            install: false,
            deadline: 0,
        }
    }

    /// How long the checks may take to hold.
    pub const fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline)
    }
}

/// The name of a [`Verb`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerbName {
    /// [`Verb::Fetch`].
    Fetch,
    /// [`Verb::LimitedSkopeo`].
    LimitedSkopeo,
    /// [`Verb::Rehearse`].
    Rehearse,
    /// [`Verb::Apply`].
    Apply,
    /// [`Verb::Rollback`].
    Rollback,
    /// [`Verb::BootPrevious`].
    BootPrevious,
    /// [`Verb::Deployments`].
    Deployments,
    /// [`Verb::Pin`].
    Pin,
    /// [`Verb::Guard`].
    Guard,
    /// [`Verb::SyncEachObject`].
    SyncEachObject,
    /// [`Verb::Remove`].
    Remove,
    /// [`Verb::Verify`].
    Verify,
    /// [`Verb::SelfCheck`].
    SelfCheck,
}

impl VerbName {
    /// The word on the command line, and in the names of units and report files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::LimitedSkopeo => "limited-skopeo",
            Self::Rehearse => "rehearse",
            Self::Apply => "apply",
            Self::Rollback => "rollback",
            Self::BootPrevious => "boot-previous",
            Self::Deployments => "deployments",
            Self::Pin => "pin",
            Self::Guard => "guard",
            Self::SyncEachObject => "sync-each-object",
            Self::Remove => "remove",
            Self::Verify => "verify",
            Self::SelfCheck => "self-check",
        }
    }
}

impl fmt::Display for VerbName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Verb {
    pub const fn name(&self) -> VerbName {
        match self {
            Self::Fetch { .. } => VerbName::Fetch,
            Self::LimitedSkopeo { .. } => VerbName::LimitedSkopeo,
            Self::Rehearse { .. } => VerbName::Rehearse,
            Self::Apply { .. } => VerbName::Apply,
            Self::Rollback => VerbName::Rollback,
            Self::BootPrevious => VerbName::BootPrevious,
            Self::Deployments { .. } => VerbName::Deployments,
            Self::Pin { .. } => VerbName::Pin,
            Self::Guard(_) => VerbName::Guard,
            Self::SyncEachObject => VerbName::SyncEachObject,
            Self::Remove => VerbName::Remove,
            Self::Verify { .. } => VerbName::Verify,
            Self::SelfCheck { .. } => VerbName::SelfCheck,
        }
    }

    /// The words of the command line: the name and the arguments.
    pub fn to_arguments(&self) -> Vec<String> {
        let mut words = vec![self.name().to_string()];
        let mut add = |word: &str| words.push(word.to_owned());
        match self {
            Self::Fetch {
                image,
                plan,
                limit_file,
            } => {
                add(image);
                for (option, value) in [("--plan", plan), ("--limit-file", limit_file)] {
                    if let Some(value) = value {
                        add(option);
                        add(value);
                    }
                }
            }
            Self::LimitedSkopeo {
                limit_file,
                arguments,
            } => {
                add(limit_file);
                for argument in arguments {
                    add(argument);
                }
            }
            Self::Rehearse { plan } => add(plan),
            Self::Pin { request } => add(request),
            Self::Apply { plan, stay } => {
                add(plan);
                if *stay {
                    add("--stay");
                }
            }
            Self::Deployments { json } => {
                if *json {
                    add("--json");
                }
            }
            Self::Guard(guard) => {
                if guard.verify {
                    add("--verify");
                }
                if guard.install {
                    add("--install");
                }
                if guard.deadline != Guard::DEADLINE_SECS {
                    add("--deadline");
                    add(&guard.deadline.to_string());
                }
            }
            Self::Verify { drift } => {
                if *drift {
                    add("--drift");
                }
            }
            Self::SelfCheck { root } => {
                if let Some(root) = root {
                    add("--root");
                    add(root);
                }
            }
            Self::Rollback | Self::BootPrevious | Self::SyncEachObject | Self::Remove => {}
        }
        words
    }
}

/// How a verb ended. Each outcome has an exit code; 2 is that of a wrong command line, which leaves
/// no report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HelperOutcome {
    Done,
    /// The verb failed; a retry may succeed.
    Failed,
    /// The verb changed nothing, and a retry would end the same.
    #[serde(rename = "refused")]
    Rejected,
    /// A reboot completes the verb.
    NeedsReboot,
}

impl HelperOutcome {
    const ALL: [Self; 4] = [Self::Done, Self::Failed, Self::Rejected, Self::NeedsReboot];

    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Rejected => 3,
            Self::NeedsReboot => 4,
        }
    }

    /// The outcome of an exit code; `None` for the code of a wrong command line or an unknown one.
    pub fn of_exit_code(code: i32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| i32::from(outcome.exit_code()) == code)
    }
}

impl From<HelperOutcome> for ExitCode {
    fn from(outcome: HelperOutcome) -> Self {
        Self::from(outcome.exit_code())
    }
}

impl fmt::Display for HelperOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Rejected => "refused",
            Self::NeedsReboot => "needs reboot",
        })
    }
}

/// The report of a verb. Shape: `{"outcome", "reasons", …}`, where the rest are the verb's details:
/// those of `fetch` are [`FetchDetails`], of `pin` [`PinDetails`], of `apply` [`ApplyDetails`], of
/// `verify` [`VerifyDetails`], of `boot-previous` [`PreviousDetails`], of `remove`
/// [`RemoveDetails`], of `deployments` [`View`](crate::deployments::View).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperReport {
    pub outcome: HelperOutcome,
    /// Why it was refused, or each failure with its causes.
    #[serde(default)]
    pub reasons: Vec<String>,
    #[serde(flatten)]
    details: Map<String, Value>,
}

impl HelperReport {
    pub fn new(outcome: HelperOutcome, reasons: Vec<String>) -> Self {
        Self {
            outcome,
            reasons,
            details: Map::new(),
        }
    }

    /// The reasons in one line.
    pub fn because(&self) -> String {
        self.reasons.join("; ")
    }

    /// Adds the verb's details.
    ///
    /// # Errors
    /// `details` is not an object in JSON.
    pub fn with(mut self, details: &impl Serialize) -> serde_json::Result<Self> {
        let details: Map<String, Value> = serde_json::from_value(serde_json::to_value(details)?)?;
        self.details.extend(details);
        Ok(self)
    }

    /// The verb's details.
    ///
    /// # Errors
    /// The report has other details, or none.
    pub fn details<T: DeserializeOwned>(self) -> serde_json::Result<T> {
        serde_json::from_value(Value::Object(self.details))
    }
}

/// What `boot-previous` reports where it is refused because an update has to lead back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousDetails {
    /// Directory of the previous deployment.
    pub previous: PathBuf,
}

/// What `remove` reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveDetails {
    /// Paths, refs, settings and pins that are removed.
    pub removed: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchDetails {
    pub image: String,
    /// Checksum of the commit.
    pub checksum: String,
    /// Digest of the manifest; `None` if no registry was read.
    pub digest: Option<String>,
    pub version: Option<String>,
    /// Bytes of layers that this run fetched over the network.
    pub fetched_bytes: u64,
    /// Whose settings of registries applied.
    pub registry_settings: RegistrySettings,
}

/// Whose settings of registries apply to a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistrySettings {
    /// Those of the booted deployment.
    #[serde(rename = "of the running host")]
    RunningHost,
    /// Those of the plan's target, which differ.
    #[serde(rename = "of the target")]
    Target,
}

/// What `pin` reads: all that is to lie pinned on the host, and what may be taken for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinRequest {
    /// Pull specs by digest, by the name of their set; none: all pins are dropped.
    pub sets: BTreeMap<String, Vec<String>>,
    /// Ephemeral storage that the Node offers to pods, in bytes; `None` if it does not say.
    pub allocatable_bytes: Option<u64>,
    /// How many images are pulled at once, at least 1.
    pub at_once: usize,
}

/// What `pin` reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinDetails {
    /// Images that lie pinned on the host now.
    pub pinned: usize,
    /// Images that this run pulled.
    pub pulled: usize,
    /// Whether a set does not fit on the disk; the reasons name it and the bytes that lack.
    #[serde(default)]
    pub lacks_room: bool,
}

/// What `apply` reports of a plan that it did not carry out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyDetails {
    /// Whether the host differs from the configuration that the plan starts from.
    pub is_drifted: bool,
    /// The service that could not be reloaded or restarted, for which all was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_service: Option<ServiceAction>,
}

/// What a live change does to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceAction {
    Reload(String),
    Restart(String),
}

impl ServiceAction {
    /// The action of a plan's step, if it is one.
    pub fn of(step: &Step) -> Option<Self> {
        Self::of_action(&step.action)
    }

    /// The same of what a step does.
    pub fn of_action(action: &Action) -> Option<Self> {
        match action {
            Action::ReloadUnit { unit } => Some(Self::Reload(unit.clone())),
            Action::RestartUnit { unit } => Some(Self::Restart(unit.clone())),
            Action::WriteFile { .. }
            | Action::ReleaseFile { .. }
            | Action::MaskUnit { .. }
            | Action::UnmaskUnit { .. }
            | Action::EnableUnit { .. }
            | Action::KeepUnitEnabled { .. }
            | Action::DisableUnit { .. }
            | Action::PresetUnit { .. }
            | Action::WriteAuthorizedKeys { .. }
            | Action::SetPassword { .. }
            | Action::DaemonReload => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyDetails {
    /// The target that the host's record names.
    pub at: Target,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> HelperReport {
        HelperReport::new(
            HelperOutcome::Rejected,
            vec!["one".to_owned(), "two".to_owned()],
        )
    }

    #[test]
    fn report_is_read_back_as_it_was_written() {
        let details = FetchDetails {
            image: "os".to_owned(),
            checksum: "c".to_owned(),
            digest: None,
            version: Some("1".to_owned()),
            fetched_bytes: 3,
            registry_settings: RegistrySettings::RunningHost,
        };
        for outcome in HelperOutcome::ALL {
            let report = HelperReport::new(outcome, vec!["one".to_owned()]);
            let report = report.with(&details).unwrap();
            let bytes = serde_json::to_vec(&report).unwrap();
            let read: HelperReport = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(read, report);
            assert_eq!(read.details::<FetchDetails>().unwrap(), details);
        }
        report().details::<VerifyDetails>().unwrap_err();
        report().with(&"text").unwrap_err();
    }

    #[test]
    fn report_is_one_object_with_the_verbs_own_members() {
        let at = Target {
            config: "a".to_owned(),
            image: None,
        };
        let report = report().with(&VerifyDetails { at }).unwrap();
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(
            text,
            r#"{"outcome":"refused","reasons":["one","two"],"at":{"config":"a"}}"#
        );
        let short: HelperReport = serde_json::from_str(r#"{"outcome":"needs-reboot"}"#).unwrap();
        assert_eq!(
            short,
            HelperReport::new(HelperOutcome::NeedsReboot, Vec::new())
        );
    }

    #[test]
    fn outcome_is_read_back_from_its_exit_code() {
        let codes = HelperOutcome::ALL.map(HelperOutcome::exit_code);
        // What `--help` and the units of systemd rely on.
        assert_eq!(codes, [0, 1, 3, 4]);
        for outcome in HelperOutcome::ALL {
            let code = i32::from(outcome.exit_code());
            assert_eq!(HelperOutcome::of_exit_code(code), Some(outcome));
        }
        assert_eq!(HelperOutcome::of_exit_code(2), None);
        assert_eq!(HelperOutcome::of_exit_code(101), None);
    }
}
