//! The Model Context Protocol, served: the same tools and calls as over HTTP. Everything that knows rmcp's server is in
//! here; this page is what a client may ask.

use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, ErrorCode, Extensions, GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse,
    GetTaskParams, GetTaskResult, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestMethod, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestMethod, SubscribeRequestMethod,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestMethod, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};

use crate::access::Access;
use crate::app::App;
use crate::engine::Engine;
use crate::events::Bus;

mod away;
mod call;
mod changes;
pub mod conformance;
mod endpoint;
mod list;
mod listing;
mod progress;
mod result;
mod stdio;
mod tasks;

pub use call::Caller;
pub use endpoint::{Endpoint, Settings};
pub use rmcp::ErrorData;
pub use stdio::serve_stdio;

use conformance::Fixtures;
use list::Tools;

/// Answers the clients of one service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Arc<Engine>,
    /// What there is for a client that is known by nothing; a client over HTTP is known by what the gate found.
    known: Option<Access>,
    bus: Bus,
    tools: Tools,
    /// What the official conformance suite asks for beside the tools.
    fixtures: Option<Fixtures>,
}

/// Methods that there are: a request for one of them that rmcp cannot read has wrong parameters.
const METHODS: [&str; 6] =
    ["tools/call", "tools/list", "tasks/get", "tasks/update", "tasks/cancel", "subscriptions/listen"];

impl Server {
    /// A server of this app's tools, for clients over HTTP that the gate has let in.
    #[must_use]
    pub fn new(app: &App, conformance: bool) -> Self {
        Self::with(app, None, conformance)
    }

    /// A server for the one who started this program.
    #[must_use]
    pub fn of_operator(app: &App, conformance: bool) -> Self {
        Self::with(app, Some(Access::operator(app.store.stores(), app.engine.registry())), conformance)
    }

    fn with(app: &App, known: Option<Access>, conformance: bool) -> Self {
        Self(Arc::new(Inner {
            engine: app.engine.clone(),
            known,
            bus: app.bus.clone(),
            tools: Tools::default(),
            fixtures: conformance.then(|| Fixtures::new(app)),
        }))
    }

    /// Who asks.
    fn access(&self, extensions: &Extensions) -> Result<Access, ErrorData> {
        let parts = extensions.get::<axum::http::request::Parts>();
        let admitted = parts.and_then(|parts| parts.extensions.get::<Access>()).cloned();
        admitted.or_else(|| self.0.known.clone()).ok_or_else(|| ErrorData::invalid_request("a key is needed", None))
    }

    fn fixtures<M: rmcp::model::ConstString>(&self) -> Result<&Fixtures, ErrorData> {
        self.0.fixtures.as_ref().ok_or_else(ErrorData::method_not_found::<M>)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_tasks().build();
        if let Some(fixtures) = &self.0.fixtures {
            fixtures.declare(&mut capabilities);
        }
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
        if let Some(fixtures) = &self.0.fixtures
            && let Some(answer) = fixtures.call(&request, &context).await
        {
            return answer;
        }
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
        // No tool asks for anything on its way: there is nothing that an answer could belong to.
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
        self.tell_subscription(access, subscription).await;
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Ok(access) = self.access(&context.extensions) {
            tokio::spawn(self.clone().tell_session(access, context.peer));
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if METHODS.contains(&request.method.as_str()) {
            let what = format!("the params of {} do not have their shape", request.method);
            return Err(ErrorData::invalid_params(what, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    // What follows is there for the conformance suite alone.

    #[expect(deprecated, reason = "clients before 2026-07-28 still set a log level")]
    async fn set_level(
        &self,
        _: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.fixtures::<SetLevelRequestMethod>()?;
        if conformance::is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        Ok(())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.fixtures::<rmcp::model::CompleteRequestMethod>()?;
        Ok(CompleteResult::default())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.fixtures::<rmcp::model::ListPromptsRequestMethod>()?.prompts()
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.fixtures::<GetPromptRequestMethod>()?.prompt(&request)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.fixtures::<rmcp::model::ListResourcesRequestMethod>()?.resources()
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.fixtures::<rmcp::model::ListResourceTemplatesRequestMethod>()?.resource_templates()
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.fixtures::<ReadResourceRequestMethod>()?.resource(&request.uri)
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.fixtures::<SubscribeRequestMethod>().map(drop)
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.fixtures::<UnsubscribeRequestMethod>().map(drop)
    }
}
