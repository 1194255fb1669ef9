//! What each user asked of the API server.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, Verb};

/// The client: several programs may share a user, as the daemon does with the kubelet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asker {
    /// User name.
    pub user: String,
    /// The first part of the user agent, up to `/`: the program.
    pub program: String,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Verb.
    pub verb: Verb,
    /// `resource`, `resource/subresource` or, for what is no resource, the path.
    pub resource: String,
}

/// How often, and how much of it the log kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Requests; a watch is one.
    pub count: usize,
    /// Bytes of the bodies that the log kept, as JSON. The policy keeps those of writes to nodes,
    /// pods and pools; what went over the wire is counted by the host's network device.
    pub logged_bytes: usize,
}

/// Requests by client and object.
pub fn totals(events: &[Event]) -> BTreeMap<Asker, BTreeMap<Request, Total>> {
    let mut seen = BTreeSet::new();
    let mut totals = BTreeMap::<Asker, BTreeMap<Request, Total>>::new();
    for event in events {
        let total = totals
            .entry(asker(event))
            .or_default()
            .entry(request(event))
            .or_default();
        // A long request has an event a stage.
        total.count += usize::from(seen.insert(event.audit_id.as_str()));
        let bodies = [&event.request, &event.response];
        total.logged_bytes += bodies
            .into_iter()
            .flatten()
            .map(|body| body.to_string().len())
            .sum::<usize>();
    }
    totals
}

fn asker(event: &Event) -> Asker {
    let program = event.user_agent.split('/').next().unwrap_or_default();
    Asker {
        user: event.user.username.clone(),
        program: program.to_owned(),
    }
}

fn request(event: &Event) -> Request {
    let resource = match &event.object {
        Some(object) if object.subresource.is_empty() => object.resource.clone(),
        Some(object) => format!("{}/{}", object.resource, object.subresource),
        None => event.uri.split('?').next().unwrap_or_default().to_owned(),
    };
    Request {
        verb: event.verb.clone(),
        resource,
    }
}
