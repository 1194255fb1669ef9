//! The configuration of a pool: rendered from its sources, stored, and named in the pool.

use api::machine_config_pool::Configuration;
use api::{ControllerConfig, annotation, controller_config, label};
use cluster::wire;
use k8s_openapi::api::core::v1::ObjectReference;
use machineconfig::render::{Base, Rendered, Source, render};
use pool::selector::Selector;
use serde_json::{Map, Value, json};
use service::report::Chain;

use crate::announce::Announcement;
use crate::configs::ConfigMeta;
use crate::requests::Requests;
use crate::store::{Pool, Snapshot};
use crate::version::{BUILD, VERSION};

mod refusal;

const API_VERSION: &str = "machineconfiguration.openshift.io/v1";

/// What a rendering depends on: where it is the same, so is the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inputs {
    sources: Vec<SourceVersion>,
    base: Base,
    release: String,
    /// What the pool names now, and whether that object is there: a configuration in use that somebody deleted is made again.
    target: Option<(String, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceVersion {
    name: String,
    uid: String,
    generation: Option<i64>,
    generated_by: Option<String>,
}

/// What is to be done for a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preparation {
    /// Nothing can be said yet; what the pool says about its rendering stays.
    Wait(String),
    /// The pool's selector is `{}`.
    SelectingAll,
    /// To be rendered from these.
    Inputs(Inputs),
}

/// The last rendering of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    inputs: Inputs,
    /// How it ended; the text of the pool's condition.
    pub outcome: Result<(), String>,
    /// Whether a user's configuration replaces the OS image.
    pub is_image_overridden: bool,
}

/// What came of a pool's turn.
#[derive(Debug)]
pub struct Turn {
    /// The pool, as it is now.
    pub pool: Pool,
    /// What there is to say.
    pub said: Vec<Announcement>,
    /// The configuration that was stored, if one was: the watch may be behind.
    pub created: Option<ConfigMeta>,
    /// How the last rendering ended, where there was one.
    pub outcome: Option<Result<(), String>>,
}

/// Decides what a pool's rendering depends on.
///
/// Source: upstream's render controller, `controller.md` 2.2 and 2.3, as far as there are producers of configurations.
pub fn prepare(pool: &Pool, snapshot: &Snapshot) -> Preparation {
    let selector = match &pool.view.config_selector {
        // The pool's own condition says what is wrong with it.
        Err(refusal) => return Preparation::Wait(refusal.to_string()),
        Ok(Selector::Everything) => return Preparation::SelectingAll,
        Ok(selector @ (Selector::Nothing | Selector::Labels(_))) => selector,
    };
    let controller_config = snapshot.controller_config();
    if let Some(why) = controller_config.and_then(unsettled) {
        return Preparation::Wait(why);
    }
    let sources = snapshot
        .configs
        .values()
        // Upstream: what has no labels is selected by nobody, though a selector of negations would.
        .filter(|config| !config.labels.is_empty() && selector.matches(&config.labels))
        .map(|config| SourceVersion {
            name: config.name.clone(),
            uid: config.uid.clone(),
            generation: config.generation,
            generated_by: config.generated_by.clone(),
        })
        .collect();
    let target = pool.view.target.clone().map(|name| {
        let is_there = snapshot.configs.get(&name).is_some();
        (name, is_there)
    });
    Preparation::Inputs(Inputs {
        sources,
        base: base(controller_config),
        release: release(controller_config),
        target,
    })
}

/// Why the base configurations of the release are not settled, if they are not: what was rendered now would be rendered again at once,
/// or mix two releases.
fn unsettled(config: &ControllerConfig) -> Option<String> {
    use controller_config::ControllerConfigConditionType::{Completed, Failing, Running};
    let of = annotation::GENERATED_BY_VERSION;
    let version = config
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(of));
    if let Some(version) = version
        && version != VERSION
    {
        return Some(format!(
            "ignoring controller config generated from {version} (my version: {VERSION})"
        ));
    }
    let status = config.status.clone().unwrap_or_default();
    let is_settled = status.observed_generation == config.metadata.generation
        && status.is_true(&Completed)
        && !status.is_true(&Running)
        && !status.is_true(&Failing);
    (!is_settled).then(|| {
        format!(
            "ControllerConfig {} has not completed",
            controller_config::NAME
        )
    })
}

