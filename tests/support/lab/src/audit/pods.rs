//! Evictions, and the readiness of a set of pods over time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{Event, Verb, Version, at, is_condition_true, text};

/// One attempt to evict a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// When it was asked for.
    pub received: Timestamp,
    /// When it was answered.
    pub at: Timestamp,
    /// Who asked.
    pub user: String,
    /// Which program, as it says itself.
    pub user_agent: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// HTTP status: 201 evicted, 429 refused by a budget, 404 gone already, 403 not allowed.
    pub code: u16,
    /// Why it was refused; empty if it was not.
    pub message: String,
    /// `deleteOptions.gracePeriodSeconds` as asked for; none means the pod's own.
    pub grace_secs: Option<i64>,
}

/// All attempts to evict, in the order answered. A dry run is none.
pub fn evictions(events: &[Event]) -> Vec<Eviction> {
    let mut evictions: Vec<Eviction> = events.iter().filter_map(eviction).collect();
    evictions.sort_by_key(|eviction| eviction.at);
    evictions
}

fn eviction(event: &Event) -> Option<Eviction> {
    let object = event.object.as_ref()?;
    let status = event.status.as_ref()?;
    let is_eviction = event.concerns("", "pods")
        && object.subresource == "eviction"
        && event.verb == Verb::Create
        && !event.uri.contains("dryRun=");
    let refusal = event
        .response
        .as_ref()
        .map(|body| text(at(body, "/message")));
    let grace = event
        .request
        .as_ref()
        .map(|body| at(body, "/deleteOptions/gracePeriodSeconds"));
    is_eviction.then(|| Eviction {
        received: event.received,
        at: event.at,
        user: event.user.username.clone(),
        user_agent: event.user_agent.clone(),
        namespace: object.namespace.clone(),
        pod: object.name.clone(),
        code: status.code,
        message: refusal
            .filter(|text| !text.is_empty())
            .unwrap_or(&status.message)
            .to_owned(),
        grace_secs: grace.and_then(Value::as_i64),
    })
}

/// How many pods of `namespace` that carry the label were ready, and since when: one step a change,
/// from none.
///
/// A pod counts while its condition `Ready` is `True` and it is not being deleted, as a
/// PodDisruptionBudget counts it. It begins to when the write that says so was received, and ends
/// to when the one that ends it was answered: a few milliseconds in favour of the programs that are
/// judged, for which no dip is seen where a ready pod let another one go.
pub fn ready(events: &[Event], namespace: &str, label: (&str, &str)) -> Vec<(Timestamp, usize)> {
    let mut steps = Vec::new();
    for Life { states, evicted } in lives(events, namespace, label).into_values() {
        let mut counted = false;
        for (is_ready, event) in states.into_values() {
            match (counted, is_ready) {
                (false, true) => steps.push((event.received, 1_isize)),
                (true, false) => steps.push((evicted.map_or(event.at, |at| at.min(event.at)), -1)),
                (true, true) | (false, false) => {}
            }
            counted = is_ready;
        }
        // The pod was not written since.
        steps.extend(evicted.filter(|_| counted).map(|at| (at, -1)));
    }
    // Of steps at the same moment those up come first, for the same reason.
    steps.sort_by_key(|(at, step)| (*at, -step));
    let mut count = 0_usize;
    steps
        .into_iter()
        .map(|(at, step)| {
            count = count.saturating_add_signed(step);
            (at, count)
        })
        .collect()
}

/// What is known of one pod.
#[derive(Debug, Default)]
struct Life<'a> {
    /// Whether it counts as ready, by the writes to it in order.
    states: BTreeMap<Version, (bool, &'a Event)>,
    /// When the response to its eviction came. That carries no object and no version; what is
    /// written to the pod afterwards carries its deletion.
    evicted: Option<Timestamp>,
}

/// Lives of the pods that carry the label, by uid.
fn lives<'a>(
    events: &'a [Event],
    namespace: &str,
    (key, value): (&str, &str),
) -> BTreeMap<String, Life<'a>> {
    let mut lives = BTreeMap::<String, Life<'a>>::new();
    let mut uids = BTreeMap::<String, String>::new();
    for event in events.iter().filter(|event| event.concerns("", "pods")) {
        let Some((pod, version)) = event
            .written("Pod")
            .and_then(|pod| Some((pod, Version::of(pod)?)))
        else {
            continue;
        };
        let metadata = at(pod, "/metadata");
        // Not by pointer: a label's key has slashes.
        let label = at(metadata, "/labels").get(key).and_then(Value::as_str);
        if text(at(metadata, "/namespace")) != namespace || label != Some(value) {
            continue;
        }
        let uid = text(at(metadata, "/uid")).to_owned();
        let is_going = event.verb == Verb::Delete || !at(metadata, "/deletionTimestamp").is_null();
        let is_ready = is_condition_true(pod, "Ready") && !is_going;
        uids.insert(text(at(metadata, "/name")).to_owned(), uid.clone());
        // A delete may answer with the version last written: of the two it is the later.
        lives
            .entry(uid)
            .or_default()
            .states
            .insert(version, (is_ready, event));
    }
    for event in events.iter().filter(|event| event.succeeded()) {
        let Some(eviction) = eviction(event).filter(|eviction| eviction.namespace == namespace)
        else {
            continue;
        };
        // By name, because the response has no uid. A name that comes again is a StatefulSet's, of
        // which the later life would be cut short; the lab counts Deployments.
        if let Some(life) = uids.get(&eviction.pod).and_then(|uid| lives.get_mut(uid)) {
            life.evicted = Some(eviction.at);
        }
    }
    lives
}
