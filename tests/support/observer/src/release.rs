//! An update of the cluster to another release, judged from the API server's audit log: which
//! manifest was written when, and when each run level was done.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use lab::audit::{Event, Verb};
use serde::Serialize;
use serde_json::Value;

/// How the version operator begins its user agent.
const WRITER: &str = "cvo/";

/// Namespace and name of the version operator's own Deployment.
const OWN: (&str, &str) = ("openshift-cluster-version", "cluster-version-operator");

/// Run level of the version operator's own manifests, which come before all others.
const OWN_LEVEL: &str = "00";

/// The requested release.
#[derive(Clone, Debug)]
pub struct ReleaseUpdate {
    /// Version of the release.
    pub version: String,
    /// Its pull spec.
    pub image: String,
    /// When it was requested.
    pub start: Timestamp,
    /// Its `release-manifests`, in their order.
    pub manifests: Vec<ReleaseManifest>,
}

/// An object of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseManifest {
    /// Its file.
    pub file: String,
    /// Digits, such as `80`; compared as text.
    pub run_level: String,
    /// Such as `machine-config`.
    pub component: String,
    /// Empty for the core group.
    pub api_group: String,
    /// Plural.
    pub resource: String,
    /// Empty for what belongs to the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether the release before had it in this form: then it needs no request.
    pub is_as_before: bool,
}

impl ReleaseManifest {
    fn is_of(&self, event: &Event) -> bool {
        event.object.as_ref().is_some_and(|object| {
            object.subresource.is_empty()
                && object.api_group == self.api_group
                && object.resource == self.resource
                && object.namespace == self.namespace
                && object.name == self.name
        })
    }

    /// Whether it is a ClusterOperator, which is waited for.
    pub fn is_operator(&self) -> bool {
        (self.api_group.as_str(), self.resource.as_str())
            == ("config.openshift.io", "clusteroperators")
    }
}

/// When a run level was worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunLevel {
    /// Digits.
    pub level: String,
    /// In order of names.
    pub components: Vec<String>,
    /// First write of one of its manifests; of the version operator's own, the request.
    pub start: Timestamp,
    /// Last write, or the last ClusterOperator's report, whichever was later.
    pub end: Timestamp,
    /// What its ClusterOperators reported last while they were not done, each with its name.
    pub waits_for: String,
}

/// The judgement of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseVerdict {
    /// What speaks against it, a sentence each.
    pub breaches: Vec<String>,
    /// In their order, as far as the update came.
    pub levels: Vec<RunLevel>,
}

impl ReleaseUpdate {
    /// Judges what the audit log has of it.
    ///
    /// While it updates, no manifest of a run level is written before each ClusterOperator of the
    /// levels below has reported the version as Available and not Degraded, and none is left out:
    /// each manifest that differs from the release before is written. Before the version operator
    /// was replaced it kept the release before; after the update is Completed it keeps this one,
    /// in any order.
    pub fn judge(&self, events: &[Event]) -> ReleaseVerdict {
        let Some(began) = self.own_write(events) else {
            let missing = "the version operator did not replace itself".to_owned();
            return ReleaseVerdict {
                breaches: vec![missing],
                levels: Vec::new(),
            };
        };
        let completed = self.completed(events);
        let end = completed.unwrap_or(Timestamp::MAX);
        let writes: Vec<&Event> = events
            .iter()
            .filter(|event| is_write(event) && event.received > began && event.received <= end)
            .collect();
        let written = self.written(&writes);
        let reports = self.reports(events);

        let mut breaches = Vec::new();
        if completed.is_none() {
            breaches.push(format!("the history has no Completed {}", self.version));
        }
        for (manifest, at) in self.manifests.iter().zip(&written) {
            if at.is_none() && !manifest.is_as_before && !manifest.is_operator() {
                breaches.push(format!("{} was skipped", manifest.file));
            }
        }
        for (manifest, event) in self.early(&writes, &reports) {
            breaches.push(manifest_before(manifest, &event));
        }
        ReleaseVerdict {
            breaches,
            levels: self.levels(began, &written, &reports, events),
        }
    }

    /// When the version operator's own Deployment got this release's image.
    fn own_write(&self, events: &[Event]) -> Option<Timestamp> {
        let mut writes = events
            .iter()
            .filter(|event| is_write(event) && event.received >= self.start);
        let own = writes.find(|event| {
            let object = event.object.as_ref();
            let image = event.response.as_ref().and_then(|response| {
                response
                    .pointer("/spec/template/spec/containers/0/image")?
                    .as_str()
            });
            event.concerns("apps", "deployments")
                && object.is_some_and(|it| (it.namespace.as_str(), it.name.as_str()) == OWN)
                && image == Some(self.image.as_str())
        });
        own.map(|event| event.at)
    }

