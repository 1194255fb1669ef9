//! Requests of a program to the API server, from the audit log. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use lab::audit::{Event, Stage, Verb};

/// A stretch of time, its end not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

impl Window {
    /// Whether a moment is in it.
    pub(crate) fn has(&self, at: Timestamp) -> bool {
        self.from <= at && at < self.until
    }

    /// Its length.
    pub(crate) fn secs(&self) -> f64 {
        self.until.duration_since(self.from).as_secs_f64()
    }
}

/// A program's requests that the API server received in a stretch of time, each with its last
/// event. Renewals of a lease are none: they cost the same whatever holds it.
///
/// Shape: `program` is what it calls itself, before the `/` of its user agent: the daemon shares
/// the kubelet's identity. The log is of a cluster in which one process is of that program.
pub(crate) fn requests<'a>(events: &'a [Event], program: &str, window: &Window) -> Vec<&'a Event> {
    let mut requests = BTreeMap::new();
    for event in events
        .iter()
        .filter(|event| is_of(event, program) && window.has(event.received))
    {
        requests.insert(event.audit_id.as_str(), event);
    }
    requests.into_values().collect()
}

fn is_of(event: &Event, program: &str) -> bool {
    event.user_agent.split('/').next() == Some(program)
        && !event.concerns("coordination.k8s.io", "leases")
}

/// How often each MachineConfig was read, at most.
pub(crate) fn most_reads_of_one_config(requests: &[&Event]) -> usize {
    let mut reads = BTreeMap::<&str, usize>::new();
    for request in requests {
        if let Some(object) = &request.object
            && object.resource == "machineconfigs"
            && request.verb == Verb::Get
        {
            *reads.entry(&object.name).or_default() += 1;
        }
    }
    reads.into_values().max().unwrap_or_default()
}

/// Attempts to evict a pod.
pub(crate) fn evictions(requests: &[&Event]) -> usize {
    let is_eviction = |event: &&&Event| {
        let object = event.object.as_ref();
        object.is_some_and(|object| object.subresource == "eviction")
    };
    requests.iter().filter(is_eviction).count()
}

/// Requests of an hour in which nothing happened: of an hour and more, what was seen.
///
/// From a shorter stretch of time they are reckoned: a watch counts as often as its own length goes
/// into an hour, whether it was opened in that time or before, and everything else as often as the
/// stretch does.
pub(crate) fn requests_of_an_hour(events: &[Event], program: &str, window: &Window) -> f64 {
    let hour = SignedDuration::from_hours(1).as_secs_f64();
    let seen = requests(events, program, window);
    if window.secs() >= hour {
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let seen = seen.len() as f64;
        return seen * hour / window.secs();
    }
    let others = seen
        .iter()
        .filter(|event| event.verb != Verb::Watch)
        .count();
    let renewals: f64 = watches(events, program, window)
        .into_iter()
        .map(|secs| hour / secs)
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    let others = others as f64;
    others * hour / window.secs() + renewals
}

/// Length of each watch in seconds, as the last request before the end of a stretch of time asked
/// for it. One that had ended before, such as a drain's, is not renewed.
fn watches(events: &[Event], program: &str, window: &Window) -> Vec<f64> {
    let has_ended = |event: &Event| {
        events.iter().any(|end| {
            end.audit_id == event.audit_id
                && end.stage == Stage::ResponseComplete
                && end.at < window.from
        })
    };
    let mut lengths = BTreeMap::new();
    for event in events
        .iter()
        .filter(|event| is_of(event, program) && event.verb == Verb::Watch && !has_ended(event))
    {
        if let Some(object) = &event.object
            && let Some(length) = timeout(&event.uri)
            && event.received < window.until
        {
            lengths.insert((&*event.user.username, &*object.resource), length);
        }
    }
    lengths.into_values().collect()
}

/// `timeoutSeconds` of a query.
fn timeout(uri: &str) -> Option<f64> {
    let (_, query) = uri.split_once('?')?;
    let value = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("timeoutSeconds="))?;
    value.parse().ok().filter(|secs| *secs > 0.0)
}

#[cfg(test)]
mod tests {
    use lab::audit;

    use super::*;

    /// An event as the lab's API server writes it, shortened.
    fn line(id: u32, second: i64, agent: &str, verb: &str, uri: &str, object: &str) -> String {
        let at = Timestamp::from_second(second).unwrap();
        format!(
            r#"{{"auditID":"{id}","stage":"ResponseComplete","requestURI":"{uri}","verb":"{verb}","user":{{"username":"system:node:a"}},"userAgent":"{agent}","objectRef":{object},"requestReceivedTimestamp":"{at}","stageTimestamp":"{at}"}}
"#
        )
    }

    fn events() -> Vec<Event> {
        let config = r#"{"resource":"machineconfigs","name":"rendered-a"}"#;
        let node = r#"{"resource":"nodes","name":"a"}"#;
        let eviction = r#"{"resource":"pods","name":"p","subresource":"eviction"}"#;
        let watch = "/api/v1/nodes?watch=true&timeoutSeconds=1800";
        let lease = r#"{"resource":"leases","apiGroup":"coordination.k8s.io","name":"l"}"#;
        let started = line(1, 10, "mcd/0.1", "watch", watch, node);
        let ended = Timestamp::from_second(115).unwrap();
        let ended = started.replace(
            &format!(
                r#""stageTimestamp":"{}""#,
                Timestamp::from_second(10).unwrap()
            ),
            &format!(r#""stageTimestamp":"{ended}""#),
        );
        let of_a_drain = "/api/v1/pods?watch=true&timeoutSeconds=200";
        let pods = r#"{"resource":"pods"}"#;
        let text = [
            started.replace("ResponseComplete", "ResponseStarted"),
            line(7, 15, "mcd/0.1", "watch", of_a_drain, pods),
            line(2, 11, "mcd/0.1", "get", "/x", config),
            line(3, 12, "lab-kubernetes/v1.36", "patch", "/x", node),
            line(4, 13, "mcd/0.1", "create", "/x", eviction),
            line(5, 14, "mcd/0.1", "get", "/x", config),
            ended,
            line(6, 110, "mcd/0.1", "patch", "/x", node),
            line(8, 50, "mcd/0.1", "update", "/x", lease),
        ];
        audit::parse(&text.concat()).unwrap()
    }

    fn window(from: i64, until: i64) -> Window {
        let at = |second| Timestamp::from_second(second).unwrap();
        Window {
            from: at(from),
            until: at(until),
        }
    }

    #[test]
    fn the_daemons_own_requests_are_counted_once_each() {
        let events = events();
        let requests = requests(&events, "mcd", &window(10, 110));
        assert_eq!(requests.len(), 5);
        assert_eq!(evictions(&requests), 1);
        assert_eq!(most_reads_of_one_config(&requests), 2);
    }

    #[test]
    fn an_hour_is_reckoned_from_what_repeats() {
        // One write in 100 s is 36 an hour; a watch of half an hour is opened twice.
        assert!((requests_of_an_hour(&events(), "mcd", &window(20, 120)) - 38.0).abs() < 1e-9);
        assert!((requests_of_an_hour(&events(), "mcd", &window(20, 100)) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_whole_hour_is_what_was_seen() {
        // Five requests after the tenth second, one of them a watch that another hour would open
        // again.
        assert!((requests_of_an_hour(&events(), "mcd", &window(10, 3610)) - 6.0).abs() < 1e-9);
        assert!((requests_of_an_hour(&events(), "mcd", &window(10, 7210)) - 3.0).abs() < 1e-9);
    }
}
