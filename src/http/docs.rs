//! The OpenAPI document and the page that shows it, both without anything from outside.

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
use super::{AppState, openapi_common, openapi_patches, problem, security};
use crate::domain::failure::Code;
use crate::domain::schemas::Json;
use crate::domain::{ContentBlock, Status};
use crate::events::{render, session};
use crate::formats::definitions::Format;
use crate::formats::native;
use crate::hooks::{RedactOptions, TruncateOptions};

/// What of the document belongs to no single route.
#[derive(OpenApi)]
#[openapi(
    info(title = "Toolpost", description = "Executes the tool calls of LLM agents.\n\nTwo kinds of failure never mix: a request that is not one is a 4xx or 5xx with `application/problem+json`; a tool call that fails is a 200 whose ToolCall has the status `ERROR`, because a model must read it. Before any route looks at it, a request can be answered 400 (no HTTP), 403 (a page of another origin), 408, 414, 431 or 503 (no room), all of them problems.\n\nEvents are Server-Sent Events. `event:` is `tool_call`, `status`, `progress`, `hook_error`, `tool_result`, `batch` or `session`; `data:` is one JSON object, described by ToolCallEvent, StatusEvent, ProgressEvent, HookErrorEvent, ToolResultEvent, BatchAnswer and SessionEvent; `id:` resumes any stream."),
    tags((name = "tool calls", description = "Calling, and what happened"), (name = "tools", description = "What can be called"),
        (name = "tool groups", description = "Tools that are activated and deactivated together"),
        (name = "sessions", description = "What the calls of a conversation have in common"),
        (name = "events", description = "What happens, as it does"), (name = "stats", description = "How often, how well, how fast"),
        (name = "hooks", description = "Who is asked around calls"), (name = "keys", description = "Who may do what"),
        (name = "upstreams", description = "MCP servers whose tools are offered"),
        (name = "mcp", description = "The same tools for clients of the Model Context Protocol"),
        (name = "operations", description = "For whoever keeps it running")),
    components(schemas(native::BatchAnswer, render::ToolCallEvent, render::StatusEvent, render::ProgressEvent, render::HookErrorEvent, render::ToolResultEvent, session::SessionEvent, problem::ProblemBody, Code, Status, Format,
        Json, RedactOptions, TruncateOptions, ContentBlock))
)]
struct Frame;

pub(super) fn frame() -> utoipa::openapi::OpenApi {
    Frame::openapi()
}

/// The document as it is served and committed.
pub(super) fn finish(mut document: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    // Where the service is mounted is the gateway's business: addresses are relative to the document's own.
    document.servers = Some(vec![utoipa::openapi::Server::new(".")]);
    requirements::describe(&mut document);
    openapi_common::describe_failures(&mut document);
    if let Some(components) = &mut document.components {
        openapi_common::describe_token(components);
        let_any_match(components, "CallBody");
        // A list of no tools is one in any shape.
        let_any_match(components, "ToolListAnswer");
    }
    document
}

/// What may have any other members may fit several alternatives at once.
fn let_any_match(components: &mut utoipa::openapi::Components, name: &str) {
    let Some(RefOr::T(schema)) = components.schemas.get_mut(name) else { return };
    if let Schema::OneOf(one) = schema {
        let mut any = AnyOf::new();
        any.items = std::mem::take(&mut one.items);
        any.description = one.description.take();
        *schema = Schema::AnyOf(any);
    }
}

/// The document as it is sent. It is made when somebody asks first: it takes some milliseconds and megabytes, and most
/// services are never asked.
static KEYED: LazyLock<Bytes> = LazyLock::new(|| text(&super::openapi()));
/// The same of a service that asks for no key.
static OPEN: LazyLock<Bytes> = LazyLock::new(|| text(&openapi_patches::without_keys(&super::openapi())));

const INITIALIZER: &str = include_str!("docs/initializer.js");
const JAVASCRIPT: (header::HeaderName, &str) = (header::CONTENT_TYPE, "text/javascript; charset=utf-8");

fn text(document: &Value) -> Bytes {
    serde_json::to_string_pretty(document).unwrap_or_default().into()
}

async fn json(State(state): State<AppState>) -> Response {
    // The first key closes an open service.
    let text = if state.auth.operator().is_some() { &OPEN } else { &KEYED };
    match tokio::task::spawn_blocking(|| Bytes::clone(text)).await {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => problem::Problem::internal().into_response(),
    }
}

pub(super) fn router() -> Router<AppState> {
    let page: Router<AppState> = SwaggerUi::new("/docs").into();
    // Its own initializer has no room for functions.
    let page = page.route("/docs/swagger-initializer.js", get(async || ([JAVASCRIPT], INITIALIZER)));
    // Its way from /docs to /docs/ would leave the prefix of a gateway.
    let page = page.layer(axum::middleware::map_response(async |mut response: Response| {
        if let Some(location) = response.headers_mut().get_mut(header::LOCATION) {
            *location = HeaderValue::from_static("docs/");
        }
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, security::OF_A_PAGE);
        response
    }));
    let all = Router::new().route("/openapi.json", get(json)).merge(page);
    // There is nobody's data in it.
    all.layer(axum::middleware::map_response(async |mut response: Response| {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }))
}
