use proptest::prelude::*;

use super::*;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + secs).unwrap()
}

fn waits(reason: &str) -> TaskState {
    TaskState::Waits {
        reason: reason.to_owned(),
        message: format!("{reason} of it"),
        since: None,
    }
}

/// Two manifests of `10 alpha`, one each of `20 beta` and `20 gamma`, in these states.
fn pass(version: &str, states: [TaskState; 4]) -> PassProgress {
    let places = [
        ("10", "alpha"),
        ("10", "alpha"),
        ("20", "beta"),
        ("20", "gamma"),
    ];
    let tasks = places.into_iter().zip(states).enumerate();
    let tasks = tasks.map(|(number, ((run_level, component), state))| TaskProgress {
        run_level: run_level.to_owned(),
        component: component.to_owned(),
        object: format!("configmap \"{number}\""),
        state,
    });
    PassProgress {
        version: version.to_owned(),
        image: format!("q/r@sha256:{version}"),
        tasks: tasks.collect(),
        is_typical: true,
        is_complete: false,
    }
}

/// Components by how far they are.
fn summary(record: &ProgressRecord) -> String {
    let steps = record.steps.iter().map(|step| {
        let state = match (step.started, step.ended) {
            (None, _) => "pending",
            (_, None) => "running",
            (_, Some(_)) => "done",
        };
        format!(
            "{} {state} {}/{}",
            step.component, step.done, step.manifests
        )
    });
    steps.collect::<Vec<_>>().join(", ")
}

use TaskState::{Done, Pending, Started};

#[test]
fn restart_keeps_what_is_done_and_since_when_it_waits() {
    let record = ProgressRecord::next(None, &pass("2", [Done, Started, Pending, Pending]), at(0));
    assert_eq!(
        summary(&record),
        "alpha running 1/2, beta pending 0/1, gamma pending 0/1"
    );
    let waiting = pass("2", [Done, Done, waits("Updating"), Done]);
    let record = ProgressRecord::next(Some(&record), &waiting, at(60));
    assert_eq!(
        summary(&record),
        "alpha done 2/2, beta running 0/1, gamma done 1/1"
    );
    assert_eq!(record.waits[0].since, at(60));

    // A new process begins at the first manifest, and has the record by its text.
    let stored = ProgressRecord::parse(&record.print()).unwrap();
    assert_eq!(stored, record);
    for states in [
        [Pending, Pending, Pending, Pending],
        [Started, Pending, Pending, Pending],
        [Done, Done, Started, Pending],
        [Done, Done, waits("Updating"), Pending],
    ] {
        let again = ProgressRecord::next(Some(&stored), &pass("2", states), at(90));
        assert_eq!(again, record);
    }
    // A later run level that waits does not undo an earlier one.
    let again = pass("2", [waits("Degraded"), Pending, Pending, Pending]);
    let again = ProgressRecord::next(Some(&stored), &again, at(90));
    assert_eq!(summary(&again), summary(&record));
    let since: Vec<_> = again
        .waits
        .iter()
        .map(|wait| (wait.component.as_str(), wait.since))
        .collect();
    assert_eq!(since, [("beta", at(60)), ("alpha", at(90))]);

    let complete = PassProgress {
        is_complete: true,
        ..pass("2", [Done, Done, Done, Done])
    };
    let record = ProgressRecord::next(Some(&again), &complete, at(120));
    assert_eq!(record.completed, Some(at(120)));
    assert_eq!(record.waits, []);
    // What is reconciled afterwards is no progress.
    let later = pass("2", [Done, waits("Degraded"), Pending, Pending]);
    assert_eq!(ProgressRecord::next(Some(&record), &later, at(600)), record);
}

/// An update by which `alpha` takes 60 s, `beta` so many and `gamma` 10 s.
fn update(before: Option<ProgressRecord>, version: &str, start: i64, beta: i64) -> ProgressRecord {
    let mut record = before;
    for (after, states) in [
        (0, [Started, Pending, Pending, Pending]),
        (60, [Done, Done, Started, Started]),
        (70, [Done, Done, waits("Updating"), Done]),
        (60 + beta, [Done, Done, Done, Done]),
    ] {
        let pass = PassProgress {
            is_complete: after == 60 + beta,
            ..pass(version, states)
        };
        record = Some(ProgressRecord::next(
            record.as_ref(),
            &pass,
            at(start + after),
        ));
    }
    record.unwrap()
}

