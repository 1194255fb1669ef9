//! A preflight: what would fail of another release is found before anything is changed.
//!
//! An administrator names a release in an annotation of the ClusterVersion; the outcome is another
//! annotation beside it. Nothing else is written.

use api::config::preflight::{PREFLIGHT, PREFLIGHT_RESULT, PreflightRecord, PreflightState};
use api::config::{ClusterVersion, Release, Update};

use crate::validation;

/// The outcome on a ClusterVersion; none where there is none that can be read.
pub fn outcome(object: &ClusterVersion) -> Option<PreflightRecord> {
    serde_json::from_str(annotation(object, PREFLIGHT_RESULT)?).ok()
}

fn annotation<'a>(object: &'a ClusterVersion, key: &str) -> Option<&'a str> {
    let annotations = object.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// What a ClusterVersion asks to be checked.
pub fn request(object: &ClusterVersion) -> Option<&str> {
    annotation(object, PREFLIGHT).filter(|request| !request.is_empty())
}

/// Whether a request has no outcome, not even that it is under way: an outcome that was removed is
/// written again.
pub fn is_open(object: &ClusterVersion) -> bool {
    request(object).is_some() && annotation(object, PREFLIGHT_RESULT).is_none()
}

/// What is to be done about the annotations of a ClusterVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreflightTurn {
    /// There is no request, or it has its outcome.
    Nothing,
    /// The outcome of a request that was removed goes, too.
    Remove,
    /// Another release is about to be applied: the preflight waits.
    Wait,
    Check(Release),
    /// The annotation names no release, for this reason.
    Refuse(String),
}

/// Decides from the ClusterVersion. `is_updating` says that another release than the applied one
/// is requested. A preflight whose process ended before it starts again.
pub fn turn(object: &ClusterVersion, own: &Release, is_updating: bool) -> PreflightTurn {
    let Some(request) = request(object) else {
        return match annotation(object, PREFLIGHT_RESULT) {
            Some(_) => PreflightTurn::Remove,
            None => PreflightTurn::Nothing,
        };
    };
    let has_ended = outcome(object)
        .is_some_and(|record| record.request == request && record.state != PreflightState::Running);
    if has_ended {
        return PreflightTurn::Nothing;
    }
    if is_updating {
        return PreflightTurn::Wait;
    }
    let is_image = request.contains(['/', '@']);
    let field = |is_it: bool| {
        if is_it {
            request.to_owned()
        } else {
            String::new()
        }
    };
    let update = Update {
        image: field(is_image),
        version: field(!is_image),
        ..Update::default()
    };
    match validation::select(object, &update, own) {
        Ok(release) => PreflightTurn::Check(release),
        Err(why) => PreflightTurn::Refuse(format!("annotation {PREFLIGHT}: {request:?}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn object(annotations: &[(&str, &str)]) -> ClusterVersion {
        let annotations: std::collections::BTreeMap<_, _> = annotations.iter().copied().collect();
        let status = json!({ "availableUpdates": [{ "version": "4.2.0", "image": "q/next" }] });
        let object = json!({
            "metadata": { "annotations": annotations },
            "spec": { "clusterID": "" }, "status": status
        });
        serde_json::from_value(object).unwrap()
    }

    fn own() -> Release {
        Release {
            version: "4.1.0".to_owned(),
            image: "q/own".to_owned(),
            ..Release::default()
        }
    }

    fn record(request: &str, state: PreflightState) -> String {
        let mut record = PreflightRecord::begin(request, &own(), Timestamp::UNIX_EPOCH);
        record.state = state;
        serde_json::to_string(&record).unwrap()
    }

    #[test]
    fn a_request_is_open_until_something_is_said_of_it() {
        for (annotations, is_it) in [
            (vec![], false),
            (vec![(PREFLIGHT, "4.2.0")], true),
            (vec![(PREFLIGHT, "")], false),
            (vec![(PREFLIGHT, "4.2.0"), (PREFLIGHT_RESULT, "{}")], false),
        ] {
            assert_eq!(is_open(&object(&annotations)), is_it, "{annotations:?}");
        }
    }

    #[test]
    fn a_request_is_answered_once_and_removed_with_its_answer() {
        let next = Release {
            version: "4.2.0".to_owned(),
            image: "q/next".to_owned(),
            ..Release::default()
        };
        let by_image = Release {
            image: "q/next@sha256:1".to_owned(),
            ..Release::default()
        };
        let failed = record("4.2.0", PreflightState::Failed);
        let running = record("4.2.0", PreflightState::Running);
        let check = || PreflightTurn::Check(next.clone());
        for (annotations, turn_expected) in [
            (vec![], PreflightTurn::Nothing),
            (vec![(PREFLIGHT, "")], PreflightTurn::Nothing),
            (vec![(PREFLIGHT, "4.2.0")], check()),
            (
                vec![(PREFLIGHT, "q/next@sha256:1")],
                PreflightTurn::Check(by_image),
            ),
            (
                vec![(PREFLIGHT, "4.2.0"), (PREFLIGHT_RESULT, &failed)],
                PreflightTurn::Nothing,
            ),
            // Its process ended; or another release is named, or what is there is no outcome.
            (
                vec![(PREFLIGHT, "4.2.0"), (PREFLIGHT_RESULT, &running)],
                check(),
            ),
            (
                vec![(PREFLIGHT, "4.1.0"), (PREFLIGHT_RESULT, &failed)],
                PreflightTurn::Check(own()),
            ),
            (
                vec![(PREFLIGHT, "4.2.0"), (PREFLIGHT_RESULT, "{}")],
                check(),
            ),
            (vec![(PREFLIGHT_RESULT, &failed)], PreflightTurn::Remove),
            (
                vec![(PREFLIGHT, "4.9.0")],
                PreflightTurn::Refuse(
                    "annotation slipway.dev/preflight: \"4.9.0\": when image is empty the update \
                     must be an available update"
                        .to_owned(),
                ),
            ),
        ] {
            let object = object(&annotations);
            assert_eq!(
                turn(&object, &own(), false),
                turn_expected,
                "{annotations:?}"
            );
        }
        let requested = object(&[(PREFLIGHT, "4.2.0")]);
        assert_eq!(turn(&requested, &own(), true), PreflightTurn::Wait);
    }
}
