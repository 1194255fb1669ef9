//! Whether the nodes of a pool can go from what they run to what was rendered. Better refused here
//! than on the first node.

use api::operator::MachineConfiguration;
use cluster::wire;
use machineconfig::render::{Rendered, Source};
use machineconfig::spec::{NodeConfig, Spec};
use node_update::reconcile::{Exempt, rejections, rejections_in_image_mode};
use node_update::rejection::Rejection;

use crate::requests::Requests;
use crate::store::Pool;

/// Why the pool's nodes cannot follow, with the source to blame; nothing when they can, or when
/// what they run is not there to be compared.
///
/// `has_image` says that the pool is in image mode. `stream` is what a pool asks for in a cluster
/// that names no streams: its image is not replaced by the release's, which may be of another one.
///
/// Source: `docs/reference/controller.md`, "Reconcilability".
///
/// # Errors
/// Those of the API server.
pub(super) async fn of(
    requests: &Requests,
    pool: &Pool,
    sources: &[Source],
    rendered: &Rendered,
    stream: Option<&str>,
    has_image: bool,
) -> Result<Option<String>, wire::Error> {
    let Some(current) = pool
        .view
        .target_config()
        .filter(|name| *name != rendered.name)
    else {
        return Ok(None);
    };
    let Some(config) = requests.read_config(current).await? else {
        return Ok(None);
    };
    let value = serde_json::to_value(config).unwrap_or_default();
    // What nodes run was rendered once; if it cannot be read now, they will say what they can do.
    let Ok((old, _)) = NodeConfig::in_force(&value) else {
        return Ok(None);
    };
    let (from, to) = (&old.spec.os_image_url, &rendered.spec.os_image_url);
    if let Some(stream) = stream
        && rendered.image_overridden_by.is_none()
        && from != to
    {
        return Ok(Some(format!(
            "spec.osImageStream {stream} is not known, because there is no OSImageStream cluster: the OS image would change from {from:?} to {to:?}, which may be of another stream"
        )));
    }
    let exempt = exempt(requests.read_settings().await?);
    let rejections = if has_image {
        rejections_in_image_mode(&old.spec, &rendered.spec, exempt)
    } else {
        rejections(&old.spec, &rendered.spec, exempt)
    };
    if rejections.is_empty() {
        return Ok(None);
    }
    Ok(Some(sentences(current, &rejections, rendered, sources)))
}

/// One sentence for each source that asks for something rejected.
fn sentences(
    current: &str,
    rejections: &[Rejection],
    rendered: &Rendered,
    sources: &[Source],
) -> String {
    let mut ordered: Vec<&Source> = sources.iter().collect();
    ordered.sort_by_key(|source| (source.role.as_deref() != Some("worker"), &source.name));
    // They were read once to be rendered.
    let specs: Vec<(&str, Spec)> = ordered
        .into_iter()
        .filter_map(|source| Some((source.name.as_str(), Spec::parse(&source.spec).ok()?.0)))
        .collect();
    let mut by_source: Vec<(&str, Vec<String>)> = Vec::new();
    for rejection in rejections {
        let named = specs.iter().map(|(name, spec)| (*name, spec));
        let source = rejection
            .source_in(&rendered.spec, named)
            .unwrap_or(&rendered.name);
        match by_source.iter_mut().find(|(name, _)| *name == source) {
            Some((_, why)) => why.push(rejection.to_string()),
            None => by_source.push((source, vec![rejection.to_string()])),
        }
    }
    let sentences: Vec<String> = by_source
        .iter()
        .map(|(name, why)| {
            format!(
                "reconciliation failed between current config {current:?} and base config {name:?}: {}",
                why.join("; ")
            )
        })
        .collect();
    sentences.join("; ")
}

fn exempt(settings: Option<MachineConfiguration>) -> Exempt {
    let overrides = settings
        .and_then(|settings| settings.spec.irreconcilable_validation_overrides)
        .unwrap_or_default();
    let has = |name: &str| overrides.storage.iter().any(|kind| kind == name);
    Exempt {
        disks: has("Disks"),
        filesystems: has("FileSystems"),
        raid: has("Raid"),
    }
}
