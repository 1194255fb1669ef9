//! Silences of alerts that an upgrade causes: which there are to be, and what is missing.
//!
//! The form is that of Alertmanager's API v2.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// Who creates silences; upstream's name.
pub const CREATOR: &str = "managed-upgrade-operator";

/// Part of the comments of each kind.
const CONTROL_PLANE: &str = "OSD control plane";
const WORKERS: &str = "OSD worker node";

/// What a silence is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SilenceKind {
    /// The upgrade of the control plane.
    ControlPlane,
    /// The upgrade of workers.
    Workers,
}

/// A silence that Alertmanager has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownSilence {
    /// Its id.
    pub id: String,
    /// Who created it.
    #[serde(default)]
    pub created_by: String,
    /// What it is for.
    #[serde(default)]
    pub comment: String,
    /// Whether it is in force.
    pub status: SilenceStatus,
}

/// Whether a silence is in force.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SilenceStatus {
    /// `active`, `pending` or `expired`.
    pub state: String,
}

/// A silence to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedSilence {
    /// What it is for.
    pub comment: String,
    /// Which alerts it covers: label and regular expression.
    pub matchers: Vec<(&'static str, String)>,
}

/// What is to be done so that workers' alerts are silenced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilenceChange {
    /// Id of a silence that is replaced.
    pub replaced: Option<String>,
    /// The silence to create, if it is not there.
    pub created: Option<WantedSilence>,
}

impl KnownSilence {
    /// Reads the answer to `GET silences`.
    ///
    /// # Errors
    /// Why it is no list of silences.
    pub fn parse_all(body: &[u8]) -> Result<Vec<Self>, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }

    fn is_active(&self) -> bool {
        self.status.state == "active"
    }

    /// Whether it is in force and of this operator.
    pub fn is_ours(&self) -> bool {
        self.is_active() && self.created_by == CREATOR
    }
}

impl WantedSilence {
    fn usual(comment: String) -> Self {
        Self {
            comment,
            matchers: vec![
                ("severity", "(warning|info)".to_owned()),
                (
                    "namespace",
                    "(^openshift.*|^kube.*|^redhat.*|^default$)".to_owned(),
                ),
            ],
        }
    }

    /// The body of `POST silences`.
    pub fn to_body(&self, from: Timestamp, until: Timestamp) -> Value {
        let matchers: Vec<Value> = self
            .matchers
            .iter()
            .map(|(name, value)| {
                json!({ "name": name, "value": value, "isRegex": true, "isEqual": true })
            })
            .collect();
        json!({
            "matchers": matchers,
            "startsAt": from.to_string(),
            "endsAt": until.to_string(),
            "createdBy": CREATOR,
            "comment": self.comment,
        })
    }
}

/// Silences of the control plane's upgrade that are missing. One that has expired counts: it is not
/// created a second time.
pub fn missing_of_control_plane(
    version: &str,
    criticals: &[String],
    known: &[KnownSilence],
) -> Vec<WantedSilence> {
    let comment = format!("Silence for {CONTROL_PLANE} upgrade to version {version}");
    let mut wanted = vec![WantedSilence::usual(comment)];
    if !criticals.is_empty() {
        wanted.push(WantedSilence {
            comment: format!(
                "Silence for critical alerts during {CONTROL_PLANE} upgrade to version {version}"
            ),
            matchers: vec![("alertname", format!("({})", criticals.join("|")))],
        });
    }
    wanted.retain(|wanted| known.iter().all(|known| known.comment != wanted.comment));
    wanted
}

/// What is to be done about the silence of workers of which so many are pending.
pub fn change_of_workers(version: &str, pending: u32, known: &[KnownSilence]) -> SilenceChange {
    let upgrade = format!("Silence for {WORKERS} upgrade to version {version}");
    let wanted = format!("{upgrade} with remaining {pending} nodes");
    let of_upgrade = |known: &&KnownSilence| {
        let text = known.comment.split(" with").next();
        known.is_active() && text == Some(upgrade.as_str())
    };
    let mut active = known.iter().filter(of_upgrade);
    if active.clone().any(|known| known.comment == wanted) {
        return SilenceChange {
            replaced: None,
            created: None,
        };
    }
    SilenceChange {
        replaced: active.next().map(|known| known.id.clone()),
        created: Some(WantedSilence::usual(wanted)),
    }
}

