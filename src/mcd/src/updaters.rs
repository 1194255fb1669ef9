//! Other programs that update a host's OS: two of them at once leave it to chance which wins.

use host::execute::{StepError, Units};

/// Units that update the OS by themselves, on the systems that ship them.
const UPDATERS: &[&str] = &[
    "zincati.service",
    "rpm-ostreed-automatic.timer",
    "bootc-fetch-apply-updates.timer",
];

/// One sentence for each that would run here.
///
/// One that is enabled but kept from running by its own conditions, as the drop-in of OpenShift's
/// MCO keeps Zincati, does not count.
pub(crate) fn found(units: &mut dyn Units) -> Result<Vec<String>, StepError> {
    let mut reasons = Vec::new();
    for unit in UPDATERS {
        let is_enabled = units.file_state(unit)?.starts_with("enabled");
        if is_enabled && units.active_state(unit)?.is_some() {
            reasons.push(format!(
                "unit {unit} is enabled: it updates this host by itself"
            ));
        }
    }
    Ok(reasons)
}
