//! The OpenAPI document and the page that shows it, both without anything from outside.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use utoipa::OpenApi;
use utoipa::openapi::schema::AnyOf;
use utoipa::openapi::{RefOr, Schema};
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::auth::needs;
use super::{AppState, described, problem};
use crate::domain::Status;
use crate::domain::failure::Code;
use crate::events::{render, session};
use crate::formats::definitions::Format;
use crate::formats::native;

/// What of the document belongs to no single route.
#[derive(OpenApi)]
#[openapi(
    info(title = "Toolpost", description = "Executes the tool calls of LLM agents.\n\nTwo kinds of failure never mix: a request that is not one is a 4xx or 5xx with `application/problem+json`; a tool call that fails is a 200 whose ToolCall has the status `ERROR`, because a model must read it.\n\nEvents are Server-Sent Events. `event:` is `tool_call`, `status`, `progress`, `hook_error`, `tool_result`, `batch` or `session`; `data:` is one JSON object, described by ToolCallEvent, StatusEvent, ProgressEvent, HookErrorEvent, ToolResultEvent, BatchAnswer and SessionEvent; `id:` resumes any stream."),
    tags((name = "tools", description = "What can be called"), (name = "hooks", description = "Who is asked around calls"), (name = "tool calls", description = "Calling, and what happened"),
        (name = "sessions", description = "What the calls of a conversation have in common"),
        (name = "events", description = "What happens, as it does"), (name = "stats", description = "How often, how well, how fast"),
        (name = "mcp", description = "The same tools for clients of the Model Context Protocol"),
        (name = "keys", description = "Who may do what"), (name = "operations", description = "For whoever keeps it running")),
    components(schemas(native::BatchAnswer, render::ToolCallEvent, render::StatusEvent, render::ProgressEvent, render::HookErrorEvent, render::ToolResultEvent, session::SessionEvent, problem::ProblemBody, Code, Status, Format))
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
    needs::describe(&mut document);
    described::describe_failures(&mut document);
    if let Some(components) = &mut document.components {
        described::describe_token(components);
        open_parts(components);
        let_any_match(components, "CallBody");
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

/// A schema that is part of an `allOf` must not close the object: the other parts' members would be refused.
fn open_parts(components: &mut utoipa::openapi::Components) {
    let mut parts = Vec::new();
    for schema in components.schemas.values_mut() {
        open_parts_of(schema, &mut parts);
    }
    for name in parts {
        if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(&name) {
            object.additional_properties = None;
        }
    }
}

fn open_parts_of(schema: &mut RefOr<Schema>, parts: &mut Vec<String>) {
    let items = match schema {
        RefOr::T(Schema::AllOf(all)) => &mut all.items,
        RefOr::T(Schema::OneOf(one)) => return one.items.iter_mut().for_each(|item| open_parts_of(item, parts)),
        _ => return,
    };
    for item in items {
        match item {
            RefOr::Ref(reference) => parts.extend(reference.ref_location.rsplit('/').next().map(str::to_owned)),
            RefOr::T(Schema::Object(object)) => object.additional_properties = None,
            RefOr::T(_) => open_parts_of(item, parts),
        }
    }
}

pub(super) fn router(document: &utoipa::openapi::OpenApi) -> Router<AppState> {
    let text = serde_json::to_string_pretty(document).unwrap_or_default();
    let json = move || std::future::ready(([(header::CONTENT_TYPE, "application/json")], text.clone()).into_response());
    // The page asks beside itself, so that it works under any prefix; no validator elsewhere is asked.
    let config = Config::new(["../openapi.json"]).validator_url("none");
    let page: Router<AppState> = SwaggerUi::new("/docs").config(config).into();
    // Its way from /docs to /docs/ would leave the prefix of a gateway.
    let page = page.layer(axum::middleware::map_response(async |mut response: Response| {
        if let Some(location) = response.headers_mut().get_mut(header::LOCATION) {
            *location = HeaderValue::from_static("docs/");
        }
        response
    }));
    Router::new().route("/openapi.json", get(json)).merge(page)
}
