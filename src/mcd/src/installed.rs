//! What a host was installed with, against the configuration that it is recorded to be in.

use host::files::Root;
use host::record;
use machineconfig::spec::NodeConfig;
use node_update::reconcile::{Difference, differs_from_installed};
use serde_json::Value;

/// The MachineConfig that the machine was installed with.
///
/// Source: `docs/reference/daemon.md`, "Host files".
const INSTALLED: &str = "/etc/mcs-machine-config-content.json";

/// What of the record's configuration the host cannot have; nothing where it does not say what it
/// was installed with.
///
/// # Errors
/// A file that cannot be read or understood.
pub(crate) fn differences(root: &Root) -> anyhow::Result<Vec<Difference>> {
    let (Some(bytes), Some(record)) = (root.read(INSTALLED)?, record::read(root)?) else {
        return Ok(Vec::new());
    };
    let installed: Value = serde_json::from_slice(&bytes)?;
    let (installed, _) = NodeConfig::in_force(&installed)?;
    let current = record.machine_config()?;
    Ok(differs_from_installed(&installed.spec, &current.spec))
}
