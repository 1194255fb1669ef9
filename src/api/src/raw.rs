//! Schemas of fields whose content another program owns; it is kept as written.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An object of any shape.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of objects of any shape.
pub(crate) fn objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true }
    })
}

/// An object of any shape, or `null`.
pub(crate) fn nullable_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

/// An object without members, or `null`.
pub(crate) fn nullable_empty(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "nullable": true })
}

/// Bytes in base64.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "byte" })
}

/// Bytes in base64, or `null`.
pub(crate) fn nullable_bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "byte", "nullable": true })
}
