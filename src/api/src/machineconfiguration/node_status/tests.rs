use super::*;

fn read(annotations: &[(&str, &str)]) -> NodeStatus {
    let annotations = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    NodeStatus::read(&annotations)
}

/// In force, assigned, and the reported state.
fn node(current: &str, desired: &str, state: &str) -> NodeStatus {
    read(&[
        (annotation::CURRENT_CONFIG, current),
        (annotation::DESIRED_CONFIG, desired),
        (annotation::STATE, state),
    ])
}

fn layered(config: &str, image: &str) -> Target {
    Target {
        config: config.to_owned(),
        image: Some(image.to_owned()),
    }
}

#[test]
fn every_annotation_is_read_into_its_field() {
    let text = |text: &str| Some(text.to_owned());
    let second = |second| Some(Reading::Known(Timestamp::constant(second, 0)));
    let status = read(&[
        (annotation::CURRENT_CONFIG, "a"),
        (annotation::DESIRED_CONFIG, "b"),
        (annotation::CURRENT_IMAGE, "image-a"),
        (annotation::DESIRED_IMAGE, "image-b"),
        (annotation::STATE, "Degraded"),
        (annotation::REASON, "it broke"),
        (annotation::FAILED_IN, "Held b"),
        (annotation::PHASE, "RollingBack"),
        (annotation::SINCE, "1970-01-01T00:00:01.000Z"),
        (annotation::WAITS_FOR, "a pod"),
        (annotation::POST_CONFIG_ACTION, "Rebooting"),
        (annotation::DESIRED_DRAIN, "drain-b"),
        (annotation::LAST_APPLIED_DRAIN, "uncordon-a"),
        (annotation::DRAIN_SINCE, "1970-01-01T00:00:02Z"),
        (annotation::CORDONED_BY, "1-0"),
        (annotation::RETRY, "c"),
        (annotation::NEXT_CONFIG, "d image-d"),
        (annotation::NEXT_BYTES_PER_SECOND, "20000000"),
        (annotation::FETCHED, "e two images"),
        (annotation::NOT_FETCHED, "f: 503"),
        (annotation::DESIRED_PINS, "edge=2.0a1b2c3d"),
        (annotation::CURRENT_PINS, "edge"),
        (annotation::NOT_PINNED, "NoRoom: 5 bytes lack"),
        (annotation::CONTROL_PLANE_TOPOLOGY, "SingleReplica"),
    ]);
    let expected = NodeStatus {
        current_config: text("a"),
        desired_config: text("b"),
        current_image: text("image-a"),
        desired_image: text("image-b"),
        state: Some(Reading::Known(NodeState::Degraded)),
        reason: "it broke".to_owned(),
        failed_in: Some(Reading::Known(FailedIn {
            phase: PhaseName::Held,
            target: Target::of_config("b"),
        })),
        phase: Some(Reading::Known(PhaseName::RollingBack)),
        since: second(1),
        waits_for: text("a pod"),
        is_rebooting: true,
        desired_drain: Some(Reading::Known(DrainRequest::Drain("b".to_owned()))),
        last_applied_drain: Some(Reading::Known(DrainRequest::Uncordon("a".to_owned()))),
        drain_since: second(2),
        cordoned_by: text("1-0"),
        retry: text("c"),
        next: Some(Reading::of("d image-d", Target::parse)),
        next_bytes_per_second: NonZeroU64::new(20_000_000).map(Reading::Known),
        fetched: Some(Reading::of("e two images", Target::parse)),
        not_fetched: text("f: 503"),
        desired_pins: Some(Reading::of("edge=2.0a1b2c3d", PinList::parse)),
        current_pins: Some(Reading::Unknown("edge".to_owned())),
        not_pinned: Some(Reading::of("NoRoom: 5 bytes lack", NotPinned::parse)),
        topology: text("SingleReplica"),
    };
    assert_eq!(status, expected);
}