    /// When ClusterVersion's history first had this release as Completed.
    fn completed(&self, events: &[Event]) -> Option<Timestamp> {
        let mut statuses = events.iter().filter(|event| {
            event.concerns("config.openshift.io", "clusterversions")
                && event.succeeded()
                && event.at >= self.start
        });
        let done = statuses.find(|event| {
            let entry = event.response.as_ref();
            let entry = entry.and_then(|object| object.pointer("/status/history/0"));
            let text = |key: &str| entry.and_then(|entry| entry.get(key)?.as_str());
            text("version") == Some(&self.version) && text("state") == Some("Completed")
        });
        done.map(|event| event.at)
    }

    /// When each manifest was first written, and when last.
    fn written(&self, writes: &[&Event]) -> Vec<Option<(Timestamp, Timestamp)>> {
        let times = |manifest: &ReleaseManifest| {
            let mut of = writes.iter().filter(|event| manifest.is_of(event));
            let first = of.next()?;
            let last = of.next_back().unwrap_or(first);
            Some((first.received, last.at))
        };
        self.manifests.iter().map(times).collect()
    }

    /// When each ClusterOperator of the release first reported it, by name.
    fn reports(&self, events: &[Event]) -> BTreeMap<&str, Timestamp> {
        let operators = self.manifests.iter().filter(|one| one.is_operator());
        let first = |operator: &ReleaseManifest| {
            let mut states = states(events, &operator.name, self.start);
            let done = states.find(|(_, object)| is_done(object, &self.version))?;
            Some(done.0)
        };
        operators
            .filter_map(|operator| Some((operator.name.as_str(), first(operator)?)))
            .collect()
    }

    /// Writes that came before something of a level below was done: the manifest, and what was not.
    fn early<'a>(
        &'a self,
        writes: &[&Event],
        reports: &BTreeMap<&str, Timestamp>,
    ) -> Vec<(&'a ReleaseManifest, String)> {
        let mut found = Vec::new();
        for manifest in &self.manifests {
            let first = writes.iter().find(|event| manifest.is_of(event));
            let Some(at) = first.map(|event| event.received) else {
                continue;
            };
            let below = self
                .manifests
                .iter()
                .filter(|other| other.run_level < manifest.run_level);
            for other in below {
                let done = if other.is_operator() {
                    reports.get(other.name.as_str()).copied()
                } else if other.is_as_before {
                    continue;
                } else {
                    let first = writes.iter().find(|event| other.is_of(event));
                    first.map(|event| event.at)
                };
                if done.is_none_or(|done| done > at) {
                    found.push((manifest, format!("{} of {}", other.name, other.file)));
                }
            }
        }
        found
    }

    fn levels(
        &self,
        began: Timestamp,
        written: &[Option<(Timestamp, Timestamp)>],
        reports: &BTreeMap<&str, Timestamp>,
        events: &[Event],
    ) -> Vec<RunLevel> {
        let mut levels = vec![RunLevel {
            level: OWN_LEVEL.to_owned(),
            components: vec![OWN.1.to_owned()],
            start: self.start,
            end: written
                .iter()
                .flatten()
                .map(|times| times.0)
                .min()
                .unwrap_or(began),
            waits_for: "the release's image, and the version operator's own pod".to_owned(),
        }];
        let names: BTreeSet<&str> = self
            .manifests
            .iter()
            .map(|it| it.run_level.as_str())
            .collect();
        for level in names {
            let of_level = || {
                let all = self.manifests.iter().zip(written);
                all.filter(|(manifest, _)| manifest.run_level == level)
            };
            let Some(start) = of_level().filter_map(|(_, at)| at.map(|at| at.0)).min() else {
                continue;
            };
            let operators = || {
                of_level()
                    .filter(|(it, _)| it.is_operator())
                    .map(|(it, _)| it)
            };
            let reported = operators().filter_map(|it| reports.get(it.name.as_str()).copied());
            let firsts = of_level().filter_map(|(_, at)| at.map(|at| at.0));
            let messages = operators().filter_map(|it| {
                let until = reports
                    .get(it.name.as_str())
                    .copied()
                    .unwrap_or(Timestamp::MAX);
                let message = states(events, &it.name, start);
                let message = message.take_while(|(at, _)| *at < until);
                let message = message.filter_map(|(_, object)| progress(object)).last()?;
                Some(format!("{}: {message}", it.name))
            });
            let components: BTreeSet<&str> =
                of_level().map(|(it, _)| it.component.as_str()).collect();
            levels.push(RunLevel {
                level: level.to_owned(),
                components: components.into_iter().map(ToOwned::to_owned).collect(),
                start,
                end: firsts.chain(reported).max().unwrap_or(start),
                waits_for: messages.collect::<Vec<_>>().join("; "),
            });
        }
        levels
    }
}

