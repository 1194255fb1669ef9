//! A rendered configuration is stored, then named in its pool.

use api::machineconfiguration::annotation;
use api::machineconfiguration::machine_config_pool::Configuration;
use cluster::wire;
use k8s_openapi::api::core::v1::ObjectReference;
use machineconfig::render::Rendered;
use serde_json::{Map, Value, json};

use super::inputs::Inputs;
use super::{API_VERSION, RenderOutcome};
use crate::events::Announcement;
use crate::requests::Requests;
use crate::store::{Pool, Snapshot};
use crate::version::BUILD;

/// Stores the configuration, then names it in the pool: never the other way round.
pub(super) async fn publish(
    requests: &Requests,
    snapshot: &Snapshot,
    outcome: &mut RenderOutcome,
    rendered: &Rendered,
    inputs: &Inputs,
) -> Result<(), wire::Error> {
    let wanted = annotations(rendered, inputs);
    if let Some(known) = snapshot.configs.get(&rendered.name) {
        let is_current = known.generated_by.as_deref() == Some(BUILD)
            && known.release_version.as_ref() == Some(&inputs.release)
            && known.is_image_overridden == rendered.image_overridden_by.is_some()
            && known.is_without_controller_config == inputs.is_without_controller_config;
        if !is_current {
            requests.annotate_config(&rendered.name, &wanted).await?;
        }
    } else {
        let object = object(&outcome.pool, rendered, &wanted);
        outcome.created = requests.create_config(&object).await?;
        if outcome.created.is_some() {
            outcome.said.extend(on_creation(rendered, &inputs.release));
        }
    }
    let configuration = configuration(rendered);
    if outcome.pool.object.spec.configuration != configuration {
        outcome.pool = requests
            .set_configuration(&outcome.pool, &configuration)
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
