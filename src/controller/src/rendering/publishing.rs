//! A rendered configuration is stored, then named in its pool.

use api::machineconfiguration::machine_config_pool::Configuration;
use api::machineconfiguration::{MachineConfig, annotation};
use chassis::program::BUILD;
use cluster::wire;
use k8s_openapi::api::core::v1::ObjectReference;
use machineconfig::name::is_as_rendered;
use machineconfig::render::Rendered;
use pool::view::PoolView;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{API_VERSION, RenderOutcome};
use crate::configs::ConfigMeta;
use crate::decide;
use crate::decide::rendering::Inputs;
use crate::events::PoolEvent;
use crate::requests::Requests;
use crate::store::{Pool, Snapshot};
use crate::stored::{ObjectState, is_of, was_edited};

/// Stores the configuration, then names it in the pool: never the other way round. What is stored
/// then; the inner error is about an object of that name that is not the pool's.
///
/// An object that was edited is restored before it is named.
pub(super) async fn publish(
    requests: &Requests,
    snapshot: &Snapshot,
    outcome: &mut RenderOutcome,
    rendered: &Rendered,
    inputs: &Inputs,
) -> Result<Result<ObjectState, Refused>, wire::Error> {
    let state = match store(requests, snapshot, outcome, rendered, inputs).await? {
        Ok(state) => state,
        Err(refused) => return Ok(Err(refused)),
    };
    let configuration = configuration(rendered);
    if outcome.pool.object.spec.configuration != configuration {
        let sets = decide::pins::names_to_write(&outcome.pool, snapshot);
        outcome.pool = requests
            .set_configuration(&outcome.pool, &configuration, sets.as_deref())
            .await?;
    }
    Ok(Ok(state))
}

/// An object that has the name of the configuration and is not the pool's.
pub(super) struct Refused {
    pub(super) why: String,
    pub(super) state: Option<ObjectState>,
}

async fn store(
    requests: &Requests,
    snapshot: &Snapshot,
    outcome: &mut RenderOutcome,
    rendered: &Rendered,
    inputs: &Inputs,
) -> Result<Result<ObjectState, Refused>, wire::Error> {
    let name = &rendered.name;
    let wanted = annotations(rendered, inputs);
    let pool = outcome.pool.view.clone();
    let stored = if let Some(stored) = snapshot.configs.get(name) {
        stored.as_ref().clone()
    } else {
        let object = object(&outcome.pool, rendered, &wanted);
        if let Some(created) = requests.create_config(&object).await? {
            let state = ObjectState::of(&created);
            outcome
                .events
                .extend(on_creation(rendered, &inputs.release));
            outcome.stored = Some(created);
            return Ok(Ok(state));
        }
        // The watch is late.
        match requests.read_config(name).await? {
            Some(config) => ConfigMeta::of(config.metadata),
            None => return Ok(Err(refused(name, &pool, None))),
        }
    };
    if !is_of(&stored, &pool) {
        return Ok(Err(refused(name, &pool, Some(&stored))));
    }
    let is_current = stored.generated_by.as_deref() == Some(BUILD)
        && stored.release_version.as_ref() == Some(&inputs.release)
        && stored.is_image_overridden == rendered.image_overridden_by.is_some()
        && stored.is_without_controller_config == inputs.is_without_controller_config;
    if !is_current {
        let change = json!({ "metadata": { "annotations": wanted } });
        let configs = requests.objects::<MachineConfig>().read_as::<IgnoredAny>();
        configs.patch(name, &change).await?;
    }
    let mut state = ObjectState::of(&stored);
    if was_edited(&stored)
        && let Some(config) = requests.read_config(name).await?
    {
        let value = serde_json::to_value(&config).unwrap_or_default();
        if !is_as_rendered(&pool.name, &value) {
            let restored = requests
                .restore_config(config, &rendered.spec.to_value())
                .await?;
            state = ObjectState::of(&restored);
            outcome.stored = Some(restored);
            let config = name.clone();
            outcome.events.push(PoolEvent::Restored { config });
        }
    }
    Ok(Ok(state))
}

fn refused(name: &str, pool: &PoolView, stored: Option<&ConfigMeta>) -> Refused {
    let why = format!(
        "MachineConfig {name} was not made for the pool: its controller is not MachineConfigPool {} (uid {}). Delete it, and the pool's own is made",
        pool.name, pool.uid
    );
    Refused {
        why,
        state: stored.map(ObjectState::of),
    }
}

fn on_creation(rendered: &Rendered, release: &str) -> Vec<PoolEvent> {
    let mut events = vec![PoolEvent::Rendered {
        config: rendered.name.clone(),
        release: release.to_owned(),
        build: BUILD.to_owned(),
    }];
    events.extend(
        rendered
            .image_overridden_by
            .iter()
            .map(|source| PoolEvent::ImageOverridden {
                source: source.clone(),
                image: rendered.spec.os_image_url.clone(),
            }),
    );
    events
}

fn annotations(rendered: &Rendered, inputs: &Inputs) -> Value {
    let mut annotations = Map::new();
    annotations.insert(
        annotation::GENERATED_BY_CONTROLLER_VERSION.to_owned(),
        json!(BUILD),
    );
    annotations.insert(
        annotation::RELEASE_IMAGE_VERSION.to_owned(),
        json!(inputs.release),
    );
    let overridden = rendered.image_overridden_by.is_some().then_some("true");
    annotations.insert(
        annotation::OS_IMAGE_URL_OVERRIDDEN.to_owned(),
        json!(overridden),
    );
    let without = inputs.is_without_controller_config.then_some("true");
    annotations.insert(
        annotation::WITHOUT_CONTROLLER_CONFIG.to_owned(),
        json!(without),
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