fn base(config: Option<&ControllerConfig>) -> Base {
    let spec = config.map(|config| &config.spec);
    Base {
        os_image_url: spec
            .map(|spec| spec.base_os_container_image.clone())
            .unwrap_or_default(),
        extensions_image: spec
            .map(|spec| spec.base_os_extensions_container_image.clone())
            .unwrap_or_default(),
        controller_version: BUILD.to_owned(),
    }
}

fn release(config: Option<&ControllerConfig>) -> String {
    config
        .and_then(|config| config.metadata.annotations.as_ref())
        .and_then(|annotations| annotations.get(annotation::RELEASE_IMAGE_VERSION))
        .map_or(VERSION, String::as_str)
        .to_owned()
}

/// Renders where something changed since `last`, stores the result and names it in the pool.
///
/// What is wrong with the sources is an outcome, kept in `last`; it is tried again when one of them changes.
///
/// # Errors
/// Those of the API server that may pass, so that the pool is looked at again.
pub async fn turn(
    requests: &Requests,
    snapshot: &Snapshot,
    pool: Pool,
    last: &mut Option<Last>,
) -> Result<Turn, wire::Error> {
    let mut turn = Turn {
        pool,
        said: Vec::new(),
        created: None,
        outcome: last.as_ref().map(|last| last.outcome.clone()),
    };
    if turn.pool.view.is_deleted {
        return Ok(turn);
    }
    let mut inputs = match prepare(&turn.pool, snapshot) {
        Preparation::Wait(why) => {
            tracing::debug!(pool = turn.pool.view.name, reason = why, "not rendered yet");
            return Ok(turn);
        }
        Preparation::SelectingAll => {
            turn.said.push(Announcement::SelectingAll {
                what: "machineconfigs",
            });
            return Ok(turn);
        }
        Preparation::Inputs(inputs) => inputs,
    };
    if last.as_ref().is_some_and(|last| last.inputs == inputs) {
        return Ok(turn);
    }
    let name = turn.pool.view.name.clone();
    let failed = |why: String| format!("Failed to render configuration for pool {name}: {why}");
    let rendered = match make(requests, &turn.pool, &inputs).await? {
        Ok(rendered) => rendered,
        Err(why) => {
            let outcome = Err(failed(why));
            turn.outcome = Some(outcome.clone());
            *last = Some(Last {
                inputs,
                outcome,
                is_image_overridden: false,
            });
            return Ok(turn);
        }
    };
    match publish(requests, snapshot, &mut turn, &rendered, &inputs).await {
        Ok(()) => {
            inputs.target = Some((rendered.name, true));
            turn.outcome = Some(Ok(()));
            *last = Some(Last {
                inputs,
                outcome: Ok(()),
                is_image_overridden: rendered.image_overridden_by.is_some(),
            });
            Ok(turn)
        }
        Err(error) if error.is_transient() => Err(error),
        Err(error) => {
            // Refused for good: what refuses may change without the sources changing, so it is tried again with the next look.
            turn.outcome = Some(Err(failed(Chain(&error).to_string())));
            *last = None;
            Ok(turn)
        }
    }
}

/// Reads the sources and renders them. The inner error is about them.
async fn make(
    requests: &Requests,
    pool: &Pool,
    inputs: &Inputs,
) -> Result<Result<Rendered, String>, wire::Error> {
    let Ok(Selector::Labels(selector)) = &pool.view.config_selector else {
        let why = "no MachineConfigs are selected: spec.machineConfigSelector is missing";
        return Ok(Err(why.to_owned()));
    };
    if inputs.sources.is_empty() {
        let why = format!("no MachineConfigs found matching selector {selector}");
        return Ok(Err(why));
    }
    let sources: Vec<Source> = requests
        .list_configs(selector.to_string())
        .await?
        .into_iter()
        .filter(|config| {
            config
                .metadata
                .labels
                .as_ref()
                .is_some_and(|labels| !labels.is_empty())
        })
        .map(source)
        .collect();
    let rendered = match render(&pool.view.name, &sources, &inputs.base) {
        Ok(rendered) => rendered,
        Err(error) => {
            let why = format!(
                "could not generate rendered MachineConfig: {}",
                Chain(&error)
            );
            return Ok(Err(why));
        }
    };
    if let Some(why) = refusal::of(requests, pool, &sources, &rendered).await? {
        return Ok(Err(why));
    }
    if rendered.is_nearly_too_large() {
        tracing::warn!(
            pool = pool.view.name,
            config = rendered.name,
            bytes = rendered.bytes,
            "rendered configuration is close to the largest that can be stored"
        );
    }
    Ok(Ok(rendered))
}

