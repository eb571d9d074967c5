//! The OpenAPI document and the page that displays it, without external resources.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::schema::AnyOf;
use utoipa::openapi::{RefOr, Schema};
use utoipa_swagger_ui::SwaggerUi;

use super::auth::requirements;
use super::{AppState, call_body, openapi_common, openapi_patches, problem, security};
use crate::domain::failure::Code;
use crate::domain::schemas::Json;
use crate::domain::{ContentBlock, Status};
use crate::events::{render, session};
use crate::formats::definitions::Format;
use crate::formats::native;
use crate::hooks::{RedactOptions, TruncateOptions};

/// The parts of the document that belong to no single route.
#[derive(OpenApi)]
#[openapi(
    info(title = "Toolpost", description = "Executes the tool calls of LLM agents.\n\nThere are two kinds of failure: \
        an invalid request gets a 4xx or 5xx with `application/problem+json`; a failed tool call is a 200 whose \
        ToolCall has the status `ERROR`, because the model must read it. Any request can be rejected before it reaches \
        a route, with 400 (invalid HTTP), 403 (a page of another origin), 408, 413, 414, 431 or 503 (over capacity). All of \
        these are problems.\n\nEvents are Server-Sent Events. `event:` is `tool_call`, `status`, `progress`, \
        `hook_error`, `tool_result`, `batch` or `session`; `data:` is one JSON object, described by ToolCallEvent, \
        StatusEvent, ProgressEvent, HookErrorEvent, ToolResultEvent, BatchAnswer and SessionEvent; `id:` resumes any \
        stream."),
    tags((name = "tool calls", description = "Running calls and reading their results"),
        (name = "approvals", description = "Calls that wait for the decision of a person"), (name = "tools", description = "Definitions of the tools that can be called"),
        (name = "tool groups", description = "Tools that are activated and deactivated together"),
        (name = "sessions", description = "Conversations, their calls and context"),
        (name = "events", description = "Streams of events as they happen"), (name = "stats", description = "Statistics of calls: number, success rate and duration"),
        (name = "hooks", description = "Webhooks that are invoked before and after calls"), (name = "policies", description = "Rules that allow calls, deny them or ask for approval"), (name = "budgets", description = "Limits on calls and cost within a window"),
        (name = "workers", description = "Programs that fetch the calls of queues, and offer tools"),
        (name = "keys", description = "API keys and their permissions"),
        (name = "upstreams", description = "MCP servers whose tools are offered"),
        (name = "mcp", description = "The same tools for clients of the Model Context Protocol"),
        (name = "operations", description = "Health, readiness and metrics for operators")),
    components(schemas(native::BatchAnswer, render::ToolCallEvent, render::StatusEvent, render::ProgressEvent, render::HookErrorEvent, render::ToolResultEvent, session::SessionEvent, problem::ProblemBody, Code, Status, Format,
        Json, RedactOptions, TruncateOptions, ContentBlock))
)]
struct Frame;

pub(super) fn frame() -> utoipa::openapi::OpenApi {
    Frame::openapi()
}

/// Completes the document for serving and for the committed file.
pub(super) fn finish(mut document: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    // A gateway may mount the service below any prefix, so URLs are relative to the document.
    document.servers = Some(vec![utoipa::openapi::Server::new(".")]);
    requirements::describe(&mut document);
    openapi_common::describe_failures(&mut document);
    openapi_common::allow_empty_bodies(&mut document);
    if let Some(components) = &mut document.components {
        openapi_common::describe_token(components);
        call_body::describe_bodies(components);
        // An empty tool list matches every format, so `oneOf` would reject it.
        if let Some(RefOr::T(schema)) = components.schemas.get_mut("ToolListAnswer")
            && let Schema::OneOf(one) = schema
        {
            let mut any = AnyOf::new();
            (any.items, any.description) = (std::mem::take(&mut one.items), one.description.take());
            *schema = Schema::AnyOf(any);
        }
    }
    document
}

/// The served document. Built on first use, because it takes some milliseconds and megabytes, and most services never
/// serve it.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| text(&super::openapi()));
/// The document of a service without API keys.
static OPEN_DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| text(&openapi_patches::without_keys(&super::openapi())));

const INITIALIZER: &str = include_str!("docs/initializer.js");
const JAVASCRIPT: (header::HeaderName, &str) = (header::CONTENT_TYPE, "text/javascript; charset=utf-8");

fn text(document: &Value) -> Bytes {
    serde_json::to_string_pretty(document).unwrap_or_default().into()
}

async fn json(State(state): State<AppState>) -> Response {
    // Creating the first key enables authentication, so the choice is made per request.
    let text = if state.auth.operator().is_some() { &OPEN_DOCUMENT } else { &DOCUMENT };
    match tokio::task::spawn_blocking(|| Bytes::clone(text)).await {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => problem::Problem::internal().into_response(),
    }
}

pub(super) fn router() -> Router<AppState> {
    let page: Router<AppState> = SwaggerUi::new("/docs").into();
    // The bundled initializer cannot contain functions.
    let page = page.route("/docs/swagger-initializer.js", get(async || ([JAVASCRIPT], INITIALIZER)));
    // The bundled redirect from /docs to /docs/ would drop the prefix of a gateway.
    let page = page.layer(axum::middleware::map_response(async |mut response: Response| {
        if let Some(location) = response.headers_mut().get_mut(header::LOCATION) {
            *location = HeaderValue::from_static("docs/");
        }
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, security::OF_A_PAGE);
        response
    }));
    let all = Router::new().route("/openapi.json", get(json)).merge(page);
    // These responses contain no data of a tenant.
    all.layer(axum::middleware::map_response(async |mut response: Response| {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }))
}
