//! The OpenAPI document and the page that shows it, both without anything from outside.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::{AppState, problem, tools};
use crate::domain::Status;
use crate::domain::failure::Code;
use crate::events::render;
use crate::formats::native;

/// What of the document belongs to no single route.
#[derive(OpenApi)]
#[openapi(
    info(title = "Toolpost", description = "Executes the tool calls of LLM agents.\n\nTwo kinds of failure never mix: a request that is not one is a 4xx or 5xx with `application/problem+json`; a tool call that fails is a 200 whose ToolCall has the status `ERROR`, because a model must read it.\n\nEvents are Server-Sent Events. `event:` is `tool_call`, `status`, `progress`, `tool_result` or `batch`; `data:` is one JSON object, described by ToolCallEvent, StatusEvent, ProgressEvent, ToolResultEvent and BatchAnswer; `id:` resumes any stream."),
    tags((name = "tools", description = "What can be called"), (name = "tool calls", description = "Calling, and what happened"),
        (name = "events", description = "What happens, as it does"), (name = "stats", description = "How often, how well, how fast"),
        (name = "operations", description = "For whoever keeps it running")),
    components(schemas(native::BatchAnswer, render::ToolCallEvent, render::StatusEvent, render::ProgressEvent, render::ToolResultEvent, problem::ProblemBody, Code, Status, tools::Format))
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
    document
}

pub(super) fn router(document: &utoipa::openapi::OpenApi) -> Router<AppState> {
    let text = serde_json::to_string_pretty(document).unwrap_or_default();
    let json = move || std::future::ready(([(header::CONTENT_TYPE, "application/json")], text.clone()).into_response());
    // The page asks beside itself, so that it works under any prefix; no validator elsewhere is asked.
    let page = SwaggerUi::new("/docs").config(Config::new(["../openapi.json"]).validator_url("none"));
    Router::new().route("/openapi.json", get(json)).merge(page)
}
