use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::fixture;
use api::machineconfiguration::BuildHold;

/// Whether the API takes a status after another.
///
/// Source: `machineosbuilds.machineconfiguration.openshift.io`, `x-kubernetes-validations` of
/// `status`.
pub(crate) fn check(before: &MachineOsBuildStatus, after: &MachineOsBuildStatus) {
    let json = |status: &MachineOsBuildStatus| serde_json::to_value(status).unwrap();
    let (old, new) = (json(before), json(after));
    for set_once in ["buildStart", "buildEnd"] {
        assert!(
            old[set_once].is_null() || old[set_once] == new[set_once],
            "{set_once}: {new}"
        );
    }
    if let Some(end) = &after.build_end {
        let start = after
            .build_start
            .as_ref()
            .expect("buildEnd needs buildStart");
        assert!(start.0 < end.0, "{new}");
    }
    let is_final = |condition: &Value| {
        ["Failed", "Interrupted", "Succeeded"].contains(&condition["type"].as_str().unwrap())
            && condition["status"] == "True"
    };
    if before
        .conditions
        .iter()
        .any(|it| is_final(&serde_json::to_value(it).unwrap()))
    {
        assert_eq!(old["conditions"], new["conditions"]);
    }
    assert!(after.conditions.len() <= 8);
    for condition in &after.conditions {
        assert!(!condition.reason.is_empty() && condition.message.len() <= 32768);
        assert!(condition.reason.bytes().all(|c| c.is_ascii_alphanumeric()));
    }
    if let Some(builder) = &after.builder {
        assert_eq!(builder.image_builder_type == "Job", builder.job.is_some());
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::new(second, 700_000_000).unwrap()
}

fn change() -> impl Strategy<Value = BuildChange> {
    let time = || proptest::option::of((0_i64..100).prop_map(at));
    let image = || "quay.io/os@sha256:0".to_owned();
    prop_oneof![
        Just(BuildChange::Prepared),
        time().prop_map(|started| BuildChange::Building { started }),
        proptest::sample::select(BuildHold::ALL.to_vec()).prop_map(|hold| {
            let message = "0/3 nodes".to_owned();
            BuildChange::Held(PodHold { hold, message })
        }),
        time().prop_map(move |ended| BuildChange::Succeeded {
            image: image(),
            ended
        }),
        Just(BuildChange::Reused {
            image: image(),
            of: "worker-0".to_owned()
        }),
        time().prop_map(|ended| BuildChange::Failed {
            message: "m".to_owned(),
            ended
        }),
        Just(BuildChange::Interrupted),
    ]
}

proptest! {
    #[test]
    fn the_api_takes_each_change(changes in proptest::collection::vec((change(), 0_i64..100), 0..6)) {
        let mut build = fixture::build("worker-1", "rendered-worker-1", "c");
        for (change, now) in changes {
            let was_final = build.phase().is_final();
            let before = build.status.clone().unwrap_or_default();
            let Some(after) = changed(&build, &change, at(now)) else {
                prop_assert!(was_final);
                continue;
            };
            prop_assert!(!was_final);
            check(&before, &after);
            // The API keeps whole seconds, which changes nothing.
            let stored = serde_json::to_value(&after).unwrap();
            let stored: MachineOsBuildStatus = serde_json::from_value(stored).unwrap();
            prop_assert_eq!(&stored.build_start, &after.build_start);
            prop_assert_eq!(&stored.build_end, &after.build_end);
            let holding = after.conditions.iter();
            let holding = holding.filter(|it| it.status == ConditionStatus::True).count();
            prop_assert_eq!(holding, 1);
            build.status = Some(after);
        }
    }
}

#[test]
fn a_build_goes_from_phase_to_phase() {
    let mut build = fixture::build("worker-1", "rendered-worker-1", "c");
    let image = "quay.io/os@sha256:0".to_owned();
    let started = Some(at(10));
    for (change, phase) in [
        (BuildChange::Prepared, BuildPhase::Prepared),
        (BuildChange::Building { started }, BuildPhase::Building),
        (
            BuildChange::Succeeded {
                image,
                ended: Some(at(10)),
            },
            BuildPhase::Succeeded,
        ),
    ] {
        build.status = Some(changed(&build, &change, at(20)).unwrap());
        assert_eq!(build.phase(), phase);
    }
    let status = build.status.clone().unwrap();
    assert_eq!(status.build_start.unwrap().0.as_second(), 10);
    assert_eq!(status.build_end.unwrap().0.as_second(), 11);
    assert_eq!(status.builder.unwrap().job.unwrap().name, "build-worker-1");
    assert_eq!(changed(&build, &BuildChange::Interrupted, at(30)), None);
}

#[test]
fn a_reused_image_was_built_at_no_time() {
    let build = fixture::build("worker-1", "rendered-worker-1", "c");
    let change = BuildChange::Reused {
        image: "quay.io/os@sha256:0".to_owned(),
        of: "worker-0".to_owned(),
    };
    let status = changed(&build, &change, at(20)).unwrap();
    assert_eq!(
        (&status.build_start, &status.build_end, &status.builder),
        (&None, &None, &None)
    );
    let succeeded = api::condition::find(&status.conditions, &BuildConditionType::Succeeded);
    assert_eq!(
        succeeded.unwrap().message,
        "its content is that of worker-0, and so is its image"
    );
}
