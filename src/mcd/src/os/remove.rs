//! `remove`: kept images, the count of boots, the units in deployments that are not booted, and the
//! pins of images, for which libostree, a writable `/boot` and the container runtime are needed.
//! `mcd host-remove` removes the rest.

use anyhow::Context as _;
use host::files::Root;
use tracing::info;

use super::context::{self, Context, lock_deployments};
use super::pin;
use crate::own_units;
use crate::protocol::{HelperReport, RemoveDetails};

pub(super) fn run(context: &Context) -> anyhow::Result<HelperReport> {
    let _lock = context.lock()?;
    let store = context.store();
    if let Some(refusal) = context::refused_while_under_way(&store)? {
        return Ok(refusal);
    }
    let has_switched = store.switch()?.is_some() || store.last()?.is_some();
    let mut deployments = lock_deployments()?;
    let mut removed = Vec::new();
    // Before `/var/lib/slipway` goes: a host that boots one of them finds the units with nothing to
    // do, or none.
    for deployment in deployments.list()? {
        if deployment.is_booted {
            continue;
        }
        let root = Root::open(&deployment.path, None)?;
        let units = own_units::remove(&root)
            .with_context(|| format!("cannot remove the units of deployment {}", deployment.id))?;
        let base = deployment.path.display();
        removed.extend(units.into_iter().map(|path| format!("{base}{path}")));
    }
    // The counter of a host that was never switched is another program's.
    if has_switched {
        deployments.stop_counting()?;
    }
    let images = deployments.release_images()?;
    removed.extend(
        images
            .into_iter()
            .map(|image| format!("kept image {image}")),
    );
    removed.extend(pin::drop_all(context)?);
    info!(
        removed = removed.len(),
        "removed what is outside of the booted /etc and /var"
    );
    Ok(HelperReport::done().with(&RemoveDetails { removed })?)
}
