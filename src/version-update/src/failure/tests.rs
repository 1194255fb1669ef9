use super::*;

fn operator(name: &str, suffix: &str, effect: Effect) -> Failure {
    Failure::operator(name, suffix, effect)
}

#[test]
fn operators_with_one_reason_are_one_and_others_stay() {
    assert_eq!(summarize(&[]), None);
    let one = summarize(&[operator("b", "NotAvailable", Effect::Fail)]).unwrap();
    assert_eq!(one.reason, "ClusterOperatorNotAvailable");
    assert_eq!(one.message, "Cluster operator b is not available");
    assert_eq!(one.summary, "the cluster operator b is not available");
    let two = [
        operator("b", "Degraded", Effect::Report),
        operator("a", "Degraded", Effect::FailAfterInterval),
    ];
    let merged = summarize(&two).unwrap();
    assert_eq!(merged.reason, "ClusterOperatorsDegraded");
    assert_eq!(merged.message, "Cluster operators a, b are degraded");
    assert_eq!(merged.effect, Some(Effect::FailAfterInterval));
}

/// Several errors are reported by name, and `Failing` agrees with `Progressing`. Row 4 of
/// `docs/reference/known-weaknesses.md`, "Version operator".
#[test]
fn several_errors_name_their_members() {
    let failures = [
        operator("b", "Updating", Effect::None),
        Failure {
            summary: "the server is rejecting updates".to_owned(),
            ..Failure::update(
                "secret \"n/s\" (1 of 9)",
                "the server has forbidden updates to this resource (no)",
            )
        },
        operator("a", "NotAvailable", Effect::Fail),
        operator("c", "NotAvailable", Effect::Fail),
    ];
    let all = summarize(&failures).unwrap();
    assert_eq!((all.reason.as_str(), all.effect), ("MultipleErrors", None));
    let lines: Vec<&str> = all.message.lines().collect();
    assert_eq!(
        lines,
        [
            "Multiple errors are preventing progress:",
            "* Cluster operator b is updating versions",
            "* Cluster operators a, c are not available",
            "* Could not update secret \"n/s\" (1 of 9): the server has forbidden updates to this resource (no)",
        ]
    );
    let verdict = judge(Some(&all), &BTreeMap::new(), Timestamp::UNIX_EPOCH);
    let (reason, message) = verdict.failing.unwrap();
    assert_eq!(reason, "MultipleErrors");
    assert!(!message.contains("updating versions"), "{message}");
    assert_eq!(
        verdict.summary,
        "some cluster operators are not available, the server is rejecting updates"
    );
}

#[test]
fn waiting_becomes_slow_and_degraded_becomes_failing() {
    let now: Timestamp = "2025-01-01T12:00:00Z".parse().unwrap();
    let before = |minutes| now - SignedDuration::from_mins(minutes);
    let pending = BTreeMap::from([
        ("a".to_owned(), before(31)),
        ("b".to_owned(), before(29)),
        ("machine-config".to_owned(), before(89)),
        ("late".to_owned(), before(41)),
    ]);
    let text = |failures: &[Failure]| {
        let verdict = judge(summarize(failures).as_ref(), &pending, now);
        let failing = verdict.failing.map(|(_, message)| message);
        (
            failing,
            verdict.slow.is_some(),
            verdict.waiting.map(|(_, text)| text),
            verdict.summary,
        )
    };
    let updating = |name: &str| operator(name, "Updating", Effect::None);
    let degraded = |name: &str| operator(name, "Degraded", Effect::FailAfterInterval);
    let waiting = |text: &str| Some(text.to_owned());
    assert_eq!(text(&[]), (None, false, None, String::new()));
    assert_eq!(
        text(&[updating("machine-config"), updating("b")]),
        (
            None,
            false,
            waiting("waiting on b, machine-config"),
            String::new()
        )
    );
    assert_eq!(
        text(&[updating("a"), updating("b")]),
        (
            None,
            true,
            waiting("waiting on a over 30 minutes which is longer than expected"),
            String::new()
        )
    );
    // Only `Failing` says by its reason that it takes long.
    let verdict = judge(summarize(&[updating("a")]).as_ref(), &pending, now);
    let reason = |found: Option<(String, String)>| found.map(|(reason, _)| reason);
    assert_eq!(reason(verdict.slow).as_deref(), Some("SlowClusterOperator"));
    assert_eq!(
        reason(verdict.waiting).as_deref(),
        Some("ClusterOperatorUpdating")
    );
    assert_eq!(
        text(&[degraded("a")]),
        (
            None,
            false,
            waiting("waiting up to 40 minutes on a"),
            String::new()
        )
    );
    // An operator without a clock counts as late.
    for name in ["late", "unknown"] {
        assert_eq!(
            text(&[degraded("a"), degraded(name)]),
            (
                Some(format!("Cluster operators a, {name} are degraded")),
                false,
                None,
                format!("wait has exceeded 40 minutes for these operators: {name}")
            )
        );
    }
    let (failing, slow, waiting, _) =
        text(&[updating("b"), operator("c", "Updating", Effect::None)]);
    assert_eq!(
        (failing, slow, waiting.as_deref()),
        (None, false, Some("waiting on b, c"))
    );
}

