//! `/tool-groups`: groups of tools that are activated or deactivated together, globally or in one session.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::auth::require_all_tools;
use super::extract::{JsonBody, Params};
use super::openapi_common::BodyErrors;
use super::problem::Problem;
use super::{AppState, reply};
use crate::access::Access;
use crate::domain::schemas::ToolName;
use crate::domain::{Group, Groups, Session, Time, json, tool};
use crate::registry::View;

mod switch;

pub(super) use switch::{__path_change, __path_switch, change, switch};

/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 10_000;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ViewParams {
    /// The session whose switches apply. Without it, the global state is used.
    session: Option<String>,
}

/// A group of tools.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolGroup)]
pub(super) struct GroupView<'a> {
    name: &'a str,
    /// The purpose of its tools.
    description: &'a str,
    /// Whether its tools can be called. A tool in several groups can be called if at least one of them is active.
    active: bool,
    /// Whether a model may activate or deactivate it in its own session.
    manageable: bool,
    /// The names of its tools.
    tools: Vec<&'a str>,
    /// When it was created; `null` if it exists only because a definition names it.
    created_at: Option<Time>,
    /// When it was last changed.
    updated_at: Option<Time>,
}

/// The response of `GET /tool-groups`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ToolGroupList)]
pub(super) struct GroupList<'a> {
    /// The groups, sorted by name.
    groups: Vec<GroupView<'a>>,
    /// The number of groups.
    total: usize,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewToolGroup)]
pub(super) struct GroupBody {
    /// 1 to 128 of A-Z, a-z, 0-9, `_`, `.` and `-`.
    #[schema(value_type = ToolName)]
    name: String,
    /// The purpose of its tools.
    #[serde(default)]
    #[schema(max_length = 10_000)]
    description: String,
    /// Whether its tools can be called.
    #[serde(default = "yes")]
    #[schema(default = true)]
    active: bool,
    /// Whether a model may activate or deactivate it in its own session.
    #[serde(default)]
    manageable: bool,
}

fn yes() -> bool {
    true
}

/// Lists the groups of tools, sorted by name.
#[utoipa::path(get, path = "/tool-groups", operation_id = "list_tool_groups", tag = "tool groups", params(ViewParams),
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("api_key" = ["tools"])),
    responses((status = 200, description = "The groups", body = GroupList,
            example = json!({"groups": [{"name": "mail", "description": "Reads and sends mail.", "active": false, "manageable": true,
                "tools": ["mail.read", "mail.send"], "created_at": "2026-01-31T12:00:00.000Z", "updated_at": "2026-01-31T12:00:00.000Z"}], "total": 1})),
        (status = 404, description = "Unknown session"),
        (status = 422, description = "A query parameter is invalid"),
        (status = 503, description = "The database is unavailable (with `session`)")))]
pub(super) async fn list(access: Access, Params(params): Params<ViewParams>) -> Result<Response, Problem> {
    let session = find_session(&access, params.session.as_deref()).await?;
    Ok(listed(&access, session.as_ref()))
}

/// Creates a group. It is empty until definitions name it.
#[utoipa::path(post, path = "/tool-groups", operation_id = "create_tool_group", tag = "tool groups",
    request_body(content = GroupBody, example = json!({"name": "mail", "description": "Reads and sends mail.", "active": true})),
    security(("api_key" = ["tools"])),
    responses((status = 201, description = "Created; `Location` is the path of the group", body = GroupView, headers(("Location" = String))),
        BodyErrors,
        (status = 409, description = "A group of this name already exists"),
        (status = 429, description = "`TOO_MANY_GROUPS`: the limit of the tenant is reached. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 422, description = "The body does not match the schema, or the name is invalid"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn create(
    State(state): State<AppState>,
    access: Access,
    mut body: JsonBody,
) -> Result<Response, Problem> {
    let GroupBody { name, description, active, manageable } = body.read()?;
    if !tool::is_valid_name(&name) {
        return Err(Problem::field("/name", "must be 1 to 128 of A-Z, a-z, 0-9, `_`, `.` and `-`"));
    }
    check_description(&description)?;
    require_all_tools(&access)?;
    let registry = state.engine.registry();
    registry.reload(access.store()).await?;
    let now = state.clock.now();
    let group = Group { name, description, active, manageable, is_stored: true, created_at: now, updated_at: now };
    let is_named = access.snapshot().groups().contains_key(&group.name);
    if is_named || !access.store().make_group(&group).await? {
        let detail = format!("the group \"{}\" already exists; change it with PATCH", group.name);
        return Err(Problem::conflict("GROUP_EXISTS", detail));
    }
    registry.reload(access.store()).await?;
    Ok(reply::at(&format!("/tool-groups/{}", group.name), shown(&access, &group.name, None, StatusCode::CREATED)?))
}

/// Returns a group.
#[utoipa::path(get, path = "/tool-groups/{name}", operation_id = "read_tool_group", tag = "tool groups",
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("api_key" = ["tools"])),
    params(("name" = String, Path, example = "mail", description = "The group's name"), ViewParams),
    responses((status = 200, description = "The group", body = GroupView),
        (status = 404, description = "Unknown group or session"),
        (status = 422, description = "A query parameter is invalid"),
        (status = 503, description = "The database is unavailable (with `session`)")))]
