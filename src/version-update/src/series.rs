//! Series of the version operator's metrics that follow from objects: labels and a value.

use api::ConditionStatus;
use api::config::{
    ClusterCondition, ClusterConditionType, ClusterVersion, HistoryEntry, HistoryState,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::risk::Exposure;

/// Name under which the ClusterVersion stands among operators.
pub const VERSION: &str = "version";

/// Names and values of labels.
pub type SeriesLabels<const N: usize> = [(&'static str, String); N];

fn seconds(time: &Time) -> i64 {
    time.0.as_second()
}

pub fn releases(object: &ClusterVersion) -> Vec<(SeriesLabels<4>, i64)> {
    let status = object.status.clone().unwrap_or_default();
    let history = &status.history;
    let is_completed = |entry: &&HistoryEntry| entry.state == HistoryState::Completed;
    let completed = history.iter().find(is_completed);
    let from = completed.map(|entry| entry.version.clone());
    let from = from.unwrap_or_default();
    let series = |r#type: &str, version: &str, image: &str, from: &str, value: i64| {
        let labels: SeriesLabels<4> = [
            ("type", r#type.to_owned()),
            ("version", version.to_owned()),
            ("image", image.to_owned()),
            ("from_version", from.to_owned()),
        ];
        (labels, value)
    };
    let mut all = Vec::new();
    let desired = &status.desired;
    let head = history.first();
    let since = head.map_or(0, |head| seconds(&head.started_time));
    all.push(series(
        "current",
        &desired.version,
        &desired.image,
        &from,
        since,
    ));
    let initial = history.last();
    if let (Some(created), Some(initial)) = (&object.metadata.creation_timestamp, initial) {
        let (version, image) = (&initial.version, &initial.image);
        all.push(series("cluster", version, image, "", seconds(created)));
        let began = seconds(&initial.started_time);
        all.push(series("initial", version, image, "", began));
    }
    if let Some(entry) = completed {
        let before = history.iter().skip_while(|one| *one != entry).skip(1);
        let before = before.clone().find(is_completed);
        let before = before.map_or("", |one| one.version.as_str());
        let ended = entry.completion_time.as_ref().map_or(0, seconds);
        let (version, image) = (&entry.version, &entry.image);
        all.push(series("completed", version, image, before, ended));
    }
    let update = object.spec.desired_update.as_ref();
    if let Some(update) = update.filter(|update| update.image != desired.image) {
        all.push(series("desired", &update.version, &update.image, &from, 0));
    }
    let updating = head.filter(|head| head.state != HistoryState::Completed);
    if let Some(head) = updating {
        let (version, image) = (&head.version, &head.image);
        let value = seconds(&head.started_time);
        all.push(series("updating", version, image, &from, value));
    }
    let mut conditions = status.conditions.iter();
    let failing = conditions.find(|one| one.r#type == ClusterConditionType::Failing);
    if let Some(failing) = failing.filter(|one| one.status == ConditionStatus::True) {
        let value = seconds(&failing.last_transition_time);
        let (version, image) = (&desired.version, &desired.image);
        all.push(series("failure", version, image, &from, value));
    }
    all
}

/// How many updates are recommended; none before they were retrieved. `upstream` is empty for the
/// default service.
pub fn available(object: &ClusterVersion, upstream: &str) -> Option<(SeriesLabels<2>, i64)> {
    let updates = object.status.as_ref()?.available_updates.as_ref()?;
    let upstream = if upstream.is_empty() {
        "<default>"
    } else {
        upstream
    };
    let labels = [
        ("upstream", upstream.to_owned()),
        ("channel", object.spec.channel.clone()),
    ];
    Some((labels, i64::try_from(updates.len()).unwrap_or(i64::MAX)))
}

/// Whether each capability is enabled.
pub fn capabilities(object: &ClusterVersion) -> Vec<(SeriesLabels<1>, i64)> {
    let status = object.status.clone().unwrap_or_default();
    let enabled = status.capabilities.enabled_capabilities;
    let listed = status.capabilities.known_capabilities.into_iter();
    let series = listed.map(|name| {
        let is_enabled = enabled.contains(&name);
        ([("name", name)], i64::from(is_enabled))
    });
    series.collect()
}

/// Since when each condition of a conditional update holds, in Unix seconds.
pub fn conditional(object: &ClusterVersion) -> Vec<(SeriesLabels<4>, i64)> {
    let updates = object.status.iter();
    let updates = updates.flat_map(|status| &status.conditional_updates);
    let series = updates.flat_map(|update| {
        update.conditions.iter().map(|one| {
            let labels = [
                ("version", update.release.version.clone()),
                ("condition", one.r#type.as_str().to_owned()),
                ("status", one.status.to_string()),
                ("reason", one.reason.clone()),
            ];
            (labels, seconds(&one.last_transition_time))
        })
    });
    series.collect()
}

/// Whether a risk applies: 1, 0, or -1 where it is unknown.
pub fn risk((name, exposure): (&String, &Exposure)) -> (SeriesLabels<3>, i64) {
    let (value, reason) = match exposure {
        Exposure::Exposed => (1, "Match"),
        Exposure::Clear => (0, "NotMatch"),
        Exposure::Unknown(_) | Exposure::Pending => (-1, "EvaluationFailed"),
    };
    let labels = [
        ("condition", "Applies".to_owned()),
        ("risk", name.clone()),
        ("reason", reason.to_owned()),
    ];
    (labels, value)
}

/// Whether the version operator is available, by ClusterVersion.
pub fn up_of_version(object: Option<&ClusterVersion>) -> (SeriesLabels<3>, i64) {
    let Some(object) = object else {
        let labels = labels_of(VERSION, "", "ClusterVersionNotFound");
        return (labels, 0);
    };
    let status = object.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.iter();
    let available = conditions.find(|one| one.r#type == ClusterConditionType::Available);
    up_of(VERSION, &status.desired.version, available)
}

/// Whether an operator is available.
pub fn up_of(
    name: &str,
    version: &str,
    available: Option<&ClusterCondition>,
) -> (SeriesLabels<3>, i64) {
    let reason = available.map_or("NoAvailableCondition", |one| one.reason.as_str());
    let is_up = available.is_some_and(|one| one.status == ConditionStatus::True);
    (labels_of(name, version, reason), i64::from(is_up))
}

fn labels_of(name: &str, version: &str, reason: &str) -> SeriesLabels<3> {
    [
        ("name", name.to_owned()),
        ("version", version.to_owned()),
        ("reason", reason.to_owned()),
    ]
}

/// A condition that is True or False, as 1 or 0.
pub fn condition(name: &str, one: &ClusterCondition) -> Option<(SeriesLabels<3>, i64)> {
    let value = match one.status {
        ConditionStatus::True => 1,
        ConditionStatus::False => 0,
        ConditionStatus::Unknown => return None,
    };
    let labels = [
        ("name", name.to_owned()),
        ("condition", one.r#type.as_str().to_owned()),
        ("reason", one.reason.clone()),
    ];
    Some((labels, value))
}
