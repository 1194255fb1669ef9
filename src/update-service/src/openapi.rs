//! The description of the interface.

use serde_json::{Value, json};

use crate::request::{JSON, VENDOR_TYPE};

/// The description, for a server with this prefix. Source: `OpenAPI` 3.0.
pub fn openapi(prefix: &str) -> Value {
    let parameter = |name: &str, description: &str, pattern: &str| {
        json!({
            "name": name, "in": "query", "description": description, "required": name == "channel",
            "schema": {"type": "string", "pattern": pattern}
        })
    };
    let error = json!({
        "description": "An error",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    });
    let graph = json!({"schema": {"$ref": "#/components/schemas/Graph"}});
    let get = json!({
        "get": {
            "summary": "The graph of a channel and architecture",
            "parameters": [
                parameter("channel", "Channel", r"^[0-9a-z\-\.]+$"),
                parameter("arch", "Architecture, amd64 if absent", "^[0-9a-z]+$"),
            ],
            "responses": {
                "200": {"description": "The graph", "content": {JSON: graph, VENDOR_TYPE: graph}},
                "304": {"description": "The client has it"},
                "400": error, "406": error, "503": error
            }
        }
    });
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Update service", "version": env!("CARGO_PKG_VERSION")},
        "servers": [{"url": if prefix.is_empty() { "/" } else { prefix }}],
        "paths": {"/graph": get, "/v1/graph": get},
        "components": {"schemas": {
            "Error": {"type": "object", "required": ["kind", "value"], "properties": {
                "kind": {"type": "string"}, "value": {"type": "string"}
            }},
            "Graph": {"type": "object", "properties": {
                "version": {"type": "integer"},
                "nodes": {"type": "array", "items": {"type": "object"}},
                "edges": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
                "conditionalEdges": {"type": "array", "items": {"type": "object"}}
            }}
        }}
    })
}
