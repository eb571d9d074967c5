//! What the official conformance suite of MCP asks a server for, off by default: tools, prompts and resources with fixed
//! answers. Tools that only answer go the way of every call; those that ask their client something are answered here.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, JsonObject, ProtocolVersion, ServerCapabilities, ToolsCapability,
};
use rmcp::service::{RequestContext, RoleServer};

use crate::app::App;
use crate::executor::token::SigningKey;
use crate::registry::Registry;

mod asks;
mod data;
mod prompts;
mod resources;
mod rounds;
mod tools;

pub use tools::tools;

/// The fixtures beside the tools.
#[derive(Debug)]
pub(super) struct Fixtures {
    /// What a client is given to bring back is signed.
    key: SigningKey,
    registry: Arc<Registry>,
}

impl Fixtures {
    pub fn new(app: &App) -> Self {
        Self { key: app.signing_key.clone(), registry: app.engine.registry().clone() }
    }

    /// Says what there is beside tools.
    pub fn declare(&self, capabilities: &mut ServerCapabilities) {
        capabilities.logging = Some(JsonObject::new());
        capabilities.completions = Some(JsonObject::new());
        capabilities.prompts = Some(rmcp::model::PromptsCapability::default());
        let mut resources = rmcp::model::ResourcesCapability::default();
        resources.subscribe = Some(true);
        capabilities.resources = Some(resources);
        capabilities.tools.get_or_insert_with(ToolsCapability::default).list_changed = Some(true);
    }

    /// The answer of a tool that asks its client something; `None` for any other.
    pub async fn call(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<CallToolResponse, ErrorData>> {
        if request.name == tools::CHANGE {
            return Some(Ok(tools::change(&self.registry).into()));
        }
        match self.round(request, context) {
            Some(answer) => Some(answer),
            None => asks::call(request, context).await,
        }
    }
}

/// Whether a request is of 2026-07-28 or later, where there is no handshake.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}
