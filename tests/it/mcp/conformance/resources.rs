//! The resources of the suite.

use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};

use super::data::IMAGE;
use super::server::ConformanceServer;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

impl ConformanceServer {
    pub fn resources(&self) -> Result<ListResourcesResult, ErrorData> {
        let all = json!([
            {"uri": TEXT, "name": "static-text", "description": "A text.", "mimeType": "text/plain"},
            {"uri": BINARY, "name": "static-binary", "description": "An image.", "mimeType": "image/png"},
            {"uri": WATCHED, "name": "watched-resource", "description": "A text to subscribe to.",
                "mimeType": "text/plain"},
        ]);
        Ok(ListResourcesResult::with_all_items(read::<Vec<Resource>>(all)?))
    }

    pub fn resource_templates(&self) -> Result<ListResourceTemplatesResult, ErrorData> {
        let all = json!([{"uriTemplate": "test://template/{id}/data", "name": "template",
            "description": "Data of one id.", "mimeType": "application/json"}]);
        Ok(ListResourceTemplatesResult::with_all_items(read::<Vec<ResourceTemplate>>(all)?))
    }

    pub fn resource(&self, uri: &str) -> Result<ReadResourceResponse, ErrorData> {
        let text = |text: &str, mime_type: &str| json!({"uri": uri, "mimeType": mime_type, "text": text});
        let contents = match uri {
            TEXT => text("This is the content of the static text resource.", "text/plain"),
            WATCHED => text("Watched resource content", "text/plain"),
            BINARY => json!({"uri": uri, "mimeType": "image/png", "blob": IMAGE}),
            _ => {
                let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
                let Some(id) = id else {
                    return Err(ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri}))));
                };
                let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                text(&data.to_string(), "application/json")
            }
        };
        Ok(ReadResourceResult::new(vec![read::<ResourceContents>(contents)?]).into())
    }
}

/// Converts a fixture to the type of rmcp.
pub fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