/// What an operator says, since when it is waited for, and the manifest that waits. Row 3 of
/// `docs/reference/known-weaknesses.md`, "Version operator".
#[test]
fn operator_that_is_waited_for_is_said_with_its_cause() {
    let now: Timestamp = "2025-01-01T12:00:00Z".parse().unwrap();
    let since = now - SignedDuration::from_mins(10);
    let pending = |names: &[&str]| -> BTreeMap<String, Timestamp> {
        names
            .iter()
            .map(|name| ((*name).to_owned(), since))
            .collect()
    };
    let manifest = "clusteroperator \"machine-config\" (8 of 9)";
    let message = "Working towards 4.2.0: pool master has updated 1 of 3 nodes";
    let waits = operator("machine-config", "Updating", Effect::None).with_detail(manifest, message);
    let text = |failures: &[Failure], pending: &BTreeMap<String, Timestamp>, now| {
        let verdict = judge(summarize(failures).as_ref(), pending, now);
        verdict.waiting.unwrap().1
    };
    let cause = format!("({manifest} since 2025-01-01T11:50:00Z: {message})");
    let waits = [waits];
    assert_eq!(
        text(&waits, &pending(&["machine-config"]), now),
        format!("waiting on machine-config {cause}")
    );
    assert_eq!(
        text(
            &waits,
            &pending(&["machine-config"]),
            now + SignedDuration::from_mins(90)
        ),
        format!("waiting on machine-config over 90 minutes which is longer than expected {cause}")
    );
    let silent = operator("b", "Degraded", Effect::FailAfterInterval).with_detail("b (1 of 9)", "");
    assert_eq!(
        text(&[silent], &pending(&["b"]), now),
        "waiting up to 40 minutes on b (b (1 of 9) since 2025-01-01T11:50:00Z)"
    );
    let long = operator("b", "Updating", Effect::None).with_detail("m", &"x".repeat(999));
    assert_eq!(long.detail.unwrap().message.len(), MESSAGE_MAX);
}

/// A rollout is waited for without a failure, and not for ever. Row 19 of
/// `docs/reference/known-weaknesses.md`, "Version operator".
#[test]
fn rollout_is_no_failure_before_its_deadline() {
    let now: Timestamp = "2025-01-01T12:00:00Z".parse().unwrap();
    let task = "deployment \"n/d\" (3 of 9)";
    let rolls = Failure {
        subject: FailureSubject::Workload("deployment \"n/d\"".to_owned()),
        ..Failure::rollout(task, "n/d", "is rolling out")
    };
    let since = |minutes| -> BTreeMap<String, Timestamp> {
        let since = now - SignedDuration::from_mins(minutes);
        [("deployment \"n/d\"".to_owned(), since)].into()
    };
    let judged = |minutes| {
        let pending = since(minutes);
        let aged = aged(vec![rolls.clone()], &pending, now);
        judge(summarize(&aged).as_ref(), &pending, now)
    };
    let early = judged(40);
    assert_eq!(early.failing, None);
    assert_eq!(
        early.waiting.unwrap().1,
        format!("waiting: {task} is rolling out")
    );
    let late = judged(41);
    assert_eq!(
        late.failing,
        Some((
            "WorkloadNotProgressing".to_owned(),
            format!("{task} is rolling out for more than 40 minutes")
        ))
    );
    assert_eq!(
        late.summary,
        "the workload n/d has not yet successfully rolled out"
    );
    // An operator has its own limits.
    let operator = operator("a", "Updating", Effect::None);
    let pending = since(99);
    assert_eq!(aged(vec![operator.clone()], &pending, now), [operator]);
}
