//! Run levels of the release that is rolled out, as ClusterVersion and the ClusterOperators show
//! them. Pure.

use api::ConditionStatus;
use api::config::{ClusterConditionType, ClusterOperator, ClusterVersionStatus, HistoryState};
use observer::release::ReleaseUpdate;

/// State of a component's run level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LevelState {
    Pending,
    Working,
    Done,
}

/// A component of the release, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LevelRow {
    pub(crate) run_level: String,
    pub(crate) component: String,
    pub(crate) state: LevelState,
    pub(crate) waits_for: String,
}

impl LevelRow {
    /// What stands above the nodes: a mark, run level, component, and what it waits for.
    pub(crate) fn note(&self) -> String {
        let mark = match self.state {
            LevelState::Pending => ' ',
            LevelState::Working => '\u{25b8}',
            LevelState::Done => '\u{2713}',
        };
        let Self {
            run_level,
            component,
            waits_for,
            ..
        } = self;
        let note = format!("{mark} {run_level}  {component:<24}  {waits_for}");
        note.trim_end().to_owned()
    }
}

/// A component of the release.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part<'a> {
    run_level: &'a str,
    component: &'a str,
    /// What it reports by, if it does.
    operator: Option<&'a str>,
}

/// What the version operator says of its progress.
pub(crate) fn progress(status: &ClusterVersionStatus) -> &str {
    let progressing = status.condition(&ClusterConditionType::Progressing);
    progressing.map_or("", |condition| condition.message.as_str())
}

/// Whether the release is completed.
pub(crate) fn is_completed(status: &ClusterVersionStatus, version: &str) -> bool {
    let newest = status.history.first();
    newest.is_some_and(|it| it.version == version && it.state == HistoryState::Completed)
}

/// One row for each component, in the order of run levels.
///
/// A component that reports is done when it does; another when a later run level was begun.
pub(crate) fn rows(
    update: &ReleaseUpdate,
    status: &ClusterVersionStatus,
    operators: &[ClusterOperator],
) -> Vec<LevelRow> {
    let version = update.version.as_str();
    let parts = parts(update);
    let reported = |part: &Part<'_>| part.operator.and_then(|name| find(operators, name));
    let is_completed = is_completed(status, version);
    let is_begun = |part: &Part<'_>| {
        reported(part)
            .is_some_and(|operator| is_at(operator, version) || towards(operator, version))
    };
    let begun = parts.iter().filter(|part| is_begun(part));
    let reached = begun.map(|part| part.run_level).max();
    let is_done = |part: &Part<'_>| match reported(part) {
        Some(operator) => is_at(operator, version),
        None => reached.is_some_and(|reached| part.run_level < reached),
    };
    let undone = parts.iter().find(|part| !is_done(part));
    let working = undone.map(|part| part.run_level);
    let row = |part: &Part<'_>| {
        let state = match () {
            () if is_completed || is_done(part) => LevelState::Done,
            () if working == Some(part.run_level) => LevelState::Working,
            () => LevelState::Pending,
        };
        let says = match (state, reported(part)) {
            (LevelState::Working, Some(operator)) if is_progressing(operator) => says(operator),
            (LevelState::Working, _) => progress(status),
            (LevelState::Pending | LevelState::Done, _) => "",
        };
        LevelRow {
            run_level: part.run_level.to_owned(),
            component: part.component.to_owned(),
            state,
            waits_for: says.to_owned(),
        }
    };
    parts.iter().map(row).collect()
}

/// The components, after the version operator itself.
fn parts(update: &ReleaseUpdate) -> Vec<Part<'_>> {
    let mut parts = vec![Part {
        run_level: "00",
        component: "cluster-version-operator",
        operator: None,
    }];
    for manifest in &update.manifests {
        let (run_level, component) = (manifest.run_level.as_str(), manifest.component.as_str());
        let operator = manifest.is_operator().then_some(manifest.name.as_str());
        let known = parts
            .iter_mut()
            .find(|part| (part.run_level, part.component) == (run_level, component));
        match known {
            Some(part) => part.operator = part.operator.or(operator),
            None => parts.push(Part {
                run_level,
                component,
                operator,
            }),
        }
    }
    parts
}

fn find<'a>(operators: &'a [ClusterOperator], name: &str) -> Option<&'a ClusterOperator> {
    let mut all = operators.iter();
    all.find(|operator| operator.metadata.name.as_deref() == Some(name))
}

/// Whether an operator is at a version.
pub(crate) fn is_at(operator: &ClusterOperator, version: &str) -> bool {
    let status = operator.status.as_ref();
    status.and_then(|status| status.version("operator")) == Some(version)
}

