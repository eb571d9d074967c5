//! The MCP server: offers the same tools and calls as the HTTP API. Only this module depends on rmcp's server types;
//! this file lists the supported requests.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, ErrorCode, Extensions, GetTaskParams, GetTaskResult, Implementation,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod, ListResourceTemplatesResult,
    ListResourcesRequestMethod, ListResourcesResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, ServerInitializeError, SubscriptionContext};
use rmcp::transport::{self, IntoTransport};
use rmcp::{ServerHandler, ServiceExt};
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::app::App;
use crate::domain::McpLowering;
use crate::engine::Engine;
use crate::events::Bus;

mod accepted;
mod batch;
mod call;
mod cancel;
mod changes;
mod decision;
mod disconnect;
mod distinct;
mod endpoint;
mod event_id;
mod fast_path;
mod list;
mod listing;
mod progress;
mod refusal;
mod replay;
mod result;
mod running;
mod sessions;
mod settings;
mod shared;
mod tasks;

pub use call::ClientContext;
pub use endpoint::Endpoint;
pub use fast_path::{Answer, FastPath};
pub use rmcp::ErrorData;
pub use settings::Settings;

use distinct::Distinct;
use list::Tools;
use listing::Completing;

/// The MCP server of one service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Arc<Engine>,
    /// The access of a client without credentials; `None` over HTTP, where the gate authenticates the client.
    known: Option<Access>,
    bus: Bus,
    tools: Tools,
    /// How lists show schemas.
    lowering: McpLowering,
}

/// Supported methods. rmcp passes a request for one of them to `on_custom_request` only if its parameters are invalid.
const METHODS: [&str; 6] =
    ["tools/call", "tools/list", "tasks/get", "tasks/update", "tasks/cancel", "subscriptions/listen"];

impl Server {
    /// Creates a server for HTTP clients that the gate has authenticated.
    #[must_use]
    pub fn new(app: &App) -> Self {
        Self::with(app, None)
    }

    /// Creates a server whose client has the operator's permissions, for the user who started this program.
    #[must_use]
    pub fn of_operator(app: &App) -> Self {
        Self::with(app, Some(Access::operator(app.store.stores(), app.engine.registry())))
    }

    fn with(app: &App, known: Option<Access>) -> Self {
        let (engine, bus, lowering) = (app.engine.clone(), app.bus.clone(), app.config.mcp.lowering);
        Self(Arc::new(Inner { engine, known, bus, tools: Tools::default(), lowering }))
    }

    /// Returns the access of the client.
    fn access(&self, extensions: &Extensions) -> Result<Access, ErrorData> {
        let parts = extensions.get::<axum::http::request::Parts>();
        let admitted = parts.and_then(|parts| parts.extensions.get::<Access>()).cloned();
        admitted
            .or_else(|| self.0.known.clone())
            .ok_or_else(|| ErrorData::invalid_request("an API key is required", None))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_tasks().build();
        let server = Implementation::new("toolpost", env!("CARGO_PKG_VERSION")).with_title("Toolpost");
        ServerConfig::new(capabilities).with_server_info(server)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.list(&self.access(&context.extensions)?, request.and_then(|page| page.cursor)).await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.task(&self.access(&context.extensions)?, &request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // No tool asks its client for input, so the response belongs to nothing; only the task is checked.
        self.task(&self.access(&context.extensions)?, &request.task_id).await.map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.cancel(&self.access(&context.extensions)?, &request.task_id).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let access = self.access(&subscription.request_context().extensions)?;
        self.notify_subscription(access, subscription).await;
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Ok(access) = self.access(&context.extensions) {
            tokio::spawn(self.clone().notify_session(access, context.peer));
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if METHODS.contains(&request.method.as_str()) {
            let what = format!("the params of {} are invalid", request.method);
            return Err(ErrorData::invalid_params(what, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    // Only tools are offered. By default, rmcp would answer these requests with empty lists.

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }
}

/// Serves the client on standard input and output, for clients that start the server as a program, until it disconnects
/// or `stop` is cancelled. Standard output carries only messages.
///
/// # Errors
/// Returns an error if the client violates the protocol during initialization or the service task panics.
pub async fn serve_stdio(server: Server, stop: CancellationToken) -> std::io::Result<()> {
    let pipes = Distinct::new(IntoTransport::<RoleServer, _, _>::into_transport(transport::stdio_pipes()));
    let pipes = Completing(pipes);
    let running = match server.serve_with_ct(pipes, stop).await {
        Ok(running) => running,
        // The client closed the connection, or a signal arrived, before initialization.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(std::io::Error::other(error)),
    };
    running.waiting().await.map(drop).map_err(std::io::Error::other)
}
