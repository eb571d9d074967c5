//! `/sessions`: conversations are made, listed, read, watched and ended.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::extract::{JsonBody, Params};
use super::openapi_common::BodyErrors;
use super::problem::Problem;
use super::{AppState, call_body, groups, reply};
use crate::access::Access;
use crate::callbacks;
use crate::domain::schemas::{HttpUrl, SessionId, ToolName};
use crate::domain::tool::is_valid_name;
use crate::domain::{Completion, LimitsSpec, Session, SessionState, Task, Time, decode, json};
use crate::store::sessions::{SessionCursor, SessionFilter};

pub(super) mod detail;
pub(super) mod events;
pub(super) mod lifecycle;
pub(super) mod render;
/// Sessions of a page unless asked otherwise, and at most.
const PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 500;
/// Digits of a time in a cursor at most.
const LONGEST_TIME: usize = 16;
/// Most names of tools, groups or context objects.
const MOST_NAMES: usize = 1024;

/// What a session is made with.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = NewSession)]
pub(super) struct NewSession {
    /// Its id; one of ours unless given.
    #[schema(value_type = Option<SessionId>)]
    id: Option<String>,
    /// Objects by name, for tools that name them. They are shown to nobody.
    #[schema(value_type = String, extensions(("x-is" = json!({"type": "object", "maxProperties": 1024,
        "additionalProperties": {"type": "object"}}))))]
    context: Map<String, Value>,
    /// Groups that are on or off in this session, whatever they are elsewhere; a list names those that are on.
    #[schema(value_type = String, extensions(("x-is" = json!({"anyOf": [
        {"type": "object", "maxProperties": 1024, "additionalProperties": {"type": "boolean"}},
        {"type": "array", "maxItems": 1024, "items": {"type": "string"}}]}))))]
    groups: BTreeMap<String, bool>,
    /// Bounds of its calls; those of a call and of a tool come first.
    limits: LimitsSpec,
    /// The tools that it has; all unless given. A system tool (`attempt_completion`, `new_task`, `reset_equipped_tools`) is on
    /// if it is named here; a list of nothing else restricts nothing.
    #[schema(value_type = Option<Vec<ToolName>>, max_items = 1024)]
    tools: Option<Vec<String>>,
    /// The session that it belongs to.
    #[schema(value_type = Option<SessionId>)]
    parent: Option<String>,
    /// Gets each call that has ended where its request names no other.
    #[schema(value_type = Option<HttpUrl>)]
    callback_url: Option<String>,
}

/// A session.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Session)]
pub(super) struct SessionView<'a> {
    /// Its id.
    id: &'a str,
    /// Where it stands. The next call of one that has ended makes it active again.
    state: SessionState,
    /// The session that it belongs to.
    parent: Option<&'a str>,
    /// The call of the parent that waits for its end.
    parent_call: Option<Uuid>,
    /// What it was made for, if a call of its parent made it.
    task: Option<&'a Task>,
    /// How its task has ended.
    completion: Option<&'a Completion>,
    /// The names of its context objects; their values are shown to nobody.
    context: Vec<&'a str>,
    /// Groups that are on or off in this session, whatever they are elsewhere.
    groups: &'a BTreeMap<String, bool>,
    /// Bounds of its calls.
    limits: &'a LimitsSpec,
    /// The tools that it names; `null`: it is not restricted.
    tools: Option<&'a [String]>,
    /// Gets each call that has ended.
    callback_url: Option<&'a str>,
    /// When it was made.
    created_at: Time,
    /// When it was last changed, or noted as used.
    updated_at: Time,
}

impl<'a> From<&'a Session> for SessionView<'a> {
    fn from(session: &'a Session) -> Self {
        Self {
            id: &session.id,
            state: session.state,
            parent: session.parent.as_deref(),
            parent_call: session.parent_call,
            task: session.task.as_ref(),
            completion: session.completion.as_ref(),
            context: session.context.keys().map(String::as_str).collect(),
            groups: &session.groups,
            limits: &session.limits,
            tools: session.tools.as_deref(),
            callback_url: session.callback_url.as_deref(),
            created_at: session.created_at,
            updated_at: session.updated_at,
        }
    }
}

