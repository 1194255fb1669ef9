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
    Workers,
}

/// A silence that Alertmanager has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedSilence {
    pub id: String,
    #[serde(default)]
    pub created_by: String,
    #[serde(default)]
    pub comment: String,
    /// From when on it is in force.
    #[serde(default)]
    pub starts_at: Option<Timestamp>,
    /// Whether it is in force.
    pub status: SilenceStatus,
}

/// Whether a silence is in force.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SilenceStatus {
    /// `active`, `pending` or `expired`.
    pub state: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedSilence {
    pub comment: String,
    /// Which alerts it covers: label and regular expression.
    pub matchers: Vec<(&'static str, String)>,
}

/// What is to be done so that workers' alerts are silenced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilenceChange {
    /// Ids of silences that are replaced.
    pub replaced: Vec<String>,
    /// The silence to create, if it is not there.
    pub created: Option<WantedSilence>,
}

impl ListedSilence {
    /// Reads the response to `GET silences`.
    ///
    /// # Errors
    /// Why it is no list of silences.
    pub fn parse_all(body: &[u8]) -> Result<Vec<Self>, serde_json::Error> {
        serde_json::from_slice(body)
    }

    /// Whether it is in force, or will be: where clocks differ, one that was just created is
    /// `pending`.
    fn is_open(&self) -> bool {
        self.status.state != "expired"
    }

    fn is_ours(&self) -> bool {
        self.created_by == CREATOR
    }

    /// Whether it is this operator's for the workers of an upgrade.
    fn is_of_workers(&self, version: &str) -> bool {
        let upgrade = workers_of(version);
        let rest = self.comment.strip_prefix(upgrade.as_str());
        self.is_ours() && rest.is_some_and(|rest| rest.starts_with(" with"))
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
    listed: &[ListedSilence],
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
    let ours = || listed.iter().filter(|silence| silence.is_ours());
    wanted.retain(|wanted| ours().all(|silence| silence.comment != wanted.comment));
    wanted
}

fn workers_of(version: &str) -> String {
    format!("Silence for {WORKERS} upgrade to version {version}")
}

/// What is to be done about the silence of workers of which so many are pending. One that has run
/// out while their number stayed is not created again: alerts show that they are stuck.
pub fn change_of_workers(version: &str, pending: u32, listed: &[ListedSilence]) -> SilenceChange {
    let wanted = format!("{} with remaining {pending} nodes", workers_of(version));
    let last = last_of_workers(version, listed);
    let is_there = last.is_some_and(|last| last.comment == wanted);
    let of_upgrade = listed
        .iter()
        .filter(|silence| silence.is_of_workers(version));
    let others = of_upgrade.filter(|silence| silence.is_open() && silence.comment != wanted);
    let replaced = others.map(|silence| silence.id.clone()).collect();
    SilenceChange {
        replaced,
        created: (!is_there).then(|| WantedSilence::usual(wanted)),
    }
}

/// Whether workers take longer than the silence of their alerts lasts. Where none was needed, none
/// has run out.
pub fn has_run_out(version: &str, listed: &[ListedSilence]) -> bool {
    let mut of_upgrade = listed
        .iter()
        .filter(|silence| silence.is_of_workers(version));
    let is_open = of_upgrade.any(ListedSilence::is_open);
    !is_open && last_of_workers(version, listed).is_some()
}

/// The silence of workers that was created last. Of those that start at once one in force counts.
fn last_of_workers<'a>(version: &str, listed: &'a [ListedSilence]) -> Option<&'a ListedSilence> {
    let of_upgrade = listed
        .iter()
        .filter(|silence| silence.is_of_workers(version));
    of_upgrade.max_by_key(|silence| (silence.starts_at, silence.is_open()))
}

