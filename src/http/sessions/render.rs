//! A session rendered for models: as the messages of a vendor, and as text.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::header;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::detail::calls_of;
use crate::access::Access;
use crate::domain::{Call, ToolDefinition, Vendor};
use crate::formats::session_prompt::{self, Counts};
use crate::formats::{alias, messages as shapes};
use crate::http::responses::{InvalidQuery, Unavailable, UnknownSession};
use crate::http::{HttpResult, Params, extract, reply};

/// Maximum number of rendered calls; the newest are used.
const MAX_CALLS: usize = 10_000;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct MessagesParams {
    /// The vendor whose format the messages have; `openai` by default.
    #[param(inline)]
    format: Option<Vendor>,
    /// Maximum number of calls. The newest are rendered.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
}

/// A conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SessionMessages)]
struct Messages<'a> {
    /// The id of the session.
    session: &'a str,
    /// The vendor whose format the messages have.
    format: &'a str,
    /// Messages for the vendor's request: each batch of calls as the model made it, followed by its results.
    #[schema(value_type = Vec<Object>)]
    messages: Value,
    /// Whether older calls are omitted.
    truncated: bool,
}

/// Renders the full conversation of calls and results in a vendor's format.
///
/// Every call has exactly one result, and ids are unique: if a model has reused an id, the later call gets the
/// service's id. A call that has not ended has a note instead of a result. Calls whose arguments are still arriving are
/// omitted. Names that the vendor rejects are replaced by aliases.
#[utoipa::path(get, path = "/sessions/{id}/messages", operation_id = "session_messages", tag = "sessions",
    security(("api_key" = ["call"]), ("api_key" = ["read"])),
    params(("id" = String, Path, example = "chat-1", description = "The session"), MessagesParams),
    responses((status = 200, description = "The messages", body = Messages),
        UnknownSession, InvalidQuery, Unavailable))]
pub(in crate::http) async fn messages(
    access: Access,
    Path(id): Path<String>,
    Params(params): Params<MessagesParams>,
) -> HttpResult {
    let vendor = params.format.unwrap_or(Vendor::OpenAi);
    let limit = extract::limit(params.limit, MAX_CALLS, MAX_CALLS)?;
    let session = extract::find_session(&access, &id).await?;
    let (calls, more_before) = calls_of(&access, &session, None, limit).await?;
    let snapshot = access.snapshot().clone();
    let made = tokio::task::spawn_blocking(move || {
        let name_of = |call: &Call| {
            let known = snapshot.get(&call.name).and_then(|entry| snapshot.name_for(entry, Some(vendor)));
            known.map_or_else(|| alias::shown(vendor, &call.name), str::to_owned)
        };
        shapes::conversation(vendor, &calls, name_of)
    });
    // Rendering many images is slow.
    let messages = made.await?;
    let answer = Messages { session: &session.id, format: vendor.as_str(), messages, truncated: more_before.is_some() };
    Ok(reply::ok(&answer))
}

/// Renders a session as text for a model: tools, calling rules, call counts and pending calls.
#[utoipa::path(get, path = "/sessions/{id}/prompt", operation_id = "session_prompt", tag = "sessions",
    security(("api_key" = ["call"]), ("api_key" = ["read"])),
    params(("id" = String, Path, example = "chat-1", description = "The session")),
    responses((status = 200, description = "Markdown", body = String, content_type = "text/markdown"),
        UnknownSession, Unavailable))]
pub(in crate::http) async fn prompt(access: Access, Path(id): Path<String>) -> HttpResult {
    let session = extract::find_session(&access, &id).await?;
    let (calls, _) = calls_of(&access, &session, None, MAX_CALLS).await?;
    let tools = access.view(&access.snapshot(), Some(&session)).list();
    let definitions: Vec<Arc<ToolDefinition>> = tools.iter().map(|tool| tool.definition()).collect();
    let definitions: Vec<&ToolDefinition> = definitions.iter().map(|definition| &**definition).collect();
    let pending: Vec<&Call> = calls.iter().filter(|call| !call.status.is_terminal()).collect();
    let text = session_prompt::render(&definitions, Counts::of(&calls), &pending);
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response())
}
