//! `/upstreams`: management of upstream MCP servers.

use std::time::Duration;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::auth::require_all_tools;
use super::responses::{Unavailable, UnknownServer};
use super::{Api, BodyErrors, FieldError, HttpResult, JsonBody, NoContent, Problem, Shared, reply};
use crate::access::Access;
use crate::domain::json::pointer_token;
use crate::domain::process::EnvValue;
use crate::domain::schemas::HttpUrl;
use crate::domain::tool::OutputCheck;
use crate::domain::upstream::{Upstream, UpstreamTransport, read_registered};
use crate::executor::http::check_url;
use crate::executor::mcp::header_fault;
use crate::executor::secrets::is_valid_secret_name;
use crate::upstreams::{UpstreamDetails, UpstreamRequestError, UpstreamView};

/// Maximum size of a header, in bytes.
const MAX_HEADER_BYTES: usize = 8192;
/// Maximum number of headers.
const MAX_HEADERS: usize = 50;

/// The response of `GET /upstreams`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct UpstreamList {
    /// All upstream servers, by name.
    upstreams: Vec<UpstreamView>,
    /// The number of upstream servers.
    total: usize,
}

/// An upstream MCP server with Streamable HTTP. Servers that are programs can be declared only in the service's
/// settings.
#[derive(utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "used only by the OpenAPI document")]
pub(super) struct UpstreamDefinition {
    /// The name of the server. Its tools are named `NAME.tool`.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    name: String,
    /// The URL of the server.
    #[schema(value_type = HttpUrl)]
    url: String,
    /// Headers of every request: texts, which are stored encrypted and never returned, or `{"secret": "NAME"}`. Headers that the
    /// protocol sets, such as `Accept`, are rejected.
    #[schema(extensions(("x-is" = json!({"type": ["object", "null"], "maxProperties": 50,
        "propertyNames": {"type": "string", "pattern": "^[-!#$%&'*+.^_`|~0-9A-Za-z]+$"},
        "additionalProperties": {"anyOf": [{"$ref": "#/components/schemas/SecretRef"},
            {"type": "string", "maxLength": 8192, "pattern": "^[^\\u0000-\\u0008\\u000A-\\u001F\\u007F]*$"}, {"type": ["number", "boolean"]}]}}))))]
    headers: Option<String>,
    /// Whether a tool whose definition changed is quarantined until it is accepted.
    pin: Option<bool>,
    /// How to treat results that do not match the tool's output schema; `warn` by default.
    output_check: Option<OutputCheck>,
    /// `http`, if set.
    #[schema(extensions(("x-is" = json!({"enum": ["http", null]}))))]
    r#type: Option<String>,
}

/// The changed definitions to accept.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Acceptance {
    /// The names of the tools; by default all quarantined tools.
    tools: Option<Vec<String>>,
}

/// Lists the upstream servers as known to this node.
#[utoipa::path(get, path = "/upstreams", operation_id = "list_upstreams", tag = "upstreams",
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The servers", body = UpstreamList),
        (status = 503, description = "The service is shutting down")))]
pub(super) async fn list(Api { state, access }: Api) -> Response {
    // Upstream servers belong to the operator. Other tenants see only the tools.
    let upstreams = if access.tenant().is_default() { state.upstreams.list() } else { Vec::new() };
    reply::ok(&UpstreamList { total: upstreams.len(), upstreams })
}

/// Registers a server with Streamable HTTP. Every node connects to it.
///
/// Its tools appear once it responds. The request waits briefly for this.
#[utoipa::path(post, path = "/upstreams", operation_id = "create_upstream", tag = "upstreams",
    request_body(content = UpstreamDefinition, example = json!({"name": "weather", "url": "https://mcp.example.com/mcp"})),
    security(("api_key" = ["admin"])),
    responses((status = 201, description = "Registered", body = UpstreamDetails, headers(("Location" = String))),
        (status = 409, description = "A server of this name exists, or the limit of servers is reached"),
        (status = 422, description = "The server is invalid; see `errors`"), BodyErrors, Unavailable))]
pub(super) async fn create(Api { state, access }: Api, body: JsonBody) -> HttpResult {
    if !access.tenant().is_default() {
        return Err(Problem::forbidden(
            "only the operator can manage upstream servers, because their tools are shared by all tenants",
        ));
    }
    require_all_tools(&access)?;
    let (name, upstream) = read_registered(&body.value)?;
    let faults = faults(&upstream);
    if !faults.is_empty() {
        return Err(Problem::invalid(faults));
    }
    state.upstreams.register(&name, &upstream).await.map_err(problem)?;
    state.upstreams.settled(&name, Duration::from_millis(state.config.mcp_servers.start_wait_ms)).await;
    Ok(reply::created(&format!("/upstreams/{name}"), server_response(&state, &name)?))
}

/// Reads a server, with its last lines of standard error and the last changes of its tools.
#[utoipa::path(get, path = "/upstreams/{name}", operation_id = "read_upstream", tag = "upstreams",
    security(("api_key" = ["admin"])),
    params(("name" = String, Path, example = "weather", description = "The server's name")),
    responses((status = 200, description = "The server", body = UpstreamDetails), UnknownServer))]
pub(super) async fn read(Api { state, access }: Api, Path(name): Path<String>) -> HttpResult {
    require_operator(&access, &name)?;
    server_response(&state, &name)
}

