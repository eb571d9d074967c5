//! `/tool-groups`: groups of tools that are activated or deactivated together, globally or in one session.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Path;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::auth::{require, require_all_tools};
use super::responses::{InvalidBody, InvalidQuery, Unavailable, UnknownSession};
use super::{Api, BodyErrors, HttpResult, JsonBody, NoContent, Params, Problem, Shared, extract, reply};
use crate::access::Access;
use crate::domain::schemas::ToolName;
use crate::domain::{Group, Groups, Scope, Scopes, Session, Time, json, tool};
use crate::registry::View;
use crate::store::groups::GroupChange;

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
        (status = 503, description = "The database is unavailable (with `session`)"), UnknownSession, InvalidQuery))]
pub(super) async fn list(access: Access, Params(params): Params<ViewParams>) -> HttpResult {
    let session = find_session(&access, params.session.as_deref()).await?;
    Ok(listed(&access, session.as_ref()))
}

/// Creates a group. It is empty until definitions name it.
#[utoipa::path(post, path = "/tool-groups", operation_id = "create_tool_group", tag = "tool groups",
    request_body(content = GroupBody, example = json!({"name": "mail", "description": "Reads and sends mail.", "active": true})),
    security(("api_key" = ["tools"])),
    responses((status = 201, description = "Created; `Location` is the path of the group", body = GroupView, headers(("Location" = String))),
        (status = 409, description = "A group of this name already exists"),
        (status = 429, description = "`TOO_MANY_GROUPS`: the limit of the tenant is reached. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 422, description = "The body does not match the schema, or the name is invalid"),
        BodyErrors, Unavailable))]
pub(super) async fn create(Api { state, access }: Api, mut body: JsonBody) -> HttpResult {
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
    Ok(reply::created(&format!("/tool-groups/{}", group.name), shown(&access, &group.name, None)?))
}

/// Returns a group.
#[utoipa::path(get, path = "/tool-groups/{name}", operation_id = "read_tool_group", tag = "tool groups",
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("api_key" = ["tools"])),
    params(("name" = String, Path, example = "mail", description = "The group's name"), ViewParams),
    responses((status = 200, description = "The group", body = GroupView),
        (status = 404, description = "Unknown group or session"),
        (status = 503, description = "The database is unavailable (with `session`)"), InvalidQuery))]
pub(super) async fn read(access: Access, Path(name): Path<String>, Params(params): Params<ViewParams>) -> HttpResult {
    let session = find_session(&access, params.session.as_deref()).await?;
    shown(&access, &name, session.as_ref())
}

/// Deletes a group and the registered tools that are in no other group. Registered tools in other groups stay, without
/// this group. A group that built-in tools or tools in files name cannot be deleted, only deactivated.
#[utoipa::path(delete, path = "/tool-groups/{name}", operation_id = "delete_tool_group", tag = "tool groups",
    security(("api_key" = ["tools"])),
    params(("name" = String, Path, example = "mail", description = "The group's name")),
    responses((status = 204, description = "Deleted"),
        (status = 404, description = "Unknown group"),
        (status = 409, description = "Built-in tools or tools in files name the group"), Unavailable))]
pub(super) async fn delete(Api { state, access }: Api, Path(name): Path<String>) -> HttpResult<NoContent> {
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
    Ok(NoContent)
}

fn check_description(description: &str) -> HttpResult<()> {
    match description.chars().nth(MAX_DESCRIPTION_CHARS) {
        Some(_) => Err(Problem::field("/description", format!("must have at most {MAX_DESCRIPTION_CHARS} characters"))),
        None => Ok(()),
    }
}

/// Returns the session that a request names, if any.
pub(super) async fn find_session(access: &Access, id: Option<&str>) -> HttpResult<Option<Session>> {
    match id {
        Some(id) => extract::find_session(access, id).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the group of this name, or a 404.
pub(super) fn known_group<'a>(groups: &'a Groups, name: &str) -> HttpResult<&'a Arc<Group>> {
    groups.get(name).ok_or_else(|| Problem::unknown("group", name))
}

/// Returns all groups as seen in the session, or globally.
fn listed(access: &Access, session: Option<&Session>) -> Response {
    let snapshot = access.snapshot().clone();
    let view = access.view(&snapshot, session);
    let groups: Vec<GroupView<'_>> = view.groups().map(|(group, active)| group_view(view, group, active)).collect();
    reply::ok(&GroupList { total: groups.len(), groups })
}

/// Returns one group as seen in the session, or globally.
fn shown(access: &Access, name: &str, session: Option<&Session>) -> HttpResult {
    let snapshot = access.snapshot().clone();
    let view = access.view(&snapshot, session);
    let group = known_group(snapshot.groups(), name)?;
    Ok(reply::ok(&group_view(view, group, view.is_active(name))))
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

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ToolGroupSwitches)]
pub(super) struct Switches {
    /// The groups to activate.
    #[serde(default)]
    activate: Vec<String>,
    /// The groups to deactivate.
    #[serde(default)]
    deactivate: Vec<String>,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ToolGroupChange)]
pub(super) struct ChangeBody {
    /// The purpose of its tools.
    #[schema(max_length = 10_000)]
    description: Option<String>,
    /// Whether its tools can be called.
    active: Option<bool>,
    /// Whether a model may activate or deactivate it in its own session.
    manageable: Option<bool>,
}