/// Whether it says that it is on its way to a version.
fn towards(operator: &ClusterOperator, version: &str) -> bool {
    is_progressing(operator) && says(operator).contains(version)
}

fn is_progressing(operator: &ClusterOperator) -> bool {
    let status = operator.status.as_ref();
    let condition = status.and_then(|it| it.condition(&ClusterConditionType::Progressing));
    condition.is_some_and(|condition| condition.status == ConditionStatus::True)
}

fn says(operator: &ClusterOperator) -> &str {
    let status = operator.status.as_ref();
    let condition = status.and_then(|it| it.condition(&ClusterConditionType::Progressing));
    condition.map_or("", |condition| condition.message.as_str())
}

#[cfg(test)]
mod tests {
    use observer::release::ReleaseManifest;
    use serde_json::json;

    use super::*;

    fn update() -> ReleaseUpdate {
        let manifest = |run_level: &str, component: &str, resource: &str| ReleaseManifest {
            file: String::new(),
            run_level: run_level.to_owned(),
            component: component.to_owned(),
            api_group: "config.openshift.io".to_owned(),
            resource: resource.to_owned(),
            namespace: String::new(),
            name: component.to_owned(),
            is_as_before: false,
        };
        ReleaseUpdate {
            version: "1.0.1".to_owned(),
            image: String::new(),
            start: jiff::Timestamp::UNIX_EPOCH,
            manifests: vec![
                manifest("20", "alpha", "others"),
                manifest("20", "alpha", "clusteroperators"),
                manifest("50", "beta", "clusteroperators"),
                manifest("90", "delta", "others"),
            ],
        }
    }

    fn operator(name: &str, version: &str, progress: &str) -> ClusterOperator {
        let is_progressing = if progress.is_empty() { "False" } else { "True" };
        let object = json!({ "metadata": { "name": name }, "spec": {}, "status": {
            "versions": [{ "name": "operator", "version": version }],
            "conditions": [{ "type": "Progressing", "status": is_progressing, "message": progress,
                             "lastTransitionTime": "2026-01-02T03:04:05Z" }],
        } });
        serde_json::from_value(object).unwrap()
    }

    fn shown(state: &str, operators: &[ClusterOperator]) -> Vec<String> {
        let status = json!({
            "history": [{ "version": "1.0.1", "state": state, "image": "", "verified": true,
                          "startedTime": "2026-01-02T03:04:05Z" }],
            "conditions": [{ "type": "Progressing", "status": "True", "message": "Working",
                             "lastTransitionTime": "2026-01-02T03:04:05Z" }],
        });
        let status = serde_json::from_value(status).unwrap();
        let rows = rows(&update(), &status, operators).into_iter();
        rows.map(|row| format!("{} {:?} {}", row.run_level, row.state, row.waits_for))
            .collect()
    }

    #[test]
    fn a_note_is_a_mark_a_level_a_component_and_what_it_waits_for() {
        let mut row = LevelRow {
            run_level: "50".into(),
            component: "beta".into(),
            state: LevelState::Working,
            waits_for: "its pod".into(),
        };
        let expected = format!("\u{25b8} 50  beta{:22}its pod", "");
        assert_eq!(row.note(), expected);
        row.state = LevelState::Done;
        row.waits_for.clear();
        assert_eq!(row.note(), "\u{2713} 50  beta");
    }

    #[test]
    fn the_first_level_that_is_not_done_is_the_one_that_works() {
        let old = || operator("beta", "1.0.0", "");
        assert_eq!(
            shown("Partial", &[operator("alpha", "1.0.0", ""), old()]),
            [
                "00 Working Working",
                "20 Pending ",
                "50 Pending ",
                "90 Pending "
            ]
        );
        let on_its_way = operator("alpha", "1.0.0", "working towards 1.0.1");
        assert_eq!(
            shown("Partial", &[on_its_way, old()]),
            [
                "00 Done ",
                "20 Working working towards 1.0.1",
                "50 Pending ",
                "90 Pending "
            ]
        );
        let done = || operator("alpha", "1.0.1", "");
        assert_eq!(
            shown("Partial", &[done(), old()]),
            ["00 Done ", "20 Done ", "50 Working Working", "90 Pending "]
        );
        let all = [done(), operator("beta", "1.0.1", "")];
        assert_eq!(
            shown("Partial", &all),
            ["00 Done ", "20 Done ", "50 Done ", "90 Working Working"]
        );
        assert_eq!(
            shown("Completed", &all),
            ["00 Done ", "20 Done ", "50 Done ", "90 Done "]
        );
    }
}
