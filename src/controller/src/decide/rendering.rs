//! What a rendering depends on, and whether it can be done now.

use std::collections::BTreeMap;

use api::machineconfiguration::{OSImageStream, controller_config, label, os_image_stream};
use machineconfig::render::Base;
use pool::hold::Hold;
use pool::selector::Selector;

use super::controller_config::{base, foreign_release, release, unsettled_reason};
use super::generating;
use super::os_stream::{self, ChosenStream};
use crate::configs::ConfigMeta;
use crate::store::{Pool, Snapshot};

/// What a rendering depends on: where it is the same, so is the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inputs {
    pub(crate) sources: Vec<SourceVersion>,
    pub(crate) base: Base,
    pub(crate) release: String,
    /// The stream of OS images that the pool asks for.
    pub(crate) stream: Option<String>,
    /// Whether the cluster says which image a stream has.
    pub(crate) has_streams: bool,
    /// Whether the pool is in image mode: its image brings files that nodes cannot write.
    pub(crate) has_image: bool,
    /// Whether there is no ControllerConfig, so that there is neither base nor release.
    pub(crate) is_without_controller_config: bool,
    /// What the pool names now, and whether that object is there: a configuration in use that was
    /// deleted is made again.
    pub(crate) target: Option<(String, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceVersion {
    name: String,
    uid: String,
    generation: Option<i64>,
    generated_by: Option<String>,
    /// Decides who wins over whom.
    role: Option<String>,
}

impl SourceVersion {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// What is to be done for a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preparation {
    /// Nothing can be decided yet; the render condition of the pool stays.
    Wait(String),
    /// It must not be rendered until an administrator corrects it: the text of the pool's
    /// condition.
    Impossible(String),
    /// The pool's selector is `{}`.
    SelectingAll,
    /// To be rendered from these.
    Inputs(Inputs),
}

/// Decides what a pool's rendering depends on.
///
/// Source: `docs/reference/controller.md`, "Rendering order of work", as far as there are producers
/// of configurations.
pub fn prepare(pool: &Pool, snapshot: &Snapshot) -> Preparation {
    let selector = match &pool.view.config_selector {
        // The pool's own condition says what is wrong with it.
        Err(refusal) => return Preparation::Wait(refusal.to_string()),
        Ok(Selector::Everything) => return Preparation::SelectingAll,
        Ok(selector @ (Selector::Nothing | Selector::Labels(_))) => selector,
    };
    if is_without_base(pool, snapshot) {
        return Preparation::Impossible(Hold::MissingBase.to_string());
    }
    let controller_config = snapshot.controller_config();
    let own = snapshot.version.as_str();
    if let Some(why) = controller_config.and_then(|config| foreign_release(config, own)) {
        // Of a release whose images it takes over, this controller changes that itself.
        return if snapshot.has_release {
            Preparation::Wait(why)
        } else {
            Preparation::Impossible(why)
        };
    }
    if let Some(why) = controller_config.and_then(unsettled_reason) {
        return Preparation::Wait(why);
    }
    if let Some(why) = generating::fault(pool, snapshot) {
        return Preparation::Impossible(why);
    }
    if let Some(why) = generating::wait(pool, snapshot) {
        return Preparation::Wait(why);
    }
    if controller_config.is_none()
        && let Some(why) = missing_controller_config(pool, snapshot)
    {
        return Preparation::Impossible(why);
    }
    let sources = snapshot
        .configs
        .values()
        // Upstream: no pool selects what has no labels, though a selector of negations would.
        .filter(|config| !config.labels.is_empty() && selector.matches(&config.labels))
        .map(|config| SourceVersion {
            name: config.name.clone(),
            uid: config.uid.clone(),
            generation: config.generation,
            generated_by: config.generated_by.clone(),
            role: config.labels.get(label::ROLE).cloned(),
        })
        .collect();
    let target = pool.view.target_config().map(|name| {
        let is_there = snapshot.configs.get(name).is_some();
        (name.to_owned(), is_there)
    });
    let chosen = chosen_stream(pool, snapshot);
    let base = match base(controller_config, chosen.as_ref(), streams(snapshot)) {
        Ok(base) => base,
        Err(error) => return Preparation::Impossible(error.to_string()),
    };
    Preparation::Inputs(Inputs {
        sources,
        base,
        release: release(controller_config, own),
        has_streams: has_streams(snapshot),
        has_image: snapshot.os_configs.get(&pool.view.name).is_some(),
        stream: chosen.map(|chosen| chosen.name),
        is_without_controller_config: controller_config.is_none(),
        target,
    })
}

/// Roles whose base configurations have a kubelet. Each is a pool that every cluster has, too.
const BASES: [&str; 3] = [
    label::role::WORKER,
    label::role::MASTER,
    label::role::ARBITER,
];

/// Whether a custom pool's selector leaves out the base of its nodes: it selects neither the label
/// of such a role, nor a configuration that has it with others.
pub(crate) fn is_without_base(pool: &Pool, snapshot: &Snapshot) -> bool {
    // A selector of nothing, or of all, has a message of its own.
    let Ok(selector @ Selector::Labels(_)) = &pool.view.config_selector else {
        return false;
    };
    let selects = |role: &&str| {
        selector.matches(&BTreeMap::from([(
            label::ROLE.to_owned(),
            (*role).to_owned(),
        )]))
    };
    let has_base = |labels: &BTreeMap<String, String>| {
        let role = labels.get(label::ROLE);
        role.is_some_and(|role| BASES.contains(&role.as_str())) && selector.matches(labels)
    };
    !BASES.contains(&pool.view.name.as_str())
        && !BASES.iter().any(selects)
        && !snapshot
            .configs
            .values()
            .any(|config| has_base(&config.labels))
}

/// Why a pool cannot do without a ControllerConfig, if it cannot: what it names was made from one,
/// and what was rendered now would have neither the OS image nor the extensions of the release, and
/// be rolled at once.
///
/// A configuration that no controller made, or one made while there was no ControllerConfig, needs
/// none.
fn missing_controller_config(pool: &Pool, snapshot: &Snapshot) -> Option<String> {
    let target = snapshot.configs.get(pool.view.target_config()?)?;
    let needs_one = target.generated_by.is_some() && !target.is_without_controller_config;
    needs_one.then(|| {
        missing(&format!(
            "{}, which the pool names, was made from it",
            target.name
        ))
    })
}

/// Why nothing is rendered while there is no ControllerConfig, and the ways out.
pub(crate) fn missing(why: &str) -> String {
    let name = controller_config::NAME;
    format!(
        "ControllerConfig {name} is missing: {why}. Create it again, or remove spec.configuration of the pool to render without it"
    )
}

fn chosen_stream(pool: &Pool, snapshot: &Snapshot) -> Option<ChosenStream> {
    let worker = snapshot.pools.get(label::role::WORKER);
    os_stream::chosen(&pool.object, worker.map(|worker| &worker.object))
}

/// The stream that all nodes have of a pool that is updated to `target`; none where a source
/// replaced its image, or nothing says which it is.
pub(crate) fn reached_stream(
    pool: &Pool,
    target: &ConfigMeta,
    snapshot: &Snapshot,
) -> Option<String> {
    let chosen = chosen_stream(pool, snapshot);
    let stream = os_stream::resolve(chosen.as_ref(), streams(snapshot)).ok()?;
    let stream = stream.filter(|_| !target.is_image_overridden);
    stream.map(|stream| stream.name.clone())
}

/// OSImageStream `cluster`, where there is one.
pub(crate) fn streams(snapshot: &Snapshot) -> Option<&OSImageStream> {
    let streams = &snapshot.generators.image_streams;
    streams.get(os_image_stream::NAME).map(AsRef::as_ref)
}

pub(crate) fn has_streams(snapshot: &Snapshot) -> bool {
    streams(snapshot).is_some()
}

#[cfg(test)]
mod tests {
    use chassis::program::VERSION;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{Cluster, pool, settled};

    fn prepared(cluster: &Cluster) -> Preparation {
        let snapshot = cluster.snapshot();
        let pool = snapshot.pools.get("worker").unwrap();
        prepare(pool, &snapshot)
    }

    #[test]
    fn a_custom_pool_has_the_base_of_the_workers() {
        let role = "machineconfiguration.openshift.io/role";
        let of = |values: &[&str], operator: &str| json!({ "matchExpressions": [{ "key": role, "operator": operator, "values": values }] });
        let table = [
            ("edge", json!({ "matchLabels": { role: "edge" } }), true),
            ("edge", of(&["edge"], "In"), true),
            ("edge", of(&["worker"], "NotIn"), false),
            ("edge", of(&["worker", "master", "arbiter"], "NotIn"), true),
            ("edge", of(&["worker", "edge"], "In"), false),
            (
                "edge",
                json!({ "matchLabels": { role: "worker", "size": "large" } }),
                true,
            ),
            (
                "edge",
                json!({ "matchLabels": { role: "worker", "size": "small" } }),
                false,
            ),
            ("infra", json!({ "matchLabels": { role: "master" } }), false),
            ("worker", json!({ "matchLabels": { role: "edge" } }), false),
        ];
        for (name, selector, expected) in table {
            let (mut cluster, _, _) = settled();
            cluster.pools[0]["metadata"]["name"] = json!(name);
            cluster.pools[0]["spec"]["machineConfigSelector"] = selector.clone();
            cluster.configs[0]["metadata"]["labels"]["size"] = json!("small");
            let snapshot = cluster.snapshot();
            let pool = snapshot.pools.get(name).unwrap();
            assert_eq!(
                is_without_base(pool, &snapshot),
                expected,
                "{name} {selector}"
            );
            let refused = matches!(
                prepare(pool, &snapshot),
                Preparation::Impossible(why) if why.contains("spec.machineConfigSelector")
            );
            assert_eq!(refused, expected, "{name} {selector}");
        }
    }

    fn sources(cluster: &Cluster) -> Vec<String> {
        match prepared(cluster) {
            Preparation::Inputs(inputs) => inputs
                .sources
                .into_iter()
                .map(|source| source.name)
                .collect(),
            other @ (Preparation::Wait(_)
            | Preparation::Impossible(_)
            | Preparation::SelectingAll) => panic!("{other:?}"),
        }
    }

    fn controller_config(annotations: &Value, generation: i64, status: &Value) -> Value {
        json!({
            "metadata": { "name": "machine-config-controller", "generation": generation, "annotations": annotations },
            "spec": { "baseOSContainerImage": "os", "baseOSExtensionsContainerImage": "extensions" },
            "status": status
        })
    }

    /// The annotation of a ControllerConfig of this release.
    fn ours() -> Value {
        json!({ "machineconfiguration.openshift.io/generated-by-version": VERSION })
    }

    fn status(conditions: &[(&str, &str)]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(r#type, status)| json!({ "type": r#type, "status": status }))
            .collect();
        json!({ "observedGeneration": 3, "conditions": conditions })
    }

    #[test]
    fn rendered_and_unlabelled_configurations_are_no_sources() {
        let (mut cluster, _, _) = settled();
        cluster
            .configs
            .push(json!({ "metadata": { "name": "no-labels" } }));
        let labels = json!({ "machineconfiguration.openshift.io/role": "master" });
        cluster
            .configs
            .push(json!({ "metadata": { "name": "other-role", "labels": labels } }));
        assert_eq!(sources(&cluster), ["50-a"]);
        cluster.pools[0]["spec"]["machineConfigSelector"] =
            json!({ "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] });
        assert_eq!(sources(&cluster), ["50-a", "other-role"]);
    }

    #[test]
    fn selectors_that_are_empty_or_wrong_wait() {
        let (mut cluster, _, _) = settled();
        cluster.pools[0]["spec"]["machineConfigSelector"] = json!({});
        assert_eq!(prepared(&cluster), Preparation::SelectingAll);
        cluster.pools[0]["spec"]["machineConfigSelector"] =
            json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] });
        assert!(
            matches!(prepared(&cluster), Preparation::Wait(why) if why.contains("machineConfigSelector"))
        );
    }

    #[test]
    fn only_a_settled_controller_config_is_rendered_from() {
        let settled_status = status(&[
            ("TemplateControllerCompleted", "True"),
            ("TemplateControllerRunning", "False"),
        ]);
        let table = [
            (3, settled_status.clone(), true),
            (4, settled_status, false),
            (3, status(&[]), false),
            (
                3,
                status(&[
                    ("TemplateControllerCompleted", "True"),
                    ("TemplateControllerRunning", "True"),
                ]),
                false,
            ),
            (
                3,
                status(&[
                    ("TemplateControllerCompleted", "True"),
                    ("TemplateControllerFailing", "True"),
                ]),
                false,
            ),
        ];
        for (generation, status, is_settled) in table {
            let (mut cluster, _, _) = settled();
            let config = controller_config(&ours(), generation, &status);
            cluster.controller_configs = vec![config.clone()];
            let prepared = prepared(&cluster);
            assert_eq!(
                matches!(prepared, Preparation::Inputs(_)),
                is_settled,
                "{config}: {prepared:?}"
            );
        }
    }

    #[test]
    fn a_controller_config_of_another_release_is_said_and_not_rendered_from() {
        let (mut cluster, _, _) = settled();
        let by = json!({ "machineconfiguration.openshift.io/generated-by-version": "another" });
        // Whether it has completed or not: it is not ours.
        for status in [
            status(&[("TemplateControllerCompleted", "True")]),
            json!({}),
        ] {
            cluster.controller_configs = vec![controller_config(&by, 3, &status)];
            let why = format!(
                "ignoring controller config generated from another (my version: {VERSION})"
            );
            assert_eq!(prepared(&cluster), Preparation::Impossible(why));
        }
    }

    #[test]
    fn a_controller_config_without_its_version_is_refused() {
        let (mut cluster, _, _) = settled();
        let status = status(&[("TemplateControllerCompleted", "True")]);
        let empty = json!({ "machineconfiguration.openshift.io/generated-by-version": "" });
        for annotations in [json!({}), empty] {
            cluster.controller_configs = vec![controller_config(&annotations, 3, &status)];
            let Preparation::Impossible(why) = prepared(&cluster) else {
                panic!("not refused");
            };
            assert_eq!(
                why,
                format!(
                    "ignoring controller config machine-config-controller: its annotation machineconfiguration.openshift.io/generated-by-version is missing, so that the release that made it is not known (my version: {VERSION})"
                )
            );
        }
    }

    #[test]
    fn another_role_of_a_source_is_another_input() {
        let (mut cluster, _, _) = settled();
        cluster.pools[0]["spec"]["machineConfigSelector"] = json!({ "matchExpressions": [{
            "key": "machineconfiguration.openshift.io/role", "operator": "In", "values": ["worker", "edge"]
        }] });
        let before = prepared(&cluster);
        cluster.configs[0]["metadata"]["labels"]["machineconfiguration.openshift.io/role"] =
            json!("edge");
        assert_ne!(before, prepared(&cluster));
        assert_eq!(sources(&cluster), ["50-a"]);
    }

    #[test]
    fn images_and_release_come_from_the_controller_config() {
        let (mut cluster, _, _) = settled();
        let mut annotations = ours();
        annotations["machineconfiguration.openshift.io/release-image-version"] = json!("4.19.1");
        let status = status(&[("TemplateControllerCompleted", "True")]);
        cluster.controller_configs = vec![controller_config(&annotations, 3, &status)];
        let Preparation::Inputs(inputs) = prepared(&cluster) else {
            panic!("not settled")
        };
        assert_eq!(
            (
                inputs.base.os_image_url.as_str(),
                inputs.base.extensions_image.as_str()
            ),
            ("os", "extensions")
        );
        assert_eq!(inputs.release, "4.19.1");
    }

    #[test]
    fn only_a_configuration_made_without_a_controller_config_is_replaced_without_one() {
        let by = "machineconfiguration.openshift.io/generated-by-controller-version";
        let without = "slipway.dev/without-controller-config";
        let table = [
            ("a person's", json!({}), true),
            ("ours, without", json!({ by: "x", without: "true" }), true),
            (
                "ours, with, or OpenShift's MCO's",
                json!({ by: "x" }),
                false,
            ),
            ("marked otherwise", json!({ by: "x", without: "no" }), false),
        ];
        for (what, annotations, is_rendered) in table {
            let (mut cluster, _, _) = settled();
            cluster.configs[1]["metadata"]["annotations"] = annotations;
            let is_prepared = match prepared(&cluster) {
                Preparation::Inputs(_) => true,
                Preparation::Impossible(why) => {
                    assert!(
                        why.contains("machine-config-controller is missing"),
                        "{why}"
                    );
                    false
                }
                other @ (Preparation::Wait(_) | Preparation::SelectingAll) => panic!("{other:?}"),
            };
            assert_eq!(is_prepared, is_rendered, "{what}");
            // With one, and for a pool that names nothing, it is all the same.
            let first = Cluster {
                pools: vec![pool(None)],
                ..cluster.clone()
            };
            assert!(matches!(prepared(&first), Preparation::Inputs(_)), "{what}");
            let status = status(&[("TemplateControllerCompleted", "True")]);
            cluster.controller_configs = vec![controller_config(&ours(), 3, &status)];
            assert!(
                matches!(prepared(&cluster), Preparation::Inputs(_)),
                "{what}"
            );
        }
    }

    #[test]
    fn a_configuration_in_use_that_is_gone_is_another_input() {
        let (mut cluster, _, target) = settled();
        let before = prepared(&cluster);
        assert_eq!(before, prepared(&cluster));
        cluster
            .configs
            .retain(|config| config["metadata"]["name"] != json!(target));
        assert_ne!(before, prepared(&cluster));
        cluster.pools = vec![pool(None)];
        assert_ne!(before, prepared(&cluster));
    }

    /// Two pools of workers on two streams, whose default is `a`.
    fn two_streams() -> Cluster {
        let (mut cluster, _, _) = settled();
        let mut edge = pool(None);
        edge["metadata"]["name"] = json!("edge");
        edge["spec"]["osImageStream"] = json!({ "name": "b" });
        cluster.pools.push(edge);
        cluster.image_streams = vec![json!({
            "metadata": { "name": "cluster" }, "spec": { "defaultStream": "a" },
            "status": { "defaultStream": "a", "availableStreams": [
                { "name": "a", "osImage": "os-a" }, { "name": "b", "osImage": "os-b" }
            ] }
        })];
        cluster
    }

    #[test]
    fn another_default_or_image_is_another_input_of_those_that_follow_it_alone() {
        let inputs = |cluster: &Cluster| {
            let snapshot = cluster.snapshot();
            ["worker", "edge"].map(|name| {
                let prepared = prepare(snapshot.pools.get(name).unwrap(), &snapshot);
                assert!(matches!(prepared, Preparation::Inputs(_)), "{prepared:?}");
                prepared
            })
        };
        let before = inputs(&two_streams());
        let table: [(&str, Value, [bool; 2]); 4] = [
            ("/status/defaultStream", json!("b"), [true, false]),
            (
                "/status/availableStreams/0/osImage",
                json!("os-2"),
                [true, false],
            ),
            (
                "/status/availableStreams/1/osImage",
                json!("os-2"),
                [false, true],
            ),
            ("/spec/defaultStream", json!("b"), [false, false]),
        ];
        for (path, value, expected) in table {
            let mut cluster = two_streams();
            *cluster.image_streams[0].pointer_mut(path).unwrap() = value;
            let after = inputs(&cluster);
            let changed = [before[0] != after[0], before[1] != after[1]];
            assert_eq!(changed, expected, "{path}");
        }
    }

    #[test]
    fn a_pool_has_reached_its_stream_unless_a_source_replaced_the_image() {
        let reached = |cluster: &Cluster| {
            let snapshot = cluster.snapshot();
            let pool = snapshot.pools.get("worker").unwrap();
            let target = snapshot.configs.get(pool.view.target_config().unwrap());
            reached_stream(pool, target.unwrap(), &snapshot)
        };
        let mut cluster = two_streams();
        assert_eq!(reached(&cluster), Some("a".to_owned()));
        cluster.pools[0]["spec"]["osImageStream"] = json!({ "name": "b" });
        assert_eq!(reached(&cluster), Some("b".to_owned()));
        cluster.pools[0]["spec"]["osImageStream"] = json!({ "name": "c" });
        assert_eq!(reached(&cluster), None);
        let mut cluster = two_streams();
        cluster.configs[1]["metadata"]["annotations"]["machineconfiguration.openshift.io/os-image-url-overridden"] =
            json!("true");
        assert_eq!(reached(&cluster), None);
        cluster = two_streams();
        cluster.image_streams.clear();
        assert_eq!(reached(&cluster), None);
    }

    #[test]
    fn images_of_a_stream_take_the_place_of_the_releases() {
        let (mut cluster, _, _) = settled();
        cluster.image_streams = vec![json!({
            "metadata": { "name": "cluster" }, "spec": {},
            "status": { "availableStreams": [
                { "name": "rhel-10", "osImage": "os-10", "osExtensionsImage": "extensions-10" }
            ] }
        })];
        let images = |cluster: &Cluster| match prepared(cluster) {
            Preparation::Inputs(inputs) => (inputs.base.os_image_url, inputs.base.extensions_image),
            other @ (Preparation::Wait(_)
            | Preparation::Impossible(_)
            | Preparation::SelectingAll) => panic!("{other:?}"),
        };
        assert_eq!(images(&cluster), (String::new(), String::new()));
        cluster.pools[0]["spec"]["osImageStream"] = json!({ "name": "rhel-10" });
        assert_eq!(
            images(&cluster),
            ("os-10".to_owned(), "extensions-10".to_owned())
        );
        cluster.pools[0]["spec"]["osImageStream"] = json!({ "name": "rhel-11" });
        let why = "spec.osImageStream rhel-11: OSImageStream cluster has no such stream in status.availableStreams (rhel-10)";
        assert_eq!(prepared(&cluster), Preparation::Impossible(why.to_owned()));
    }
}