/// Makes a session.
///
/// A session is also made by the first call that names it; this is for one that is to have more than an id.
#[utoipa::path(post, path = "/sessions", operation_id = "create_session", tag = "sessions",
    request_body(content = NewSession, example = json!({"id": "chat-1", "context": {"user": {"name": "Ada"}}})),
    security(("api_key" = ["call"])),
    responses((status = 201, description = "It is made", body = SessionView, headers(("Location" = String))),
        BodyErrors,
        (status = 404, description = "There is no such parent, or no such group"),
        (status = 409, description = "There is a session of this id"),
        (status = 429, description = "`TOO_MANY_SESSIONS`: the tenant has as many as it may have. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 422, description = "The body does not have its shape; `errors` say where"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn create(
    State(state): State<AppState>,
    access: Access,
    mut body: JsonBody,
) -> Result<Response, Problem> {
    name_active_groups(&mut body.value);
    decode::expect_objects(&body.value, &["/context", "/groups", "/limits"])?;
    let new: NewSession = body.read()?;
    check(&new)?;
    for name in new.groups.keys() {
        groups::known_group(access.snapshot().groups(), name)?;
    }
    if let Some(parent) = &new.parent
        && access.store().session(parent).await?.is_none()
    {
        return Err(no_such_session(parent));
    }
    let id = new.id.unwrap_or_else(|| state.engine.new_id().to_string());
    let session = Session {
        parent: new.parent,
        context: new.context,
        groups: new.groups,
        limits: new.limits,
        tools: new.tools,
        callback_url: new.callback_url.map(Into::into),
        ..Session::new(id.into(), state.clock.now())
    };
    if !access.store().make_session(&session).await? {
        let detail = format!("there is a session {} already", json::shorten(&session.id, 64));
        return Err(Problem::conflict("SESSION_EXISTS", detail));
    }
    Ok(reply::at(
        &format!("/sessions/{}", path_segment(&session.id)),
        reply::json(StatusCode::CREATED, &SessionView::from(&session)),
    ))
}

/// A list of groups is short for those being active.
fn name_active_groups(body: &mut Value) {
    if let Some(groups) = body.get_mut("groups")
        && let Some(names) =
            groups.as_array().and_then(|names| names.iter().map(Value::as_str).collect::<Option<Vec<_>>>())
    {
        *groups = names.into_iter().map(|name| (name.to_owned(), Value::Bool(true))).collect::<Map<_, _>>().into();
    }
}

fn check(new: &NewSession) -> Result<(), Problem> {
    for (id, pointer) in [(&new.id, "/id"), (&new.parent, "/parent")] {
        id.as_deref().map_or(Ok(()), |id| call_body::check_session_at(id, pointer))?;
    }
    call_body::check_limits(&new.limits)?;
    let too_many = |pointer: &str| Problem::field(pointer, format!("must have at most {MOST_NAMES} members"));
    if let Some((name, value)) = new.context.iter().find(|(_, value)| !value.is_object()) {
        let place = format!("/context/{}", json::pointer_token(name));
        return Err(Problem::field(place, format!("must be an object, not {}", json::type_name(value))));
    }
    let tools = new.tools.as_deref().unwrap_or_default();
    for (count, pointer) in [(new.context.len(), "/context"), (new.groups.len(), "/groups"), (tools.len(), "/tools")] {
        if count > MOST_NAMES {
            return Err(too_many(pointer));
        }
    }
    if let Some((place, name)) = tools.iter().enumerate().find(|(_, name)| !is_valid_name(name)) {
        let message = format!("\"{}\" is no name of a tool", json::shorten(name, 64));
        return Err(Problem::field(format!("/tools/{place}"), message));
    }
    match &new.callback_url {
        Some(url) => callbacks::check_url(url).map_err(|fault| Problem::field("/callback_url", fault)),
        None => Ok(()),
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// In this state.
    #[param(inline)]
    state: Option<SessionState>,
    /// Made under this one.
    #[param(pattern = "^[^\\u0000]*$")]
    parent: Option<String>,
    /// Most sessions of a page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    #[param(pattern = "^[0-9]{1,16}-([0-9a-f]{2})+$")]
    cursor: Option<String>,
}

/// A page of sessions.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SessionPage)]
struct Page<'a> {
    /// Newest first.
    sessions: Vec<SessionView<'a>>,
    /// For the next page; `null` at the end.
    next_cursor: Option<String>,
}

/// Lists sessions, newest first.
#[utoipa::path(get, path = "/sessions", operation_id = "list_sessions", tag = "sessions", params(PageParams),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "A page", body = Page),
        (status = 422, description = "A query parameter is wrong"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn page(access: Access, Params(params): Params<PageParams>) -> Result<Response, Problem> {
    let limit = params.limit.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(Problem::field("", format!("query: limit must be 1 to {LARGEST_PAGE}")));
    }
    let before = params.cursor.as_deref().map(cursor).transpose()?;
    if params.parent.as_deref().is_some_and(|parent| parent.contains('\0')) {
        return Err(Problem::field("", "query: no session has U+0000 in its id"));
    }
    // One more tells whether there is another page.
    let filter = SessionFilter { state: params.state, parent: params.parent, before, limit: limit + 1 };
    let mut sessions = access.store().sessions(&filter).await?;
    let more = sessions.len() > limit as usize;
    sessions.truncate(limit as usize);
    let next_cursor = sessions.last().filter(|_| more).map(|last| {
        let id: String = last.id.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{id}", last.created_at.0)
    });
    let sessions = sessions.iter().map(SessionView::from).collect();
    Ok(reply::json(StatusCode::OK, &Page { sessions, next_cursor }))
}

fn cursor(text: &str) -> Result<SessionCursor, Problem> {
    let read = || {
        let (at, id) = text.split_once('-').filter(|(_, id)| !id.is_empty())?;
        let is_time = (1..=LONGEST_TIME).contains(&at.len()) && at.bytes().all(|byte| byte.is_ascii_digit());
        let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let id: Vec<u8> = id.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?;
        // It only says where to go on, so any text will do that the database takes.
        let id = String::from_utf8_lossy(&id).replace('\0', "");
        Some(SessionCursor { created_at: Time(at.parse().ok().filter(|_| is_time)?), id })
    };
    read().ok_or_else(|| Problem::field("", "query: cursor is none: take `next_cursor` of the page before"))
}

/// The session of a path.
async fn find(access: &Access, id: &str) -> Result<Session, Problem> {
    if id.contains('\0') {
        return Err(no_such_session(id));
    }
    access.store().session(id).await?.ok_or_else(|| no_such_session(id))
}

/// 404 for a session.
pub(super) fn no_such_session(id: &str) -> Problem {
    Problem::not_found(format!("there is no session {}", json::shorten(id, 64)))
}

/// An id as a segment of a path (RFC 3986, section 3.3).
fn path_segment(id: &str) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(byte.into()),
            // Writing to a `String` cannot fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}