#[test]
fn empty_annotations_count_as_absent_except_where_presence_counts() {
    let absent = read(&[]);
    assert_eq!(absent, NodeStatus::default());
    for key in [
        annotation::CURRENT_CONFIG,
        annotation::DESIRED_CONFIG,
        annotation::CURRENT_IMAGE,
        annotation::DESIRED_IMAGE,
        annotation::STATE,
        annotation::REASON,
        annotation::PHASE,
        annotation::WAITS_FOR,
        annotation::POST_CONFIG_ACTION,
        annotation::DESIRED_DRAIN,
        annotation::LAST_APPLIED_DRAIN,
        annotation::RETRY,
        annotation::NEXT_CONFIG,
        annotation::FETCHED,
        annotation::NEXT_BYTES_PER_SECOND,
        annotation::DESIRED_PINS,
        annotation::CURRENT_PINS,
        annotation::NOT_PINNED,
        annotation::CONTROL_PLANE_TOPOLOGY,
    ] {
        assert_eq!(read(&[(key, "")]), absent, "{key}");
    }
    for key in [
        annotation::SINCE,
        annotation::DRAIN_SINCE,
        annotation::CORDONED_BY,
    ] {
        assert_ne!(read(&[(key, "")]), absent, "{key}");
    }
}

#[test]
fn unknown_values_are_kept() {
    let status = read(&[
        (annotation::STATE, "Rebooting"),
        (annotation::PHASE, "Dreaming"),
        (annotation::SINCE, "yesterday"),
        (annotation::DESIRED_DRAIN, "evict-b"),
        (annotation::LAST_APPLIED_DRAIN, "drained"),
        (annotation::DRAIN_SINCE, "12:00"),
        (annotation::POST_CONFIG_ACTION, "Resting"),
    ]);
    let kept = |text: &str| text.to_owned();
    assert_eq!(status.state, Some(Reading::Unknown(kept("Rebooting"))));
    assert_eq!(status.phase, Some(Reading::Unknown(kept("Dreaming"))));
    assert_eq!(status.since, Some(Reading::Unknown(kept("yesterday"))));
    assert_eq!(status.drain_since, Some(Reading::Unknown(kept("12:00"))));
    let drains = (status.desired_drain, status.last_applied_drain);
    let unknown = |text: &str| Some(Reading::Unknown(kept(text)));
    assert_eq!(drains, (unknown("evict-b"), unknown("drained")));
    assert!(!status.is_rebooting);
}

#[test]
fn absent_state_is_done_and_unknown_is_working() {
    let table = [
        ("", NodeState::Done),
        ("Done", NodeState::Done),
        ("Working", NodeState::Working),
        ("Degraded", NodeState::Degraded),
        ("Unreconcilable", NodeState::Unreconcilable),
        ("done", NodeState::Working),
        ("Rebooting", NodeState::Working),
    ];
    for (text, state) in table {
        assert_eq!(read(&[(annotation::STATE, text)]).state(), state, "{text}");
    }
}

#[test]
fn done_pending_and_failing_follow_configs_and_state() {
    // Current, desired, state; done, pending, failing.
    let table = [
        ("a", "a", "Done", true, false, false),
        ("a", "a", "", true, false, false),
        ("", "", "Done", false, false, false),
        ("a", "b", "Done", false, true, false),
        ("a", "b", "Working", false, true, false),
        ("a", "b", "Degraded", false, true, true),
        ("a", "b", "Unreconcilable", false, true, true),
        ("a", "a", "Degraded", false, false, false),
        ("a", "", "Done", false, true, false),
        ("", "b", "Done", false, true, false),
        ("a", "a", "of a newer daemon", false, false, false),
    ];
    for (current, desired, state, done, pending, failing) in table {
        let node = node(current, desired, state);
        assert_eq!(
            (node.is_done(), node.has_pending_target(), node.is_failing()),
            (done, pending, failing),
            "{current} to {desired}, {state}"
        );
    }
}

#[test]
fn layered_image_is_part_of_the_target() {
    let (plain, built) = (Target::of_config("a"), layered("a", "image"));
    let assigned = NodeStatus {
        desired_image: built.image.clone(),
        ..node("a", "a", "Done")
    };
    assert!(assigned.has_pending_target() && !assigned.is_done());
    assert!(assigned.is_assigned_to(&built) && !assigned.is_assigned_to(&plain));
    assert_eq!(assigned.current(), Some(plain.clone()));
    let failing = NodeStatus {
        state: node("a", "a", "Degraded").state,
        ..assigned.clone()
    };
    assert!(failing.is_failing(), "only the image is another");
    let reached = NodeStatus {
        current_image: assigned.desired_image.clone(),
        ..assigned
    };
    assert!(reached.is_done() && reached.is_updated(&built) && !reached.is_updated(&plain));
    assert_eq!(reached.current(), Some(built));
    assert!(node("a", "a", "Done").is_updated(&plain));
    assert!(!node("a", "a", "Done").is_updated(&Target::of_config("b")));
    assert_eq!(node("", "a", "Done").current(), None);
}