fn source(config: api::MachineConfig) -> Source {
    let labels = config.metadata.labels.unwrap_or_default();
    let annotations = config.metadata.annotations.unwrap_or_default();
    Source {
        name: config.metadata.name.unwrap_or_default(),
        role: labels.get(label::ROLE).cloned(),
        generated_by: annotations
            .get(annotation::GENERATED_BY_CONTROLLER_VERSION)
            .cloned(),
        spec: serde_json::to_value(config.spec).unwrap_or_default(),
    }
}

/// Stores the configuration, then names it in the pool: never the other way round.
async fn publish(
    requests: &Requests,
    snapshot: &Snapshot,
    turn: &mut Turn,
    rendered: &Rendered,
    inputs: &Inputs,
) -> Result<(), wire::Error> {
    let wanted = annotations(rendered, &inputs.release);
    if let Some(known) = snapshot.configs.get(&rendered.name) {
        let is_current = known.generated_by.as_deref() == Some(BUILD)
            && known.release_version.as_ref() == Some(&inputs.release)
            && known.is_image_overridden == rendered.image_overridden_by.is_some();
        if !is_current {
            requests.annotate_config(&rendered.name, &wanted).await?;
        }
    } else {
        let object = object(&turn.pool, rendered, &wanted);
        turn.created = requests.create_config(&object).await?;
        if turn.created.is_some() {
            turn.said.extend(on_creation(rendered, &inputs.release));
        }
    }
    let configuration = configuration(rendered);
    if turn.pool.object.spec.configuration != configuration {
        turn.pool = requests
            .set_configuration(&turn.pool, &configuration)
            .await?;
    }
    Ok(())
}

fn on_creation(rendered: &Rendered, release: &str) -> Vec<Announcement> {
    let mut said = vec![Announcement::Rendered {
        config: rendered.name.clone(),
        release: release.to_owned(),
        build: BUILD.to_owned(),
    }];
    said.extend(
        rendered
            .image_overridden_by
            .iter()
            .map(|source| Announcement::ImageOverridden {
                source: source.clone(),
                image: rendered.spec.os_image_url.clone(),
            }),
    );
    said.extend(
        rendered
            .warnings
            .iter()
            .map(|(source, warning)| Announcement::Warned {
                source: source.clone(),
                warning: warning.to_string(),
            }),
    );
    said
}

fn annotations(rendered: &Rendered, release: &str) -> Value {
    let mut annotations = Map::new();
    annotations.insert(
        annotation::GENERATED_BY_CONTROLLER_VERSION.to_owned(),
        json!(BUILD),
    );
    annotations.insert(annotation::RELEASE_IMAGE_VERSION.to_owned(), json!(release));
    let overridden = rendered.image_overridden_by.is_some().then_some("true");
    annotations.insert(
        annotation::OS_IMAGE_URL_OVERRIDDEN.to_owned(),
        json!(overridden),
    );
    Value::Object(annotations)
}

fn object(pool: &Pool, rendered: &Rendered, annotations: &Value) -> Value {
    let mut annotations = annotations.clone();
    if let Some(annotations) = annotations.as_object_mut() {
        // `null` removes in a patch, and is no value in an object.
        annotations.retain(|_, value| !value.is_null());
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "MachineConfig",
        "metadata": {
            "name": rendered.name,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": API_VERSION,
                "kind": "MachineConfigPool",
                "name": pool.view.name,
                "uid": pool.view.uid,
                "controller": true,
                "blockOwnerDeletion": true
            }]
        },
        "spec": rendered.spec.to_value()
    })
}

fn configuration(rendered: &Rendered) -> Configuration {
    Configuration {
        reference: ObjectReference {
            name: Some(rendered.name.clone()),
            ..ObjectReference::default()
        },
        source: rendered
            .sources
            .iter()
            .map(|name| ObjectReference {
                api_version: Some(API_VERSION.to_owned()),
                kind: Some("MachineConfig".to_owned()),
                name: Some(name.clone()),
                ..ObjectReference::default()
            })
            .collect(),
    }
}