/// Ids of this operator's silences of a kind that are in force, or will be.
pub fn to_remove(kind: SilenceKind, listed: &[ListedSilence]) -> Vec<String> {
    let part = match kind {
        SilenceKind::ControlPlane => CONTROL_PLANE,
        SilenceKind::Workers => WORKERS,
    };
    let ours = listed
        .iter()
        .filter(|silence| silence.is_ours() && silence.is_open() && silence.comment.contains(part));
    ours.map(|silence| silence.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{START, at};

    fn silence(id: &str, comment: &str, state: &str) -> ListedSilence {
        ListedSilence {
            id: id.to_owned(),
            created_by: CREATOR.to_owned(),
            comment: comment.to_owned(),
            starts_at: None,
            status: SilenceStatus {
                state: state.to_owned(),
            },
        }
    }

    fn begun(minute: i64, silence: ListedSilence) -> ListedSilence {
        ListedSilence {
            starts_at: Some(at(minute)),
            ..silence
        }
    }

    const PLANE: &str = "Silence for OSD control plane upgrade to version 4.16.4";
    const THREE: &str =
        "Silence for OSD worker node upgrade to version 4.16.4 with remaining 3 nodes";
    const TWO: &str =
        "Silence for OSD worker node upgrade to version 4.16.4 with remaining 2 nodes";

    /// One in force that an administrator made.
    fn foreign(id: &str, comment: &str) -> ListedSilence {
        ListedSilence {
            created_by: "admin".to_owned(),
            ..silence(id, comment, "active")
        }
    }

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
            let missing = missing_of_control_plane("4.16.4", &[], &[silence("1", PLANE, state)]);
            assert_eq!(missing, []);
        }
        let of_another = [foreign("1", PLANE)];
        assert_eq!(
            missing_of_control_plane("4.16.4", &[], &of_another).len(),
            1
        );
        let other = [silence("1", PLANE, "active")];
        assert_eq!(missing_of_control_plane("4.16.5", &[], &other).len(), 1);
    }

    #[test]
    fn silence_of_workers_follows_how_many_are_pending() {
        let change = |pending, listed: &[ListedSilence]| {
            let change = change_of_workers("4.16.4", pending, listed);
            let created = change.created.map(|silence| silence.comment);
            (change.replaced.join(","), created.is_some())
        };
        let nothing = (String::new(), false);
        let created = |replaced: &str| (replaced.to_owned(), true);
        assert_eq!(change(3, &[]), created(""));
        for state in ["active", "pending"] {
            assert_eq!(change(3, &[silence("1", THREE, state)]), nothing);
            assert_eq!(change(2, &[silence("1", THREE, state)]), created("1"));
        }
        // One that has run out without progress stays out.
        assert_eq!(change(3, &[silence("1", THREE, "expired")]), nothing);
        // A count that comes a second time is silenced a second time.
        let back = [
            begun(0, silence("1", THREE, "expired")),
            begun(5, silence("2", TWO, "active")),
        ];
        assert_eq!(change(3, &back), created("2"));
        assert_eq!(change(3, &[silence("1", PLANE, "active")]), created(""));
        assert_eq!(change(3, &[foreign("1", THREE)]), created(""));
        let twice = [
            silence("1", THREE, "active"),
            silence("2", THREE, "pending"),
            foreign("3", THREE),
        ];
        assert_eq!(change(2, &twice), created("1,2"));
        // The end of the former one failed.
        let both = [
            begun(0, silence("1", THREE, "active")),
            begun(5, silence("2", TWO, "active")),
        ];
        assert_eq!(change(2, &both), ("1".to_owned(), false));
    }

    #[test]
    fn workers_take_too_long_once_their_silence_has_run_out() {
        let table = [
            (vec![], false),
            (vec![silence("1", PLANE, "expired")], false),
            (vec![silence("1", THREE, "active")], false),
            (vec![silence("1", THREE, "pending")], false),
            (vec![silence("1", THREE, "expired")], true),
            (vec![foreign("1", THREE)], false),
            (
                vec![silence("1", THREE, "expired"), foreign("2", THREE)],
                true,
            ),
            (
                vec![silence("1", THREE, "expired"), silence("2", TWO, "active")],
                false,
            ),
        ];
        for (listed, expected) in table {
            assert_eq!(has_run_out("4.16.4", &listed), expected, "{listed:?}");
            assert!(!has_run_out("4.16.40", &listed));
        }
    }

    #[test]
    fn only_our_own_silences_that_have_not_ended_are_removed() {
        let all = [
            silence("1", PLANE, "active"),
            silence("2", THREE, "active"),
            silence("3", THREE, "expired"),
            foreign("4", THREE),
            silence("5", TWO, "pending"),
        ];
        assert_eq!(to_remove(SilenceKind::ControlPlane, &all), ["1"]);
        assert_eq!(to_remove(SilenceKind::Workers, &all), ["2", "5"]);
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
        assert!(ListedSilence::parse_all(b"{}").is_err());
        // As Alertmanager 0.27 returns it, with fewer fields.
        let body =
            br#"[{ "id": "1", "createdBy": "a", "comment": "b", "status": { "state": "active" },
            "startsAt": "2027-01-15T08:00:00.000Z", "endsAt": "2027-01-15T09:30:00.000Z" }]"#;
        let found = ListedSilence::parse_all(body).unwrap();
        assert_eq!(found[0].starts_at, Some(START));
    }
}
