//! What an update goes to, and where it comes from.

use crate::decide::object::{ClusterObject, text};

/// The operator that is updated last, with the nodes.
pub(crate) const MACHINE_CONFIG: &str = "machine-config";

/// How far an operator is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorProgress {
    Updated,
    Updating,
    Waiting,
}

/// What an operator that is updated reports.
pub(crate) struct TargetRelease<'a> {
    pub(crate) version: &'a str,
    /// Image of the machine-config operator; none if it cannot be read.
    pub(crate) machine_config_image: Option<&'a str>,
    pub(crate) is_migration: bool,
}

impl TargetRelease<'_> {
    pub(crate) fn progress(&self, operator: &ClusterObject) -> OperatorProgress {
        let reported = |name: &str| {
            let versions = operator.list("/status/versions").iter();
            let mut found = versions.filter(|version| text(version, "/name") == name);
            found.next().map(|version| text(version, "/version"))
        };
        let mut is_updated = reported("operator") == Some(self.version);
        if operator.name() == MACHINE_CONFIG
            && let (Some(image), Some(reported)) =
                (self.machine_config_image, reported("operator-image"))
        {
            is_updated &= image == reported;
        }
        let progressing = operator.condition("Progressing");
        let is_progressing = progressing.is_some_and(|condition| condition.is_true());
        // In a migration the version that an operator had before is the target, too.
        is_updated &= !(self.is_migration && is_progressing);
        if is_updated {
            OperatorProgress::Updated
        } else if is_progressing {
            OperatorProgress::Updating
        } else {
            OperatorProgress::Waiting
        }
    }
}

/// Whether an update is the change to the same release for several architectures.
///
/// `status.desired.architecture` may be absent, and says nothing of what the cluster had before.
pub(crate) fn is_migration(history: &[serde_json::Value]) -> bool {
    let (Some(current), Some(previous)) = (history.first(), history.get(1)) else {
        return false;
    };
    let version = |entry| text(entry, "/version");
    // A mirror has the same image under another name.
    let image = |entry| {
        let image = text(entry, "/image");
        image.split_once('@').map_or(image, |(_, digest)| digest)
    };
    version(current) == version(previous) && image(current) != image(previous)
}

/// Where an update comes from.
pub(crate) fn origin(history: &[serde_json::Value]) -> String {
    let Some(previous) = history.get(1) else {
        return " (a new install)".to_owned();
    };
    if is_migration(history) {
        return " to Multi-Architecture".to_owned();
    }
    let from = text(previous, "/version");
    if text(previous, "/state") == "Partial" {
        return format!(" (from incomplete {from})");
    }
    format!(" (from {from})")
}
