//! Whether the nodes of a pool can go from what they run to what was rendered. Better refused here than on the first node.

use api::MachineConfiguration;
use cluster::wire;
use machineconfig::reconcile::{Exempt, Reason, refusals};
use machineconfig::render::{Base, Rendered, Source, render};
use machineconfig::spec::Spec;

use crate::requests::Requests;
use crate::store::Pool;

/// Why the pool's nodes cannot follow, with the source to blame; nothing when they can, or when what they run is not there to be compared.
///
/// Source: upstream's render controller, `controller.md` 2.9.
///
/// # Errors
/// Those of the API server.
pub(super) async fn of(
    requests: &Requests,
    pool: &Pool,
    sources: &[Source],
    base: &Base,
    rendered: &Rendered,
) -> Result<Option<String>, wire::Error> {
    let Some(current) = pool.view.target.as_deref().filter(|name| *name != rendered.name) else {
        return Ok(None);
    };
    let Some(config) = requests.read_config(current).await? else {
        return Ok(None);
    };
    let value = serde_json::to_value(config.spec).unwrap_or_default();
    // What nodes run was rendered once; if it cannot be read now, they will say what they can do.
    let Ok((old, _)) = Spec::parse(&value) else {
        return Ok(None);
    };
    let exempt = exempt(requests.read_settings().await?);
    let reasons = refusals(&old, &rendered.spec, exempt);
    if reasons.is_empty() {
        return Ok(None);
    }
    let blamed = blame(&pool.view.name, sources, base, &old, exempt);
    let blamed = blamed.unwrap_or(&rendered.name);
    let reasons: Vec<String> = reasons.iter().map(Reason::to_string).collect();
    Ok(Some(format!(
        "reconciliation failed between current config {current:?} and base config {blamed:?}: {}",
        reasons.join("; ")
    )))
}

/// The source without which nothing would be refused.
fn blame<'a>(
    pool: &str,
    sources: &'a [Source],
    base: &Base,
    old: &Spec,
    exempt: Exempt,
) -> Option<&'a str> {
    let is_to_blame = |blamed: &&Source| {
        let others: Vec<Source> = sources
            .iter()
            .filter(|source| source.name != blamed.name)
            .cloned()
            .collect();
        render(pool, &others, base)
            .is_ok_and(|rendered| refusals(old, &rendered.spec, exempt).is_empty())
    };
    sources
        .iter()
        .find(is_to_blame)
        .map(|source| source.name.as_str())
}

fn exempt(settings: Option<MachineConfiguration>) -> Exempt {
    let overrides = settings
        .and_then(|settings| settings.spec.irreconcilable_validation_overrides)
        .unwrap_or_default();
    let has = |name: &str| overrides.storage.iter().any(|known| known == name);
    Exempt {
        disks: has("Disks"),
        filesystems: has("FileSystems"),
        raid: has("Raid"),
    }
}
