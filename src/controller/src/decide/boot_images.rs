//! What MachineConfiguration `cluster` requests of boot images. Slipway keeps none of machine sets
//! up to date, and names each field that requests it.

use api::operator::machine_configuration::{self, MachineConfigurationSpec};
use serde_json::Value;

/// The word of a selection, and of skew enforcement, that turns it off.
const OFF: &str = "None";

/// Which fields have no effect, for people; nothing where none requests anything. A field of
/// another form than the API's requests something, too.
pub fn unhandled(spec: &MachineConfigurationSpec) -> Option<String> {
    let images = spec.managed_boot_images.iter().flat_map(managers);
    let skew = spec.boot_image_skew_enforcement.iter();
    let skew = skew.filter_map(|skew| {
        let mode = text(skew, "/mode");
        (mode != Some(OFF)).then(|| {
            let mode = mode.unwrap_or("unknown");
            format!("spec.bootImageSkewEnforcement (mode {mode})")
        })
    });
    let fields: Vec<String> = images.chain(skew).collect();
    (!fields.is_empty()).then(|| {
        format!(
            "MachineConfiguration {}: without effect, because boot images are not handled: {}",
            machine_configuration::NAME,
            fields.join(", ")
        )
    })
}

/// The managers of machines whose boot images are to be kept up to date. An empty list opts out.
fn managers(images: &Value) -> Vec<String> {
    const FIELD: &str = "spec.managedBootImages";
    let Some(managers) = images.get("machineManagers") else {
        let is_empty = images.as_object().is_some_and(serde_json::Map::is_empty);
        return if is_empty {
            Vec::new()
        } else {
            vec![FIELD.to_owned()]
        };
    };
    let Some(managers) = managers.as_array() else {
        return vec![format!("{FIELD}.machineManagers")];
    };
    let managers = managers.iter().enumerate();
    let named = managers.filter_map(|(place, manager)| {
        let mode = text(manager, "/selection/mode");
        (mode != Some(OFF)).then(|| {
            let resource = text(manager, "/resource").unwrap_or("unknown");
            let mode = mode.unwrap_or("unknown");
            format!("{FIELD}.machineManagers[{place}] ({resource}, mode {mode})")
        })
    });
    named.collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::read;

    #[test]
    fn each_field_that_requests_something_is_named() {
        let manager = |resource: &str, mode: &str| json!({ "resource": resource, "selection": { "mode": mode } });
        let images =
            |managers: &[Value]| json!({ "managedBootImages": { "machineManagers": managers } });
        let table = [
            (json!({}), None),
            (json!({ "managedBootImages": {} }), None),
            (images(&[]), None),
            (images(&[manager("machinesets", "None")]), None),
            (
                json!({ "bootImageSkewEnforcement": { "mode": "None" } }),
                None,
            ),
            (
                images(&[
                    manager("controlplanemachinesets", "None"),
                    manager("machinesets", "Partial"),
                ]),
                Some("spec.managedBootImages.machineManagers[1] (machinesets, mode Partial)"),
            ),
            (
                images(&[json!({})]),
                Some("spec.managedBootImages.machineManagers[0] (unknown, mode unknown)"),
            ),
            (
                json!({ "managedBootImages": { "machineManagers": "all" } }),
                Some("spec.managedBootImages.machineManagers"),
            ),
            (
                json!({ "managedBootImages": { "later": 1 } }),
                Some("spec.managedBootImages"),
            ),
            (
                json!({ "bootImageSkewEnforcement": {} }),
                Some("spec.bootImageSkewEnforcement (mode unknown)"),
            ),
            (
                json!({
                    "managedBootImages": { "machineManagers": [manager("machinesets", "All")] },
                    "bootImageSkewEnforcement": { "mode": "Manual", "manual": { "mode": "OCPVersion" } }
                }),
                Some(
                    "spec.managedBootImages.machineManagers[0] (machinesets, mode All), spec.bootImageSkewEnforcement (mode Manual)",
                ),
            ),
        ];
        for (spec, fields) in table {
            let head = "MachineConfiguration cluster: without effect, because boot images are not handled: ";
            let expected = fields.map(|fields| format!("{head}{fields}"));
            assert_eq!(unhandled(&read(&spec)), expected, "{spec}");
        }
    }
}
