use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn risk(name: &str, rules: Vec<RiskRule>) -> UpdateRisk {
    UpdateRisk {
        url: format!("https://e/{name}"),
        name: name.to_owned(),
        message: format!("{name} breaks."),
        rules,
    }
}

fn promql(query: &str) -> RiskRule {
    RiskRule::PromQl(query.to_owned())
}

fn offers(risks: Vec<UpdateRisk>) -> Offers {
    let node = UpdateNode {
        payload: "q/r@sha256:1".to_owned(),
        metadata: [
            ("url", "https://e"),
            (CHANNELS, "b,,a"),
            (ARCHITECTURE, "multi"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
    };
    Offers {
        current: UpdateNode::default(),
        offers: vec![Offer {
            version: "4.2.1".parse().unwrap(),
            node,
            risks,
        }],
        dropped: Vec::new(),
    }
}

/// What a status has that was made for the same spec.
fn stored(conditional: &[ConditionalUpdate]) -> KnownUpdates<'_> {
    KnownUpdates {
        conditional,
        is_current: true,
    }
}

fn recommended(cache: &QueryCache, risks: Vec<UpdateRisk>) -> (String, usize) {
    let (available, conditional) =
        updates(&offers(risks), cache, stored(&[]), &BTreeSet::new(), at(0));
    let one = &conditional[0].conditions[0];
    (
        format!("{} {}: {}", one.status, one.reason, one.message),
        available.len(),
    )
}

#[test]
fn recommendation_follows_from_the_exposures() {
    let mut cache = QueryCache::default();
    cache.store("yes", Ok(true), at(0));
    cache.store("no", Ok(false), at(0));
    cache.store("bad", Err("no route".to_owned()), at(0));
    let (yes, no, bad) = (promql("yes"), promql("no"), promql("bad"));
    let one = |risks: Vec<UpdateRisk>| recommended(&cache, risks);
    let (shown, available) = one(vec![risk("A", vec![no.clone()])]);
    assert!(
        shown.starts_with("True NotExposedToRisks: ") && available == 1,
        "{shown}"
    );
    assert_eq!(
        one(vec![risk("A", vec![yes.clone()])]),
        ("False A: A breaks. https://e/A".to_owned(), 0)
    );
    let shown = one(vec![
        risk("A", vec![RiskRule::Always]),
        risk("B", vec![yes.clone()]),
    ])
    .0;
    assert_eq!(
        shown,
        "False MultipleReasons: A breaks. https://e/A\n\nB breaks. https://e/B"
    );
    let shown = one(vec![
        risk("A-b", vec![yes.clone()]),
        risk("C", vec![bad.clone()]),
    ])
    .0;
    assert!(
        shown.starts_with("False ExposedToRisks: A-b breaks."),
        "{shown}"
    );
    let shown = one(vec![
        risk("A", vec![bad.clone()]),
        risk("B", vec![no.clone()]),
    ])
    .0;
    assert_eq!(
        shown,
        "Unknown EvaluationFailed: Could not evaluate exposure to update risk A (no route)\n  A description: A breaks.\n  A URL: https://e/A"
    );
    // The first rule that can be evaluated decides; one without a result is waited for.
    assert_eq!(
        cache.exposure(&risk("A", vec![bad, yes, no])),
        Exposure::Exposed
    );
    let waiting = risk("A", vec![promql("new"), RiskRule::Always]);
    assert_eq!(cache.exposure(&waiting), Exposure::Pending);
    let shown = recommended(&cache, vec![waiting]).0;
    assert!(
        shown.starts_with("Unknown EvaluationFailed: Could not evaluate exposure to update risk A (evaluation is throttled)"),
        "{shown}"
    );
}

#[test]
fn releases_are_listed_with_what_the_graph_says() {
    let (available, conditional) = updates(
        &offers(Vec::new()),
        &QueryCache::default(),
        stored(&[]),
        &BTreeSet::new(),
        at(0),
    );
    assert!(conditional.is_empty());
    let release = &available[0];
    assert_eq!(release.channels, ["a", "b"]);
    assert_eq!(
        (release.url.as_str(), release.architecture.as_str()),
        ("https://e", "Multi")
    );
}

#[test]
fn transition_time_stays_with_the_status() {
    let cache = QueryCache::default();
    let risky = offers(vec![risk("A", vec![promql("q")])]);
    let (_, before) = updates(&risky, &cache, stored(&[]), &BTreeSet::new(), at(0));
    let time = |updates: &[ConditionalUpdate]| updates[0].conditions[0].last_transition_time.0;
    let (_, same) = updates(&risky, &cache, stored(&before), &BTreeSet::new(), at(9));
    assert_eq!(time(&same), at(0));
    let mut cache = cache;
    cache.store("q", Ok(true), at(10));
    let (_, changed) = updates(&risky, &cache, stored(&before), &BTreeSet::new(), at(10));
    assert_eq!(time(&changed), at(10));
}

/// After a start no query was sent yet, and what the process before found is no worse for it.
#[test]
fn what_the_process_before_found_stays_until_a_query_is_asked() {
    let risky = offers(vec![
        risk("A", vec![promql("q")]),
        risk("B", vec![promql("r")]),
    ]);
    let mut complete = QueryCache::default();
    complete.store("q", Ok(false), at(0));
    complete.store("r", Ok(false), at(0));
    let none = BTreeSet::new();
    let (_, before) = updates(&risky, &complete, stored(&[]), &none, at(0));
    let mut cache = QueryCache::default();
    for (query, result) in [(None, Ok(false)), (Some("q"), Ok(false))] {
        if let Some(query) = query {
            cache.store(query, result, at(5));
        }
        let (available, now) = updates(&risky, &cache, stored(&before), &none, at(5));
        assert_eq!((available.len(), &now), (1, &before));
    }
    // A result counts as soon as it is there.
    cache.store("q", Ok(true), at(6));
    let (available, now) = updates(&risky, &cache, stored(&before), &none, at(6));
    let shown = |updates: &[ConditionalUpdate]| {
        let one = &updates[0].conditions[0];
        format!("{} {}", one.status, one.reason)
    };
    assert_eq!(
        (available.len(), shown(&now).as_str()),
        (0, "False MultipleReasons")
    );
    // Another spec, another risk, and an acceptance that may be gone prove nothing.
    let cache = QueryCache::default();
    let open = (0, "Unknown EvaluationFailed");
    let stale = KnownUpdates {
        is_current: false,
        ..stored(&before)
    };
    let (available, now) = updates(&risky, &cache, stale, &none, at(7));
    assert_eq!((available.len(), shown(&now).as_str()), open);
    let other = offers(vec![
        risk("A", vec![promql("q")]),
        risk("C", vec![promql("r")]),
    ]);
    let (available, now) = updates(&other, &cache, stored(&before), &none, at(7));
    assert_eq!((available.len(), shown(&now).as_str()), open);
    let mut accepted = before.clone();
    accepted[0].conditions[0].reason = "AllExposedRisksAccepted".to_owned();
    let (available, now) = updates(&risky, &cache, stored(&accepted), &none, at(7));
    assert_eq!((available.len(), shown(&now).as_str()), open);
}

/// Queries wait for each other only a second. Row 14 of `docs/reference/known-weaknesses.md`,
/// "Version operator".
#[test]
fn queries_take_turns() {
    let mut cache = QueryCache::default();
    let wanted = ["a", "b"].map(str::to_owned);
    assert_eq!(cache.turn(&[], at(0)), QueryTurn::Nothing);
    assert_eq!(cache.turn(&wanted, at(0)), QueryTurn::Ask("a".to_owned()));
    cache.store("a", Ok(true), at(0));
    assert_eq!(cache.turn(&wanted, at(0)), QueryTurn::Wait(PAUSE));
    assert_eq!(cache.turn(&wanted, at(1)), QueryTurn::Ask("b".to_owned()));
    cache.store("b", Err("x".to_owned()), at(1));
    assert_eq!(
        cache.turn(&wanted, at(2)),
        QueryTurn::Wait(SignedDuration::from_secs(59))
    );
    assert_eq!(cache.turn(&wanted, at(61)), QueryTurn::Ask("b".to_owned()));
    cache.store("b", Ok(false), at(3599));
    assert_eq!(
        cache.turn(&wanted, at(3600)),
        QueryTurn::Ask("a".to_owned())
    );
    // A result that no query needs any more is dropped after a day.
    cache.store("c", Ok(true), at(24 * 3600 + 1));
    assert!(!cache.results.contains_key("a") && cache.results.contains_key("b"));
}

#[test]
fn queries_of_the_newest_release_come_first() {
    let mut all = offers(vec![
        risk("Z", vec![promql("z")]),
        risk("B", vec![promql("b"), promql("z")]),
    ]);
    let older = offers(vec![risk("A", vec![promql("a"), promql("b")])]).offers;
    all.offers.extend(older);
    assert_eq!(queries(&all), ["b", "z", "a"]);
}

#[test]
fn accepted_risks_recommend_an_update_and_are_recorded() {
    let mut cache = QueryCache::default();
    cache.store("yes", Ok(true), at(0));
    cache.store("no", Ok(false), at(0));
    let offers = offers(vec![
        risk("A", vec![promql("yes")]),
        risk("B", vec![promql("no")]),
        risk("C", vec![promql("unasked")]),
    ]);
    let accept = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    };
    let shown = |names: &[&str]| {
        let (available, conditional) = updates(&offers, &cache, stored(&[]), &accept(names), at(0));
        let one = &conditional[0].conditions[0];
        (available.len(), format!("{} {}", one.status, one.reason))
    };
    assert_eq!(shown(&[]), (0, "False MultipleReasons".to_owned()));
    assert_eq!(shown(&["A"]), (0, "Unknown EvaluationFailed".to_owned()));
    assert_eq!(shown(&["C"]), (0, "False A".to_owned()));
    assert_eq!(
        shown(&["A", "C"]),
        (1, "True AllExposedRisksAccepted".to_owned())
    );
    let recorded = |names: &[&str]| acceptance(&offers, "q/r@sha256:1", &cache, &accept(names));
    assert_eq!(
        recorded(&["C", "A", "B", "Z"]).unwrap(),
        "exposed to the risks [A,C] which were all explicitly accepted by the cluster administrator."
    );
    assert_eq!(recorded(&["B"]), None);
    assert_eq!(acceptance(&offers, "other", &cache, &accept(&["A"])), None);
}