/// Ids of this operator's silences of a kind that are in force.
pub fn to_remove(kind: SilenceKind, known: &[KnownSilence]) -> Vec<String> {
    let part = match kind {
        SilenceKind::ControlPlane => CONTROL_PLANE,
        SilenceKind::Workers => WORKERS,
    };
    let ours = known
        .iter()
        .filter(|known| known.is_ours() && known.comment.contains(part));
    ours.map(|known| known.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{START, at};

    fn known(id: &str, comment: &str, state: &str) -> KnownSilence {
        KnownSilence {
            id: id.to_owned(),
            created_by: CREATOR.to_owned(),
            comment: comment.to_owned(),
            status: SilenceStatus {
                state: state.to_owned(),
            },
        }
    }

    const PLANE: &str = "Silence for OSD control plane upgrade to version 4.16.4";
    const THREE: &str =
        "Silence for OSD worker node upgrade to version 4.16.4 with remaining 3 nodes";

    #[test]
    fn silence_of_the_control_plane_is_created_once() {
        let criticals = ["A".to_owned(), "B".to_owned()];
        let missing = missing_of_control_plane("4.16.4", &criticals, &[]);
        let comments: Vec<&str> = missing
            .iter()
            .map(|silence| silence.comment.as_str())
            .collect();
        let critical =
            "Silence for critical alerts during OSD control plane upgrade to version 4.16.4";
        assert_eq!(comments, [PLANE, critical]);
        assert_eq!(missing[1].matchers, [("alertname", "(A|B)".to_owned())]);
        for state in ["active", "pending", "expired"] {
            let missing = missing_of_control_plane("4.16.4", &[], &[known("1", PLANE, state)]);
            assert_eq!(missing, []);
        }
        let other = [known("1", PLANE, "active")];
        assert_eq!(missing_of_control_plane("4.16.5", &[], &other).len(), 1);
    }

    #[test]
    fn silence_of_workers_follows_how_many_are_pending() {
        let change = |pending, known: &[KnownSilence]| {
            let change = change_of_workers("4.16.4", pending, known);
            let created = change.created.map(|silence| silence.comment);
            (change.replaced, created.is_some())
        };
        assert_eq!(change(3, &[]), (None, true));
        assert_eq!(change(3, &[known("1", THREE, "active")]), (None, false));
        assert_eq!(
            change(2, &[known("1", THREE, "active")]),
            (Some("1".to_owned()), true)
        );
        // A count that comes a second time is silenced a second time.
        assert_eq!(change(3, &[known("1", THREE, "expired")]), (None, true));
        assert_eq!(change(3, &[known("1", PLANE, "active")]), (None, true));
    }

    #[test]
    fn only_our_own_silences_in_force_are_removed() {
        let mut foreign = known("4", THREE, "active");
        "admin".clone_into(&mut foreign.created_by);
        let all = [
            known("1", PLANE, "active"),
            known("2", THREE, "active"),
            known("3", THREE, "expired"),
            foreign,
        ];
        assert_eq!(to_remove(SilenceKind::ControlPlane, &all), ["1"]);
        assert_eq!(to_remove(SilenceKind::Workers, &all), ["2"]);
    }

    #[test]
    fn body_is_that_of_alertmanager() {
        let silence = &missing_of_control_plane("4.16.4", &[], &[])[0];
        let expected = json!({
            "matchers": [
                { "name": "severity", "value": "(warning|info)", "isRegex": true, "isEqual": true },
                {
                    "name": "namespace", "value": "(^openshift.*|^kube.*|^redhat.*|^default$)",
                    "isRegex": true, "isEqual": true
                },
            ],
            "startsAt": "2027-01-15T08:00:00Z",
            "endsAt": "2027-01-15T09:30:00Z",
            "createdBy": "managed-upgrade-operator",
            "comment": PLANE,
        });
        assert_eq!(silence.to_body(START, at(90)), expected);
        assert!(KnownSilence::parse_all(b"{}").is_err());
    }
}