pub(super) async fn read(
    access: Access,
    Path(name): Path<String>,
    Params(params): Params<ViewParams>,
) -> Result<Response, Problem> {
    let session = find_session(&access, params.session.as_deref()).await?;
    shown(&access, &name, session.as_ref(), StatusCode::OK)
}

/// Deletes a group and the registered tools that are in no other group. Registered tools in other groups stay, without
/// this group. A group that built-in tools or tools in files name cannot be deleted, only deactivated.
#[utoipa::path(delete, path = "/tool-groups/{name}", operation_id = "delete_tool_group", tag = "tool groups",
    security(("api_key" = ["tools"])),
    params(("name" = String, Path, example = "mail", description = "The group's name")),
    responses((status = 204, description = "Deleted"),
        (status = 404, description = "Unknown group"),
        (status = 409, description = "Built-in tools or tools in files name the group"),
        (status = 503, description = "The database is unavailable")))]
pub(super) async fn delete(
    State(state): State<AppState>,
    access: Access,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    require_all_tools(&access)?;
    let registry = state.engine.registry();
    registry.reload(access.store()).await?;
    known_group(access.snapshot().groups(), &name)?;
    let declared = registry.declared_in_group(&name);
    if !declared.is_empty() {
        let tools = json::shorten(&declared.join(", "), 500);
        let detail = format!("built-in tools or tools in files name \"{name}\": {tools}; deactivate it instead");
        return Err(Problem::conflict("GROUP_DECLARED", detail));
    }
    access.store().delete_group(&name, state.clock.now()).await?;
    registry.reload(access.store()).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn check_description(description: &str) -> Result<(), Problem> {
    match description.chars().nth(MAX_DESCRIPTION_CHARS) {
        Some(_) => Err(Problem::field("/description", format!("must have at most {MAX_DESCRIPTION_CHARS} characters"))),
        None => Ok(()),
    }
}

/// Returns the session that a request names, if any.
pub(super) async fn find_session(access: &Access, id: Option<&str>) -> Result<Option<Session>, Problem> {
    let Some(id) = id else { return Ok(None) };
    // PostgreSQL rejects U+0000, and no session id contains it.
    let found = if id.contains('\0') { None } else { access.store().session(id).await? };
    found.map(Some).ok_or_else(|| no_such_session(id))
}

/// Returns the 404 for an unknown session.
fn no_such_session(id: &str) -> Problem {
    Problem::not_found(format!("unknown session \"{}\"", json::shorten(id, 128)))
}

/// Returns the group of this name, or a 404.
pub(super) fn known_group<'a>(groups: &'a Groups, name: &str) -> Result<&'a Arc<Group>, Problem> {
    groups.get(name).ok_or_else(|| Problem::not_found(format!("unknown group \"{}\"", json::shorten(name, 128))))
}

/// Returns all groups as seen in the session, or globally.
fn listed(access: &Access, session: Option<&Session>) -> Response {
    let snapshot = access.snapshot().clone();
    let view = access.view(&snapshot, session);
    let groups: Vec<GroupView<'_>> = view.groups().map(|(group, active)| group_view(view, group, active)).collect();
    reply::json(StatusCode::OK, &GroupList { total: groups.len(), groups })
}

/// Returns one group as seen in the session, or globally.
fn shown(access: &Access, name: &str, session: Option<&Session>, status: StatusCode) -> Result<Response, Problem> {
    let snapshot = access.snapshot().clone();
    let view = access.view(&snapshot, session);
    let group = known_group(snapshot.groups(), name)?;
    Ok(reply::json(status, &group_view(view, group, view.is_active(name))))
}

fn group_view<'a>(view: View<'a>, group: &'a Group, active: bool) -> GroupView<'a> {
    let Group { name, description, manageable, is_stored, created_at, updated_at, .. } = group;
    GroupView {
        name,
        description,
        active,
        manageable: *manageable,
        tools: view.members(name).collect(),
        created_at: is_stored.then_some(*created_at),
        updated_at: is_stored.then_some(*updated_at),
    }
}
