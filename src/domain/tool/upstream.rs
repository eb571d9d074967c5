//! Metadata of a tool from its upstream MCP server.

use serde::Serialize;
use serde_json::{Map, Value};

/// Metadata from an upstream server that has no equivalent in a definition. MCP clients receive it unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = ToldByUpstream)]
pub struct UpstreamMetadata {
    /// Its `title`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its `annotations`, including annotations that the service does not use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub annotations: Option<Map<String, Value>>,
    /// Its `icons`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub icons: Option<Value>,
    /// Its `_meta`.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub meta: Option<Map<String, Value>>,
}
