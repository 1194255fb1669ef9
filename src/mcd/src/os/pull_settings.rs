//! How this host pulls: the files that say so, checked, and laid out for skopeo.

use host::files::Root;
use host::process::proxy_environment;
use host::pull::Puller;
use node_update::pull::{self, FileChanges, PullSettings};
use tracing::warn;

/// The settings of a pull, or the faults of the files that say them. `what` is what is pulled.
pub(super) fn read(
    root: &Root,
    changes: &FileChanges<'_>,
    home: &str,
    what: &str,
) -> anyhow::Result<Result<PullSettings, Vec<String>>> {
    let (files, shipped) = host::pull::read(root)?;
    let settings = pull::settings(&files, &shipped, changes, home);
    for fault in settings.iter().flat_map(|settings| &settings.left_out) {
        warn!(
            image = what,
            reason = fault,
            "pulls without the credentials of a file"
        );
    }
    Ok(settings)
}

/// Lays settings out, and has skopeo go through the proxy.
pub(super) fn lay_out(root: &Root, home: &str, settings: &PullSettings) -> anyhow::Result<Puller> {
    let mut puller = host::pull::lay_out(root, home, settings)?;
    let mut environment = settings.proxy.clone().unwrap_or_else(proxy_environment);
    environment.append(&mut puller.environment);
    puller.environment = environment;
    Ok(puller)
}
