//! What a ClusterVersion says about an upgrade: whether it was requested, whether it is done, and
//! which version runs.

use api::config::{ClusterVersion, ClusterVersionStatus, HistoryEntry, HistoryState};
use api::upgrade::DesiredRelease;
use jiff::Timestamp;

/// Why it is undecided whether an upgrade was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot find the correct upgrade spec source")]
pub struct NoSource;

/// Why the version that runs cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("failed to get current version")]
pub struct NoCurrentVersion;

/// Whether ClusterVersion asks for the release already.
///
/// # Errors
/// The release is named neither by an image nor by version and channel.
pub fn is_commenced(version: &ClusterVersion, desired: &DesiredRelease) -> Result<bool, NoSource> {
    let requested = version.spec.desired_update.as_ref();
    if !desired.image.is_empty() {
        return Ok(requested.is_some_and(|update| update.image == desired.image));
    }
    if desired.version.is_empty() || desired.channel.is_empty() {
        return Err(NoSource);
    }
    Ok(requested.is_some_and(|update| update.version == desired.version))
}

/// Whether the control plane runs the version.
pub fn is_completed(status: &ClusterVersionStatus, version: &str) -> bool {
    completed(status).any(|entry| entry.version == version)
}

/// The version that was completed last, wherever it stands in the history.
///
/// # Errors
/// No version was completed, or it has no name.
pub fn current_version(status: &ClusterVersionStatus) -> Result<&str, NoCurrentVersion> {
    let newest = completed(status).max_by_key(|entry| completion(entry));
    let version = newest.map(|entry| entry.version.as_str());
    version
        .filter(|version| !version.is_empty())
        .ok_or(NoCurrentVersion)
}

/// The version before the requested one.
pub fn preceding_version<'a>(status: &'a ClusterVersionStatus, desired: &str) -> &'a str {
    let running = status.desired.version.as_str();
    if running != desired {
        return running;
    }
    let mut others = completed(status).map(|entry| entry.version.as_str());
    let other = others.find(|version| !version.is_empty() && *version != desired);
    other.unwrap_or(running)
}

/// When the version was accepted.
pub fn started(status: &ClusterVersionStatus, version: &str) -> Option<Timestamp> {
    let mut entries = status.history.iter();
    let entry = entries.find(|entry| entry.version == version)?;
    Some(entry.started_time.0)
}

fn completed(status: &ClusterVersionStatus) -> impl Iterator<Item = &HistoryEntry> {
    let entries = status.history.iter();
    entries.filter(|entry| entry.state == HistoryState::Completed)
}

fn completion(entry: &HistoryEntry) -> Option<Timestamp> {
    entry.completion_time.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cluster_version, history};

    fn desired(version: &str, channel: &str, image: &str) -> DesiredRelease {
        DesiredRelease {
            version: version.to_owned(),
            channel: channel.to_owned(),
            image: image.to_owned(),
        }
    }

    #[test]
    fn upgrade_is_commenced_when_cluster_version_asks_for_it() {
        let mut version = cluster_version("4.16.3");
        let by_version = desired("4.16.4", "stable-4.16", "");
        let by_image = desired("4.16.4", "", "q/r@sha256:1");
        assert_eq!(is_commenced(&version, &by_version), Ok(false));
        version.spec.desired_update = Some(api::config::Update {
            version: "4.16.4".to_owned(),
            ..Default::default()
        });
        assert_eq!(is_commenced(&version, &by_version), Ok(true));
        let elsewhere = desired("4.16.4", "fast-4.16", "");
        assert_eq!(is_commenced(&version, &elsewhere), Ok(true));
        assert_eq!(is_commenced(&version, &by_image), Ok(false));
        version.spec.desired_update = Some(api::config::Update {
            image: "q/r@sha256:1".to_owned(),
            ..Default::default()
        });
        assert_eq!(is_commenced(&version, &by_image), Ok(true));
        for unclear in [desired("4.16.4", "", ""), desired("", "stable-4.16", "")] {
            assert_eq!(is_commenced(&version, &unclear), Err(NoSource));
        }
    }

    #[test]
    fn current_version_is_the_one_completed_last() {
        let mut status = ClusterVersionStatus::default();
        assert_eq!(current_version(&status), Err(NoCurrentVersion));
        status.history = vec![
            history("4.16.2", "Completed", 10),
            history("4.16.4", "Partial", 40),
            history("4.16.3", "Completed", 30),
        ];
        assert_eq!(current_version(&status), Ok("4.16.3"));
        assert!(is_completed(&status, "4.16.2") && !is_completed(&status, "4.16.4"));
        status.history = vec![history("", "Completed", 50)];
        assert_eq!(current_version(&status), Err(NoCurrentVersion));
    }

    #[test]
    fn preceding_version_is_another_one_where_there_is_one() {
        let mut status = ClusterVersionStatus::default();
        status.desired.version = "4.16.3".to_owned();
        assert_eq!(preceding_version(&status, "4.16.4"), "4.16.3");
        status.desired.version = "4.16.4".to_owned();
        assert_eq!(preceding_version(&status, "4.16.4"), "4.16.4");
        status.history = vec![
            history("4.16.4", "Completed", 40),
            history("", "Completed", 35),
            history("4.16.3", "Completed", 30),
        ];
        assert_eq!(preceding_version(&status, "4.16.4"), "4.16.3");
    }
}
