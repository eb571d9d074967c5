//! The schemas of the bodies of `POST /tool-calls` in the OpenAPI document.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::Components;

use super::options::{CallOptions, Options};
use crate::domain::schemas::written;
use toolpost_core::described_as;

/// The schemas of bodies without a Rust type, by name.
const SCHEMAS: &str = include_str!("documented.json");

/// One call.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "read only by the OpenAPI document")]
pub(crate) struct CallItem {
    /// The name of the tool.
    #[schema(max_length = 512)]
    name: String,
    /// The id that the caller gives the call, up to 512 characters.
    #[schema(max_length = 512)]
    id: Option<String>,
    /// An object, or the JSON text that the model wrote. A missing, blank or `null` value is `{}`.
    #[schema(value_type = Option<Value>)]
    arguments: Option<Value>,
}

/// One call of a batch.
#[derive(Debug, utoipa::ToSchema)]
#[expect(dead_code, reason = "read only by the OpenAPI document")]
pub(crate) struct BatchItem {
    #[serde(flatten)]
    call: CallItem,
    #[serde(flatten)]
    options: CallOptions,
}

/// The schemas of the bodies, by their names.
const BODIES: [&str; 7] = [
    "SingleCall",
    "BatchOfCalls",
    "OpenAiChatMessage",
    "OpenAiResponse",
    "AnthropicMessage",
    "GeminiAnswer",
    "PiecesOfMessage",
];

/// The body of `POST /tool-calls`.
pub(in crate::http) enum CallBody {}
described_as!(CallBody as "CallBody", [CallItem, BatchItem, CallOptions, Options], {
    "anyOf": BODIES.map(|name| json!({"$ref": format!("#/components/schemas/{name}")})),
    "description": "The body of `POST /tool-calls`. Its members or `format` determine the format."
});

/// Adds the schemas of bodies without a Rust type.
pub(in crate::http) fn describe_bodies(components: &mut Components) {
    // Tests of the OpenAPI document fail if this is not valid JSON.
    let schemas: BTreeMap<String, Value> = serde_json::from_str(SCHEMAS).unwrap_or_default();
    components.schemas.extend(schemas.into_iter().map(|(name, schema)| (name, written(schema))));
}