/// Deletes a registered server and its tools. Its running calls fail.
#[utoipa::path(delete, path = "/upstreams/{name}", operation_id = "delete_upstream", tag = "upstreams",
    security(("api_key" = ["admin"])),
    params(("name" = String, Path, example = "weather", description = "The server's name")),
    responses((status = 204, description = "Removed"),
        (status = 409, description = "The server is declared in the settings"), UnknownServer, Unavailable))]
pub(super) async fn delete(Api { state, access }: Api, Path(name): Path<String>) -> HttpResult<NoContent> {
    require_operator(&access, &name)?;
    require_all_tools(&access)?;
    state.upstreams.delete(&name).await.map_err(problem)?;
    Ok(NoContent)
}

/// Restarts a server immediately, on this node. Its running calls fail.
#[utoipa::path(post, path = "/upstreams/{name}/restart", operation_id = "restart_upstream", tag = "upstreams",
    security(("api_key" = ["admin"])),
    params(("name" = String, Path, example = "weather", description = "The server's name")),
    responses((status = 202, description = "The server is starting", body = UpstreamDetails),
        (status = 409, description = "The declaration of the server is invalid"), UnknownServer))]
pub(super) async fn restart(Api { state, access }: Api, Path(name): Path<String>) -> HttpResult {
    require_operator(&access, &name)?;
    require_all_tools(&access)?;
    state.upstreams.restart(&name).map_err(problem)?;
    Ok((StatusCode::ACCEPTED, server_response(&state, &name)?).into_response())
}

/// Accepts the current definitions of tools of a pinned server, so that they can be called again.
#[utoipa::path(post, path = "/upstreams/{name}/accept", operation_id = "accept_upstream_tools", tag = "upstreams",
    request_body(content = Acceptance, example = json!({})),
    security(("api_key" = ["admin"])),
    params(("name" = String, Path, example = "weather", description = "The server's name")),
    responses((status = 200, description = "The updated server", body = UpstreamDetails),
        (status = 422, description = "The server does not offer one of the tools"),
        BodyErrors, UnknownServer, Unavailable))]
pub(super) async fn accept(Api { state, access }: Api, Path(name): Path<String>, mut body: JsonBody) -> HttpResult {
    require_operator(&access, &name)?;
    require_all_tools(&access)?;
    let Acceptance { tools } = body.read()?;
    state.upstreams.accept(&name, tools.as_deref()).await.map_err(problem)?;
    server_response(&state, &name)
}

/// Checks that the caller belongs to the operator's tenant. For other tenants, the server does not exist.
fn require_operator(access: &Access, name: &str) -> HttpResult<()> {
    if access.tenant().is_default() { Ok(()) } else { Err(Problem::unknown("upstream server", name)) }
}

fn server_response(state: &Shared, name: &str) -> HttpResult {
    let details = state.upstreams.details(name).ok_or_else(|| Problem::unknown("upstream server", name))?;
    Ok(reply::ok(&details))
}

/// Returns the faults of a server that are detectable without a connection.
fn faults(upstream: &Upstream) -> Vec<FieldError> {
    let UpstreamTransport::Http { url, headers } = &upstream.transport else { return Vec::new() };
    let mut faults = Vec::new();
    let mut fault = |pointer: String, message: String| faults.push(FieldError { pointer, message });
    if let Err(message) = check_url(url) {
        fault("/url".to_owned(), message);
    }
    if headers.len() > MAX_HEADERS {
        fault("/headers".to_owned(), format!("must have at most {MAX_HEADERS} headers"));
    }
    for (name, value) in headers {
        let pointer = format!("/headers/{}", pointer_token(name));
        match value {
            EnvValue::Secret(secret) if !is_valid_secret_name(&secret.secret) => {
                fault(format!("{pointer}/secret"), "must have 1 to 128 characters of A-Z, a-z, 0-9 and `_`".to_owned());
            }
            EnvValue::Text(text) if text.len() > MAX_HEADER_BYTES => {
                fault(pointer.clone(), format!("must have at most {MAX_HEADER_BYTES} bytes"));
            }
            _ => {}
        }
        let text = match value {
            EnvValue::Text(text) => Some(text.as_str()),
            EnvValue::Secret(_) => None,
        };
        if let Some(message) = header_fault(name, text) {
            fault(pointer, message);
        }
    }
    faults
}

fn problem(refused: UpstreamRequestError) -> Problem {
    let detail = refused.to_string();
    match refused {
        UpstreamRequestError::NotFound => Problem::not_found(detail),
        UpstreamRequestError::NameTaken => Problem::conflict("UPSTREAM_EXISTS", detail),
        UpstreamRequestError::Declared => Problem::conflict("UPSTREAM_NOT_REGISTERED", detail),
        UpstreamRequestError::TooMany => Problem::conflict("TOO_MANY_UPSTREAMS", detail),
        UpstreamRequestError::Unusable(_) => Problem::conflict("UPSTREAM_UNUSABLE", detail),
        UpstreamRequestError::NoSuchTool(index, _) => Problem::field(format!("/tools/{index}"), detail),
        UpstreamRequestError::Vault(_) => Problem::field("/headers", detail),
        UpstreamRequestError::Store(error) => error.into(),
    }
}
