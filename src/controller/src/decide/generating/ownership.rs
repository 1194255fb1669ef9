//! Whether a MachineConfig was generated here.

use generated::templates;

use crate::configs::ConfigMeta;

/// Why a MachineConfig of the name was not generated, if so. Which object of a kind controls it
/// matters not: one of the same name that was deleted may have left it.
pub(crate) fn foreign_config(stored: &ConfigMeta, maker: Option<&str>) -> Option<String> {
    let fault = match maker {
        // OpenShift's MCO makes others for the same object: they stay as they are.
        Some(kind) if kind == templates::MAKER && !stored.is_base_template => {
            Some("it is not of this controller's templates".to_owned())
        }
        Some(kind) => {
            let controller = stored.controller.as_ref();
            let is_its = controller.is_some_and(|controller| controller.kind == kind);
            (!is_its).then(|| format!("no {kind} controls it"))
        }
        None => stored
            .generated_by
            .is_none()
            .then(|| "no controller generated it".to_owned()),
    }?;
    Some(format!(
        "MachineConfig {} is there, and {fault}: delete it, and it is generated",
        stored.name
    ))
}
