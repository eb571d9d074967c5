//! An upstream server over Streamable HTTP, of the newest or an older revision, in the test process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::bounded;

/// State that the test and the server share.
#[derive(Debug)]
pub struct Shared {
    tools: watch::Sender<Vec<String>>,
    /// The protocol version and the `authorization` of each request.
    seen: Mutex<Vec<(String, String)>>,
    waiting: watch::Sender<usize>,
    given_up: watch::Sender<usize>,
    calls: AtomicUsize,
    /// The `authorization` that requests must have, if any.
    password: Option<String>,
}

/// A server on a free port. Stopped on drop.
pub struct HttpServer {
    pub port: u16,
    pub shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Handler(Arc<Shared>);

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"}).as_object().unwrap().clone();
        let names = self.0.tools.borrow().clone();
        let tools = names.into_iter().map(|name| Tool::new(name, "Does it.", Arc::new(schema.clone())));
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let result = match &*params.name {
            "wait" => {
                self.0.waiting.send_modify(|waiting| *waiting += 1);
                context.ct.cancelled().await;
                self.0.given_up.send_modify(|given_up| *given_up += 1);
                CallToolResult::success(vec![ContentBlock::text("nobody reads this")])
            }
            "steps" => {
                if let Some(token) = context.meta.get_progress_token() {
                    for step in 1..=3 {
                        let progress = ProgressNotificationParam::new(token.clone(), f64::from(step));
                        let _ = context.peer.notify_progress(progress).await;
                    }
                }
                CallToolResult::success(vec![ContentBlock::text("all done")])
            }
            _ => CallToolResult::structured(Value::Object(params.arguments.unwrap_or_default())),
        };
        Ok(result.into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.intersection(&SubscriptionFilter::builder().tools_list_changed().build()))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut tools = self.0.tools.subscribe();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = tools.changed() => {
                    if changed.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

fn read_header(request: &Request, name: &str) -> String {
    let value = request.headers().get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

async fn note(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let (version, password) = (read_header(&request, "mcp-protocol-version"), read_header(&request, "authorization"));
    shared.seen.lock().unwrap().push((version, password.clone()));
    if shared.password.as_ref().is_some_and(|wanted| *wanted != password) {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]).into_response();
    }
    next.run(request).await
}

impl HttpServer {
    /// Starts a server with these tools.
    pub async fn start(tools: &[&str]) -> Self {
        Self::on(0, tools, None).await
    }

    pub async fn with_password(tools: &[&str], password: &str) -> Self {
        Self::on(0, tools, Some(password.to_owned())).await
    }

    pub async fn on(port: u16, tools: &[&str], password: Option<String>) -> Self {
        let shared = Arc::new(Shared {
            tools: watch::Sender::new(tools.iter().map(|name| (*name).to_owned()).collect()),
            seen: Mutex::default(),
            waiting: watch::Sender::new(0),
            given_up: watch::Sender::new(0),
            calls: AtomicUsize::new(0),
            password,
        });
        let handler = Handler(shared.clone());
        let config = StreamableHttpServerConfig::default();
        let service =
            StreamableHttpService::new(move || Ok(handler.clone()), Arc::new(LocalSessionManager::default()), config);
        let router = Router::new().nest_service("/mcp", service).layer(from_fn_with_state(shared.clone(), note));
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { port, shared, task }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Replaces the tools and notifies listening clients.
    pub fn offer(&self, tools: &[&str]) {
        self.shared.tools.send_replace(tools.iter().map(|name| (*name).to_owned()).collect());
    }

    pub fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Returns the protocol versions and credentials of all requests.
    pub fn seen(&self) -> Vec<(String, String)> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub async fn waits(&self, count: usize) {
        bounded("a call that waits", self.shared.waiting.subscribe().wait_for(|waiting| *waiting >= count))
            .await
            .unwrap();
    }

    pub async fn is_given_up(&self, count: usize) {
        let mut given_up = self.shared.given_up.subscribe();
        bounded("a call that was given up", given_up.wait_for(|given_up| *given_up >= count)).await.unwrap();
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
