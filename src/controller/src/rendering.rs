//! The configuration of a pool: rendered from its sources, stored, and named in the pool.

use std::collections::BTreeSet;
use std::time::Duration;

use api::machineconfiguration::{MachineConfig, annotation, label};
use chassis::report::Chain;
use cluster::list::Select;
use cluster::wire;
use machineconfig::render::{self, Rendered, Source, render};
use pool::selector::{InvalidSelector, Selector};
use pool::status::RenderResult;
use tokio::time::Instant;

use crate::configs::ConfigMeta;
use crate::decide::rendering::{Inputs, Preparation, SourceVersion, missing, prepare};
use crate::events::PoolEvent;
use crate::requests::Requests;
use crate::store::{Pool, Snapshot};
use crate::stored::ObjectState;

pub mod preview;
mod publishing;
mod rejection;

/// How long a refusal stands before it is looked at again: an administrator may have let the change
/// through.
const REFUSED: Duration = Duration::from_mins(1);

/// API version of what is written here.
const API_VERSION: &str = "machineconfiguration.openshift.io/v1";

/// The last rendering of a pool, and what it depended on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderCache {
    inputs: Inputs,
    /// How it ended; the text of the pool's condition.
    pub outcome: RenderResult,
    /// Whether a user's configuration replaces the OS image.
    pub is_image_overridden: bool,
    /// From when it is done again though nothing changed.
    again: Option<Instant>,
    /// The object of the rendered name, in the state that was found or made.
    object: Option<(String, Option<ObjectState>)>,
    /// Sources, as they were when their warnings were last recorded.
    warned: Vec<SourceVersion>,
}

impl RenderCache {
    fn failed(inputs: Inputs, outcome: RenderResult, warned: Vec<SourceVersion>) -> Self {
        Self {
            inputs,
            outcome,
            is_image_overridden: false,
            again: None,
            object: None,
            warned,
        }
    }

    fn is_current(&self, inputs: &Inputs, snapshot: &Snapshot) -> bool {
        let state_of = |name: &str| {
            let stored = snapshot.configs.get(name);
            stored.map(|stored| ObjectState::of(stored))
        };
        self.inputs == *inputs
            && self.again.is_none_or(|at| Instant::now() < at)
            && self
                .object
                .as_ref()
                .is_none_or(|(name, state)| *state == state_of(name))
    }
}

/// Why there is no rendered configuration. But for the first two, the sources are wrong; it stays
/// so until one of them changes.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Request(#[from] wire::Error),
    /// The nodes cannot follow, unless an administrator lets them; why, for people.
    #[error("{0}")]
    Rejected(String),
    #[error("no MachineConfigs are selected: spec.machineConfigSelector is missing")]
    NoSelector,
    #[error("spec.machineConfigSelector selects everything: the pool is not rendered")]
    SelectingAll,
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
    #[error("no MachineConfigs found matching selector {0}")]
    NoSources(String),
    #[error("could not generate rendered MachineConfig")]
    Merge(#[from] render::Error),
    /// What the pool names is gone.
    #[error("{message}", message = gone(.0))]
    NoControllerConfig(String),
    #[error(
        "MachineConfig {0}: cannot override MachineConfig osImageURL and set MachineConfigPool spec.osImageStream.name simultaneously"
    )]
    ImageAndStream(String),
}

/// What a reconcile of a pool's rendering did.
#[derive(Debug)]
pub struct RenderOutcome {
    /// The pool, as it is now.
    pub pool: Pool,
    pub events: Vec<PoolEvent>,
    /// The configuration that was stored or restored, if one was: the watch may be behind.
    pub stored: Option<ConfigMeta>,
    /// How the last rendering ended, where there was one.
    pub result: Option<RenderResult>,
    /// What it waits for, if it does.
    pub waits: Option<String>,
}

