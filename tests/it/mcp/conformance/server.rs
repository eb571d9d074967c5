//! The MCP server of the service with the fixtures that the suite requires.
#![expect(deprecated, reason = "clients before 2026-07-28 still set a log level")]

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Response;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, JsonObject,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    PromptsCapability, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ResourcesCapability,
    ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    ToolsCapability, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolpost::access::Access;
use toolpost::app::App;
use toolpost::executor::signing_key::SigningKey;
use toolpost::mcp::{ClientContext, Endpoint, FastPath, Server, Settings};
use toolpost::memory::Footprint;
use toolpost::registry::Registry;

use super::{asks, tools};

/// Largest message of the suite, in bytes.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// A server that handles the fixtures and forwards everything else to the server of the service.
#[derive(Debug, Clone)]
pub struct ConformanceServer {
    service: Server,
    /// The key that signs the state that a client sends back.
    pub key: SigningKey,
    registry: Arc<Registry>,
}

/// Serves the fixtures until the guard is dropped.
pub async fn serve(app: &App) -> (SocketAddr, DropGuard) {
    let closing = CancellationToken::new();
    let server = ConformanceServer {
        service: Server::of_operator(app),
        key: app.signing_key.clone(),
        registry: app.engine.registry().clone(),
    };
    let settings = Settings { sessions: 1000, ..Settings::default() };
    let fast_path = FastPath::new(server.service.clone());
    let access = Access::operator(app.store.stores(), app.engine.registry());
    let ways = Arc::new((fast_path, Endpoint::new(server, app, &settings, closing.clone())));
    let router = axum::Router::new().fallback(move |request: Request| async move {
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(access);
        let body = axum::body::to_bytes(body, MAX_BODY_BYTES).await.unwrap();
        answer(&ways.0, &ways.1, parts, body).await
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stopped = closing.clone().cancelled_owned();
    tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(stopped).into_future());
    (address, closing.drop_guard())
}

/// Answers as the service does, except that the fast path knows no fixtures.
async fn answer(
    fast_path: &FastPath,
    endpoint: &Endpoint<ConformanceServer>,
    parts: Parts,
    body: Bytes,
) -> Response<Body> {
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let is_fixture = message["params"]["name"].as_str().is_some_and(tools::is_asking);
    let mut footprint = Footprint::default();
    if let Some(request) = fast_path.read(&parts, &body, &mut footprint).filter(|_| !is_fixture) {
        let answer = fast_path.answer(request, footprint, None).await;
        return ([(CONTENT_TYPE, "application/json")], answer.json.joined()).into_response();
    }
    let caller = ClientContext { bytes: body.len(), ..ClientContext::default() };
    endpoint.answer(parts, body, caller, Footprint::default()).await
}

/// Returns `true` if a request is of 2026-07-28 or later, which has no handshake.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

impl ServerHandler for ConformanceServer {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.service.get_info();
        let capabilities = &mut info.capabilities;
        capabilities.logging = Some(JsonObject::new());
        capabilities.completions = Some(JsonObject::new());
        capabilities.prompts = Some(PromptsCapability::default());
        let mut resources = ResourcesCapability::default();
        resources.subscribe = Some(true);
        capabilities.resources = Some(resources);
        capabilities.tools.get_or_insert_with(ToolsCapability::default).list_changed = Some(true);
        info
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.service.list_tools(request, context).await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.service.get_tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == tools::CHANGE {
            return Ok(tools::change(&self.registry).into());
        }
        if let Some(answer) = self.round(&request, &context) {
            return answer;
        }
        match asks::call(&request, &context).await {
            Some(answer) => answer,
            None => self.service.call_tool(request, context).await,
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.service.get_task(request, context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.service.update_task(request, context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.service.cancel_task(request, context).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        self.service.listen(subscription).await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.service.on_initialized(context).await;
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.service.on_custom_request(request, context).await
    }

    async fn set_level(&self, _: SetLevelRequestParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        Ok(())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.prompts()
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt(&request)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.resources()
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.resource_templates()
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resource(&request.uri)
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }
}
