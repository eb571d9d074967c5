//! What an upstream MCP server says of a tool.

use serde::Serialize;
use serde_json::{Map, Value};

/// What an upstream server says of a tool, and a definition of ours has no word for. MCP's clients are told it as it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = ToldByUpstream)]
pub struct UpstreamMetadata {
    /// Its `title`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its `annotations`, also those that the service has no use for.
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