/// Activates and deactivates groups. If one of them is unknown, nothing changes. With `session`, the change applies to
/// that session only and takes precedence over the global state. Calls that are already accepted are not affected.
#[utoipa::path(patch, path = "/tool-groups", operation_id = "switch_tool_groups", tag = "tool groups", params(ViewParams),
    request_body(content = Switches, example = json!({"deactivate": ["mail"]})),
    security(("api_key" = ["call"]), ("api_key" = ["tools"])),
    responses((status = 200, description = "All groups after the change", body = GroupList),
        (status = 404, description = "Unknown group or session; nothing was changed"),
        (status = 422, description = "The body does not match the schema, or a group is in both lists"),
        BodyErrors, Unavailable))]
pub(super) async fn switch(
    Api { state, access }: Api,
    Params(params): Params<ViewParams>,
    mut body: JsonBody,
) -> HttpResult {
    let Switches { activate, deactivate } = body.read()?;
    let mut switches: BTreeMap<String, bool> = activate.into_iter().map(|name| (name, true)).collect();
    for (index, name) in deactivate.into_iter().enumerate() {
        if switches.get(&name) == Some(&true) {
            // Unknown names are reported first, because the caller must remove them from both lists.
            check_all_known(&access, params.session.as_deref(), switches.keys()).await?;
            let message = format!("\"{}\" is also in `activate`", json::shorten(&name, 128));
            return Err(Problem::field(format!("/deactivate/{index}"), message));
        }
        switches.insert(name, false);
    }
    let session = match params.session {
        Some(id) => Some(switch_in_session(&state, &access, &id, &switches).await?),
        None => {
            let change = |(name, active)| GroupChange { name, active: Some(active), ..GroupChange::default() };
            apply(&state, &access, switches.into_iter().map(change).collect()).await?;
            None
        }
    };
    Ok(listed(&access, session.as_ref()))
}

/// Changes a group; missing members keep their values. With `session`, only `active` can be changed, for that session
/// only.
#[utoipa::path(patch, path = "/tool-groups/{name}", operation_id = "change_tool_group", tag = "tool groups",
    request_body(content = ChangeBody, example = json!({"description": "Reads and sends mail.", "active": false})),
    security(("api_key" = ["call"]), ("api_key" = ["tools"])),
    params(("name" = String, Path, example = "mail", description = "The group's name"), ViewParams),
    responses((status = 200, description = "The group after the change", body = GroupView),
        (status = 404, description = "Unknown group or session"), BodyErrors, InvalidBody, Unavailable))]
pub(super) async fn change(
    Api { state, access }: Api,
    Path(name): Path<String>,
    Params(params): Params<ViewParams>,
    mut body: JsonBody,
) -> HttpResult {
    let ChangeBody { description, active, manageable } = body.read()?;
    description.as_deref().map_or(Ok(()), check_description)?;
    let Some(id) = params.session else {
        let change = GroupChange { name: name.clone(), description, active, manageable, is_named: false };
        apply(&state, &access, vec![change]).await?;
        return shown(&access, &name, None);
    };
    if description.is_some() || manageable.is_some() {
        check_all_known(&access, Some(&id), [&name]).await?;
    }
    for (pointer, is_given) in [("/description", description.is_some()), ("/manageable", manageable.is_some())] {
        if is_given {
            return Err(Problem::field(pointer, "is the same in all sessions; omit it, or omit `session`"));
        }
    }
    known_group(access.snapshot().groups(), &name)?;
    let switches = active.map(|active| (name.clone(), active)).into_iter().collect();
    let session = switch_in_session(&state, &access, &id, &switches).await?;
    shown(&access, &name, Some(&session))
}

/// Checks that the session, if any, and all groups exist.
async fn check_all_known(
    access: &Access,
    session: Option<&str>,
    names: impl IntoIterator<Item = &String>,
) -> HttpResult<()> {
    find_session(access, session).await?;
    let snapshot = access.snapshot();
    names.into_iter().try_for_each(|name| known_group(snapshot.groups(), name).map(drop))
}

/// Changes groups globally. Returns after the change applies to this node.
async fn apply(state: &Shared, access: &Access, mut changes: Vec<GroupChange>) -> HttpResult<()> {
    require(access, Scopes::of([Scope::Tools]))?;
    require_all_tools(access)?;
    let registry = state.engine.registry();
    // Another node may just have created the group.
    registry.reload(access.store()).await?;
    for change in &mut changes {
        change.is_named = !known_group(access.snapshot().groups(), &change.name)?.is_stored;
    }
    let changed = changes.is_empty() || access.store().change_groups(&changes, state.clock.now()).await?;
    registry.reload(access.store()).await?;
    if !changed {
        return Err(Problem::not_found("one of the groups was deleted in the meantime; nothing was changed"));
    }
    Ok(())
}

/// Switches groups in one session and returns the changed session.
async fn switch_in_session(
    state: &Shared,
    access: &Access,
    id: &str,
    switches: &BTreeMap<String, bool>,
) -> HttpResult<Session> {
    let registry = state.engine.registry();
    let session = extract::find_session(access, id).await?;
    registry.reload(access.store()).await?;
    for name in switches.keys() {
        known_group(access.snapshot().groups(), name)?;
    }
    if switches.is_empty() {
        return Ok(session);
    }
    if !access.store().switch_session_groups(id, switches).await? {
        return Err(Problem::unknown("session", id));
    }
    extract::find_session(access, id).await
}
