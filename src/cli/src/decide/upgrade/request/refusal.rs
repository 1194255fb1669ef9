//! Why a request is refused, in the words of `oc` where it has the same refusal.

use release::metadata::ROLLBACK_FROM;

use super::ImageRefused;
use crate::decide::upgrade::version::Caution;

/// Why a request is refused. Each sentence is whole: no variant has a source.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpdateRefused {
    #[error("--clear may not be specified with any other flags")]
    ClearWithOthers,
    #[error("--to-multi-arch may not be used with --to, --to-image, or --to-latest")]
    MultiArchWithTarget,
    #[error("only one of --to or --to-image may be provided")]
    VersionAndImage,
    #[error("--to-latest may not be used with --to or --to-image")]
    LatestWithTarget,
    #[error("--to must be a semantic version (e.g. 4.0.1 or 4.1.0-nightly-20181104): {error}")]
    NoVersion { error: release::version::Error },
    #[error(transparent)]
    Image(#[from] ImageRefused),
    #[error(
        "--to-image must be a by-digest pull spec, unless --force is also set, because release images that are not accessed via digest cannot be verified by the cluster.  Even when --force is set, using tags is not recommended, although we continue to allow it for backwards compatibility"
    )]
    ByTag,
    #[error(
        "the update {version} is not one of the recommended updates, but is available as a conditional update. \
         To accept the Recommended={} risk and to proceed with update use --allow-not-recommended.\n  \
         Reason: {}\n  Message: {}\n",
        .caution.recommended,
        .caution.reason,
        indented(&.caution.message)
    )]
    NotRecommended { version: String, caution: Caution },
    #[error(
        "cannot refresh available updates:\n  Reason: {reason}\n  Message: {}\n\nspecify --to-image to continue with the update.",
        indented(.message)
    )]
    NotRefreshed { reason: String, message: String },
    /// None is available; nor is a conditional one, if these were allowed.
    #[error(
        "no recommended{} updates, specify --to-image to continue with the update or wait for new updates to be available.",
        if *.allow_conditional { " or conditional" } else { "" }
    )]
    NoUpdates { allow_conditional: bool },
    /// `option` is the one by which the request would be accepted.
    #[error(
        "the update is not one of the possible targets: {}. specify {option} to continue with the update.",
        .targets.join(", ")
    )]
    NoTarget {
        targets: Vec<String>,
        option: &'static str,
    },
    /// States of the cluster speak against any update.
    #[error(
        "{}\n\nIf you want to upgrade anyway, use --allow-upgrade-with-warnings.",
        .states.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
    )]
    States { states: Vec<AdverseState> },
    #[error(
        "you are requesting to clear the update channel. The current channel is one of the available channels, you must pass --allow-explicit-channel to continue"
    )]
    ChannelCleared,
    #[error(
        "the requested channel {channel:?} is not one of the available channels ({}), you must pass --allow-explicit-channel to continue",
        .available.join(", ")
    )]
    ForeignChannel {
        channel: String,
        available: Vec<String>,
    },
    #[error("--clear is mutually exclusive with --replace and with risks")]
    ClearWithRisks,
    #[error("no risks are named")]
    NoRisks,
    #[error("illegal risk {name:?}")]
    IllegalRisk { name: String },
    #[error("the risk {name:?} with suffix \"-\" is not allowed with --replace")]
    RemovedByReplace { name: String },
    #[error("found conflicting risks: {name:?} and \"{name}-\"")]
    ConflictingRisks { name: String },
    #[error("no previous version found in ClusterVersion's history")]
    NoPrevious,
    #[error("cannot compare versions: {error}")]
    Incomparable { error: release::version::Error },
    #[error("previous version {to} is not lower than the current version {from}")]
    NotLower { from: String, to: String },
    #[error("{to} is another major release than {from}: that is not rolled back")]
    OtherMajor { from: String, to: String },
    #[error(
        "{to} is not the same minor release as {from}, you must pass --allow-minor to \
         continue; the cluster refuses it unless {ROLLBACK_FROM} of {to} lists {from}"
    )]
    OtherMinor { from: String, to: String },
    #[error("unable to rollback while an update is in progress: {message}")]
    InProgress { message: String },
    #[error("ClusterVersion has no condition Progressing")]
    ProgressUnknown,
}

/// A state of the cluster that speaks against any update, by the condition of ClusterVersion.
#[derive(Debug, thiserror::Error)]
#[error("{kind}\n\n  Reason: {reason}\n  Message: {}", indented(.message))]
pub(crate) struct AdverseState {
    pub(super) kind: AdverseKind,
    pub(super) reason: String,
    pub(super) message: String,
}

/// What the condition of an [`AdverseState`] means.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdverseKind {
    #[error("the cluster version object is invalid, you must correct the invalid state first:")]
    Invalid,
    #[error("the cluster is experiencing an error reconciling {version:?}:")]
    Failing { version: String },
    #[error("the cluster is already upgrading:")]
    Progressing,
}

/// A message, whose lines begin where its first one does.
fn indented(message: &str) -> String {
    message.replace('\n', "\n  ")
}
