//! Activates, deactivates and changes groups.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::{
    GroupList, GroupView, ViewParams, check_description, find_session, known_group, listed, no_such_session, shown,
};
use crate::access::Access;
use crate::domain::{Scope, Scopes, Session, json};
use crate::http::auth::{require, require_all_tools};
use crate::http::extract::{JsonBody, Params};
use crate::http::openapi_common::BodyErrors;
use crate::http::problem::Problem;
use crate::http::{AppState, Shared};
use crate::store::groups::GroupChange;

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ToolGroupSwitches)]
pub(in crate::http) struct Switches {
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
pub(in crate::http) struct ChangeBody {
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
        BodyErrors,
        (status = 404, description = "Unknown group or session; nothing was changed"),
        (status = 422, description = "The body does not match the schema, or a group is in both lists"),
        (status = 503, description = "The database is unavailable")))]
pub(in crate::http) async fn switch(
    State(state): State<AppState>,
    access: Access,
    Params(params): Params<ViewParams>,
    mut body: JsonBody,
) -> Result<Response, Problem> {
    let Switches { activate, deactivate } = body.read()?;
    let mut switches: BTreeMap<String, bool> = activate.into_iter().map(|name| (name, true)).collect();
    for (place, name) in deactivate.into_iter().enumerate() {
        if switches.get(&name) == Some(&true) {
            // Unknown names are reported first, because the caller must remove them from both lists.
            check_all_known(&access, params.session.as_deref(), switches.keys()).await?;
            let message = format!("\"{}\" is also in `activate`", json::shorten(&name, 128));
            return Err(Problem::field(format!("/deactivate/{place}"), message));
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
        BodyErrors,
        (status = 404, description = "Unknown group or session"),
        (status = 422, description = "The body does not match the schema"),
        (status = 503, description = "The database is unavailable")))]
pub(in crate::http) async fn change(
    State(state): State<AppState>,
    access: Access,
    Path(name): Path<String>,
    Params(params): Params<ViewParams>,
    mut body: JsonBody,
) -> Result<Response, Problem> {
    let ChangeBody { description, active, manageable } = body.read()?;
    description.as_deref().map_or(Ok(()), check_description)?;
    let Some(id) = params.session else {
        let change = GroupChange { name: name.clone(), description, active, manageable, is_named: false };
        apply(&state, &access, vec![change]).await?;
        return shown(&access, &name, None, StatusCode::OK);
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
    shown(&access, &name, Some(&session), StatusCode::OK)
}

/// Checks that the session, if any, and all groups exist.
async fn check_all_known(
    access: &Access,
    session: Option<&str>,
    names: impl IntoIterator<Item = &String>,
) -> Result<(), Problem> {
    find_session(access, session).await?;
    let snapshot = access.snapshot();
    names.into_iter().try_for_each(|name| known_group(snapshot.groups(), name).map(drop))
}

/// Changes groups globally. Returns after the change applies to this node.
async fn apply(state: &Shared, access: &Access, mut changes: Vec<GroupChange>) -> Result<(), Problem> {
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
) -> Result<Session, Problem> {
    let registry = state.engine.registry();
    let session = find_session(access, Some(id)).await?;
    registry.reload(access.store()).await?;
    for name in switches.keys() {
        known_group(access.snapshot().groups(), name)?;
    }
    if switches.is_empty() {
        return session.ok_or_else(|| no_such_session(id));
    }
    if !access.store().switch_session_groups(id, switches).await? {
        return Err(no_such_session(id));
    }
    find_session(access, Some(id)).await?.ok_or_else(|| no_such_session(id))
}