/// Renders where something changed since the rendering in `cache`, stores the result and names it
/// in the pool.
///
/// What is wrong with the sources is an outcome, kept in `cache`; it is tried again when one of
/// them changes.
///
/// # Errors
/// Those of the API server that may pass, so that the pool is reconciled again.
pub async fn reconcile(
    requests: &Requests,
    snapshot: &Snapshot,
    pool: Pool,
    cache: &mut Option<RenderCache>,
) -> Result<RenderOutcome, wire::Error> {
    let mut outcome = RenderOutcome {
        pool,
        events: Vec::new(),
        stored: None,
        result: cache.as_ref().map(|cache| cache.outcome.clone()),
        waits: None,
    };
    if outcome.pool.view.is_deleted {
        return Ok(outcome);
    }
    let mut inputs = match prepare(&outcome.pool, snapshot) {
        Preparation::Wait(why) => {
            tracing::debug!(
                pool = outcome.pool.view.name,
                reason = why,
                "not rendered yet"
            );
            outcome.waits = Some(why);
            return Ok(outcome);
        }
        Preparation::Impossible(why) => {
            // That took no request, so it needs no remembering.
            outcome.result = Some(failed(&outcome.pool, &why));
            return Ok(outcome);
        }
        Preparation::SelectingAll => {
            outcome.events.push(PoolEvent::SelectingAll {
                what: "machineconfigs",
            });
            return Ok(outcome);
        }
        Preparation::Inputs(inputs) => inputs,
    };
    if cache
        .as_ref()
        .is_some_and(|cache| cache.is_current(&inputs, snapshot))
    {
        return Ok(outcome);
    }
    let warned = cache.as_ref().map(|cache| cache.warned.clone());
    let warned = warned.unwrap_or_default();
    let rendered = match make(requests, &outcome.pool, &inputs).await {
        Ok(rendered) => rendered,
        Err(Failure::Request(error)) => return Err(error),
        Err(failure) => {
            let is_rejected = matches!(failure, Failure::Rejected(_));
            let again = is_rejected.then(|| Instant::now() + REFUSED);
            let result = failed(&outcome.pool, &Chain(&failure).to_string());
            outcome.result = Some(result.clone());
            *cache = Some(RenderCache {
                again,
                ..RenderCache::failed(inputs, result, warned)
            });
            return Ok(outcome);
        }
    };
    match publishing::publish(requests, snapshot, &mut outcome, &rendered, &inputs).await {
        Ok(Ok(state)) => {
            inputs.target = Some((rendered.name.clone(), true));
            outcome.result = Some(RenderResult::Rendered);
            outcome.events.extend(warnings(&rendered, &inputs, &warned));
            let warned = inputs.sources.clone();
            *cache = Some(RenderCache {
                inputs,
                outcome: RenderResult::Rendered,
                is_image_overridden: rendered.image_overridden_by.is_some(),
                again: None,
                object: Some((rendered.name, Some(state))),
                warned,
            });
            Ok(outcome)
        }
        Ok(Err(refused)) => {
            let result = failed(&outcome.pool, &refused.why);
            outcome.result = Some(result.clone());
            outcome.events.push(PoolEvent::Refused {
                message: refused.why,
            });
            *cache = Some(RenderCache {
                object: Some((rendered.name, refused.state)),
                ..RenderCache::failed(inputs, result, warned)
            });
            Ok(outcome)
        }
        Err(error) if error.is_transient() => Err(error),
        Err(error) => {
            // Refused for good: what refuses may change without the sources changing, so the next
            // reconcile tries again.
            outcome.result = Some(failed(&outcome.pool, &Chain(&error).to_string()));
            *cache = None;
            Ok(outcome)
        }
    }
}

/// Warnings about sources that are new, or changed since their warnings were last recorded. Such a
/// change may alter nothing that is rendered.
fn warnings(
    rendered: &Rendered,
    inputs: &Inputs,
    warned: &[SourceVersion],
) -> impl Iterator<Item = PoolEvent> {
    let new = inputs
        .sources
        .iter()
        .filter(|source| !warned.contains(source));
    let new: BTreeSet<&str> = new.map(SourceVersion::name).collect();
    let warnings = rendered.warnings.iter();
    warnings
        .filter(move |(source, _)| new.contains(source.as_str()))
        .map(|(source, warning)| PoolEvent::Warned {
            source: source.clone(),
            warning: warning.to_string(),
        })
}

fn gone(target: &str) -> String {
    missing(&format!(
        "{target}, which the pool names, is gone and may have been made from it"
    ))
}

fn failed(pool: &Pool, why: &str) -> RenderResult {
    let pool = &pool.view.name;
    RenderResult::Failed(format!(
        "Failed to render configuration for pool {pool}: {why}"
    ))
}

/// Reads the sources and renders them.
async fn make(requests: &Requests, pool: &Pool, inputs: &Inputs) -> Result<Rendered, Failure> {
    let Ok(Selector::Labels(selector)) = &pool.view.config_selector else {
        return Err(Failure::NoSelector);
    };
    if inputs.sources.is_empty() {
        return Err(Failure::NoSources(selector.to_string()));
    }
    let sources: Vec<Source> = requests
        .objects::<MachineConfig>()
        .list(Select::Labels(&selector.to_string()))
        .await?
        .into_iter()
        .filter_map(source)
        .collect();
    let rendered = render(&pool.view.name, &sources, &inputs.base)?;
    if let Some((gone, false)) = &inputs.target
        && inputs.is_without_controller_config
        && *gone != rendered.name
    {
        // What it was made from is unknown. From the same sources it gets the same name and is made
        // again.
        return Err(Failure::NoControllerConfig(gone.clone()));
    }
    let stream = inputs.stream.as_deref();
    if let (Some(_), Some(source)) = (stream, &rendered.image_overridden_by)
        && inputs.has_streams
    {
        return Err(Failure::ImageAndStream(source.clone()));
    }
    // Without streams, the image of a pool that asks for one is not replaced.
    let stream = stream.filter(|_| !inputs.has_streams);
    if let Some(why) = rejection::of(
        requests,
        pool,
        &sources,
        &rendered,
        stream,
        inputs.has_image,
    )
    .await?
    {
        return Err(Failure::Rejected(why));
    }
    if rendered.is_nearly_too_large() {
        tracing::warn!(
            pool = pool.view.name,
            config = rendered.name,
            bytes = rendered.bytes,
            "rendered configuration is close to the largest that can be stored"
        );
    }
    Ok(rendered)
}

/// A source; none where the MachineConfig has no labels, because no pool selects it.
fn source(config: MachineConfig) -> Option<Source> {
    let labels = config.metadata.labels.filter(|labels| !labels.is_empty())?;
    let annotations = config.metadata.annotations.unwrap_or_default();
    Some(Source {
        name: config.metadata.name.unwrap_or_default(),
        role: labels.get(label::ROLE).cloned(),
        generated_by: annotations
            .get(annotation::GENERATED_BY_CONTROLLER_VERSION)
            .cloned(),
        spec: serde_json::to_value(config.spec).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