/// The share of an update in which nothing was waited for: between the end of one run level and the
/// start of the next. None before the update has a length.
///
/// Unit: 0 to 1, of the time from the first start to the last end.
pub fn unwaited_share(levels: &[RunLevel]) -> Option<f64> {
    let start = levels.iter().map(|level| level.start).min()?;
    let end = levels.iter().map(|level| level.end).max()?;
    let total = end.duration_since(start).as_secs_f64();
    let mut waits: Vec<_> = levels
        .iter()
        .filter(|level| !level.waits_for.is_empty())
        .map(|level| (level.start, level.end))
        .collect();
    waits.sort();
    let (mut waited, mut until) = (0.0, start);
    for (from, to) in waits {
        let from = from.max(until);
        if to > from {
            waited += to.duration_since(from).as_secs_f64();
            until = to;
        }
    }
    (total > 0.0).then(|| (1.0 - waited / total).clamp(0.0, 1.0))
}

/// Whether a pod of this namespace, whose name begins so, was evicted since a moment.
pub fn was_evicted(events: &[Event], (namespace, name): (&str, &str), since: Timestamp) -> bool {
    events.iter().any(|event| {
        event.concerns("", "pods")
            && event.at >= since
            && event.succeeded()
            && event.object.as_ref().is_some_and(|object| {
                object.subresource == "eviction"
                    && object.namespace == namespace
                    && object.name.starts_with(name)
            })
    })
}

/// Whether a pod runs images of a release.
///
/// Shape: `images` are the release's pull specs; a pod counts by its containers' specification.
pub fn is_on(images: &BTreeSet<String>, pod: &k8s_openapi::api::core::v1::Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut named = containers.map(|container| container.image.as_deref().unwrap_or_default());
    named.all(|image| images.contains(image))
}

fn manifest_before(manifest: &ReleaseManifest, what: &str) -> String {
    format!(
        "{} of run level {} was written before {what} was done",
        manifest.file, manifest.run_level
    )
}

/// Whether the version operator changed an object.
fn is_write(event: &Event) -> bool {
    let writes = match &event.verb {
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => true,
        Verb::Get | Verb::List | Verb::Watch | Verb::DeleteCollection | Verb::Other(_) => false,
    };
    writes
        && event.user_agent.starts_with(WRITER)
        && event.succeeded()
        && !event.uri.contains("dryRun=")
}

/// What a ClusterOperator was after each write since a moment.
fn states<'a>(
    events: &'a [Event],
    name: &'a str,
    since: Timestamp,
) -> impl Iterator<Item = (Timestamp, &'a Value)> {
    events.iter().filter_map(move |event| {
        let object = event.object.as_ref()?;
        let is_it = event.concerns("config.openshift.io", "clusteroperators")
            && object.name == name
            && event.succeeded()
            && event.at >= since;
        Some((event.at, event.response.as_ref().filter(|_| is_it)?))
    })
}

fn is_done(operator: &Value, version: &str) -> bool {
    let versions = operator
        .pointer("/status/versions")
        .and_then(Value::as_array);
    let has_version = versions.into_iter().flatten().any(|one| {
        let text = |key: &str| one.get(key).and_then(Value::as_str);
        text("name") == Some("operator") && text("version") == Some(version)
    });
    has_version
        && condition(operator, "Available").is_some_and(|(status, _)| status == "True")
        && condition(operator, "Degraded").is_some_and(|(status, _)| status == "False")
}

/// What an operator says that it works on.
fn progress(operator: &Value) -> Option<&str> {
    let (status, message) = condition(operator, "Progressing")?;
    (status == "True").then_some(message)
}

/// Status and message of a condition.
fn condition<'a>(object: &'a Value, name: &str) -> Option<(&'a str, &'a str)> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let text = |one: &'a Value, key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
    let found = conditions.iter().find(|one| text(one, "type") == name)?;
    Some((text(found, "status"), text(found, "message")))
}

#[cfg(test)]
mod tests;