#[test]
fn only_known_phases_past_the_drain_are_past_it() {
    let is_past = |phase| read(&[(annotation::PHASE, phase)]).is_past_drain();
    for phase in PhaseName::ALL {
        assert_eq!(is_past(phase.as_str()), phase.is_past_drain(), "{phase}");
    }
    assert!(!is_past("") && !is_past("ApplyingTwice"));
}

#[test]
fn drain_is_under_way_from_its_start_until_it_is_applied() {
    const START: &str = "1970-01-01T00:00:01Z";
    // Desired, last applied, since; asked for, under way.
    let table = [
        ("drain-b", "", START, true, true),
        ("drain-b", "uncordon-a", START, true, true),
        ("drain-b", "drain-b", START, true, false),
        ("drain-b", "drain-a", START, true, true),
        ("drain-a", "", START, false, false),
        ("uncordon-b", "", START, false, false),
        ("b", "", START, false, false),
    ];
    for (desired, applied, since, requested, under_way) in table {
        let mut status = read(&[
            (annotation::DESIRED_DRAIN, desired),
            (annotation::LAST_APPLIED_DRAIN, applied),
            (annotation::DRAIN_SINCE, since),
        ]);
        let found = (status.is_to_drain_for("b"), status.is_draining_for("b"));
        assert_eq!(found, (requested, under_way), "{desired} {applied}");
        status.drain_since = None;
        assert!(!status.is_draining_for("b"), "{desired} {applied}");
    }
}

#[test]
fn drain_requests_are_parsed_as_they_are_printed() {
    for text in ["drain-rendered-a-1", "uncordon-rendered-a-1", "drain-"] {
        let request = DrainRequest::parse(text).unwrap();
        assert_eq!(request.to_string(), text);
    }
    for text in ["", "drain", "Drain-a", "cordon-a"] {
        assert_eq!(DrainRequest::parse(text), None, "{text}");
    }
}

#[test]
fn release_names_the_assigned_configuration() {
    for (retry, desired, is_released) in [
        ("b", "b", true),
        ("a", "b", false),
        ("", "b", false),
        ("", "", false),
    ] {
        let keys = [
            (annotation::RETRY, retry),
            (annotation::DESIRED_CONFIG, desired),
        ];
        assert_eq!(read(&keys).is_released(), is_released, "{retry} {desired}");
    }
}

#[test]
fn a_failure_counts_as_the_configurations_only_after_it_was_applied() {
    for (failed_in, desired, expected) in [
        ("Held b", "b", true),
        ("Verifying b", "b", true),
        ("Applying b", "b", false),
        ("Fetching b", "b", false),
        // Of another configuration or image, unknown, malformed, and of one that runs.
        ("Held b image", "b", false),
        ("Held b image more", "b", false),
        ("Held c", "b", false),
        ("Landing b", "b", false),
        ("b", "b", false),
        ("", "b", false),
        ("Held b", "a", false),
    ] {
        let status = read(&[
            (annotation::CURRENT_CONFIG, "a"),
            (annotation::DESIRED_CONFIG, desired),
            (annotation::STATE, "Degraded"),
            (annotation::FAILED_IN, failed_in),
        ]);
        let of_b = status.has_failed_past_apply(&Target::of_config("b"));
        assert_eq!(of_b, expected, "{failed_in:?}");
    }
    for target in [
        Target::of_config("rendered-worker-1"),
        layered("rendered-worker-1", "registry:5000/os@sha256:0"),
    ] {
        let phase = PhaseName::Fetching;
        let failed_in = FailedIn { phase, target };
        assert_eq!(FailedIn::parse(&failed_in.to_string()), Some(failed_in));
    }
}