/// What is waited for has its weight. Row 2 of `docs/reference/known-weaknesses.md`, "Version
/// operator".
#[test]
fn rest_is_estimated_by_earlier_runs_of_its_steps() {
    let mut record = None;
    for (number, beta) in [100, 300, 200].into_iter().enumerate() {
        let start = 10_000 * i64::try_from(number).unwrap();
        record = Some(update(record, &format!("1.{number}"), start, beta));
    }
    let record = record.unwrap();
    assert_eq!(record.steps[1].earlier_secs, [200, 300, 100]);
    assert_eq!(record.remaining(at(90_000)), None, "completed");

    let begun = pass("2", [Started, Pending, Pending, Pending]);
    let record = ProgressRecord::next(Some(&record), &begun, at(90_000));
    let remaining = record.remaining(at(90_010)).unwrap();
    assert_eq!(
        (
            remaining.secs,
            remaining.least_secs,
            remaining.most_secs,
            remaining.runs
        ),
        (50 + 200, 50 + 100, 50 + 300, 3)
    );
    let waiting = pass("2", [Done, Done, waits("Updating"), Done]);
    let record = ProgressRecord::next(Some(&record), &waiting, at(90_060));
    assert_eq!(record.remaining(at(90_160)).unwrap().secs, 100);
    let late = record.remaining(at(90_460)).unwrap();
    assert_eq!(
        (late.secs, late.overdue_secs, late.overdue.as_str()),
        (0, 100, "beta")
    );

    // Whatever the record says.
    let mut wrong = ProgressRecord::next(None, &begun, at(0));
    for step in &mut wrong.steps {
        step.earlier_secs = vec![u64::MAX];
    }
    assert_eq!(wrong.remaining(at(0)).unwrap().most_secs, u64::MAX);

    // A step that is new is counted, and too many of them are no estimate.
    let mut new = record;
    new.steps[1].earlier_secs.clear();
    assert_eq!(new.remaining(at(90_160)), None);
}

#[test]
fn only_typical_runs_are_learned_from() {
    let first = PassProgress {
        is_typical: false,
        is_complete: true,
        ..pass("1", [Done, Done, Done, Done])
    };
    let record = ProgressRecord::next(None, &first, at(0));
    assert!(record.steps.iter().all(|step| step.earlier_secs.is_empty()));
}

#[test]
fn runs_and_waits_are_bounded() {
    let mut record = None;
    for number in 0..10 {
        record = Some(update(record, &format!("1.{number}"), 1000 * number, 100));
    }
    assert_eq!(record.unwrap().steps[0].earlier_secs.len(), RUNS);
    let task = |number: usize| TaskProgress {
        run_level: "50".to_owned(),
        component: format!("component-{number}"),
        object: format!("clusteroperator \"{}\"", "o".repeat(300)),
        state: TaskState::Waits {
            reason: "r".repeat(1000),
            message: "m".repeat(10_000),
            since: None,
        },
    };
    let many = PassProgress {
        tasks: (0..1000).map(task).collect(),
        ..PassProgress::default()
    };
    let record = ProgressRecord::next(None, &many, at(0));
    assert_eq!((record.steps.len(), record.omitted_steps), (STEPS, 700));
    assert_eq!(record.waits.len(), WAITS);
    let size = record.print().len();
    assert!(size < 100_000, "{size} bytes");
}

#[test]
fn writes_are_rare() {
    let secs = Duration::from_secs;
    let first = ProgressRecord::next(None, &pass("2", [Done, Started, Pending, Pending]), at(0));
    assert!(first.is_due(None, None));
    assert!(!first.is_due(Some(&first), Some(secs(3600))));
    let step = pass("2", [Done, Done, Started, Pending]);
    let step = ProgressRecord::next(Some(&first), &step, at(1));
    assert!(!step.is_due(Some(&first), Some(secs(14))));
    assert!(step.is_due(Some(&first), Some(secs(15))));
    let mut text = first.clone();
    text.steps[0].done = 0;
    assert!(!first.is_due(Some(&text), Some(secs(60))));
    assert!(first.is_due(Some(&text), Some(secs(300))));
    let other = ProgressRecord::next(
        Some(&first),
        &pass("3", [Pending, Pending, Pending, Pending]),
        at(2),
    );
    assert!(other.is_due(Some(&first), Some(secs(0))));
}

fn any_state() -> impl Strategy<Value = TaskState> {
    prop_oneof![
        Just(Pending),
        Just(Started),
        Just(Done),
        Just(waits("Updating"))
    ]
}

proptest! {
    /// Over passes and restarts of one release in any order.
    #[test]
    fn progress_never_goes_backwards(
        passes in prop::collection::vec((prop::array::uniform4(any_state()), any::<bool>()), 1..20),
    ) {
        let mut stored: Option<ProgressRecord> = None;
        for (number, (states, is_restart)) in passes.into_iter().enumerate() {
            if let Some(record) = stored.as_ref().filter(|_| is_restart) {
                stored = Some(ProgressRecord::parse(&record.print()).unwrap());
            }
            let now = at(i64::try_from(number).unwrap());
            let next = ProgressRecord::next(stored.as_ref(), &pass("2", states), now);
            if let Some(before) = &stored {
                prop_assert!(next.ended() >= before.ended());
                for (after, before) in next.steps.iter().zip(&before.steps) {
                    prop_assert!(after.done >= before.done);
                    prop_assert!(before.started.is_none() || after.started == before.started);
                    prop_assert!(before.ended.is_none() || after.ended == before.ended);
                }
            }
            stored = Some(next);
        }
    }
}
