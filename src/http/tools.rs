//! `/tools`: reading a tool, and managing tools that are registered over the API.

use axum::extract::Path;
use axum::http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

use super::extract::DefinitionBody;
use super::responses::{InvalidBody, Unavailable, UnknownTool};
use super::{Api, AppState, BodyErrors, HttpResult, JsonBody, NoContent, Params, Problem, Shared, extract, reply};
use crate::access::Access;
use crate::arguments::try_arguments;
use crate::aside::aside;
use crate::domain::call::Coercion;
use crate::domain::schemas::Replacement;
use crate::domain::{ExecutorSpec, Source, ToolDefinition, json, tool};
use crate::registry::fetched::FetchedDefinition;
use crate::registry::listed::ToolView;
use crate::registry::{Fault, ToolRecord, check, checked};
use crate::schema::{self, Role, Violation};
use crate::store::tools::Precondition;

/// Resumes a paused tool on all nodes. A tool that is not paused is left unchanged.
#[utoipa::path(post, path = "/tools/{name}/resume", operation_id = "resume_tool", tag = "tools", params(("name" = String, Path, example = "echo", description = "The tool's name")),
    security(("api_key" = ["tools"])),
    responses((status = 200, description = "The tool, no longer paused on any node", body = ToolView), UnknownTool, Unavailable))]
pub(super) async fn resume(Api { state, access }: Api, Path(name): Path<String>) -> HttpResult {
    let entry = find(&access, &name)?;
    state.engine.resume_tool(access.tenant(), &entry.name).await?;
    tool_response(&state, &access, &name, &HeaderMap::new(), Vec::new())
}

/// The options for reading a definition.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DefinitionParams {
    /// Whether schemas that are not valid but have one plain meaning are corrected; `warnings` lists what was changed.
    #[serde(default)]
    #[param(default = false)]
    mend: bool,
}

impl DefinitionParams {
    /// Corrects the schemas of a definition if the caller wants it. What cannot be corrected is left for the check.
    fn correct(&self, body: &mut DefinitionBody) {
        if !self.mend {
            return;
        }
        for (name, role) in [("input_schema", Role::Input), ("output_schema", Role::Output)] {
            let Some(given) = body.value.get_mut(name).filter(|given| !given.is_null()) else { continue };
            // Schemas can be slow to compile, whatever their size.
            if let Ok(corrected) = aside(|| schema::correct(given, role)) {
                *given = corrected.schema;
                body.warnings.extend(corrected.notes.into_iter().map(|note| format!("{name} {note}")));
            }
        }
    }
}

/// Registers a tool.
#[utoipa::path(post, path = "/tools", operation_id = "create_tool", tag = "tools", params(DefinitionParams),
    request_body(content = ToolDefinition, example = json!({"name": "get_weather", "title": "Weather", "description": "Returns the weather of a city.",
        "category": "data", "tags": ["weather"], "input_schema": {"type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]}},
        "required": ["city"]}, "annotations": {"read_only": true}, "executor": {"type": "builtin", "name": "echo"}})),
    security(("api_key" = ["tools"])),
    responses((status = 201, description = "Registered, with its `Location` and `ETag`", body = ToolView, headers(("Location" = String), ("ETag" = String))),
        (status = 409, description = "A tool of this name is already registered"),
        (status = 429, description = "`TOO_MANY_TOOLS`: the tenant has reached its limit. `TOO_MANY_REQUESTS`: the \
            rate or concurrency limit of the key is exceeded"),
        (status = 422, description = "The definition is invalid; see `errors`"), BodyErrors, Unavailable))]
pub(super) async fn create(
    Api { state, access }: Api,
    Params(how): Params<DefinitionParams>,
    mut body: DefinitionBody,
) -> HttpResult {
    how.correct(&mut body);
    let definition = tool::read_definition(body.value)?;
    let name = definition.name.clone();
    check_allowed(&access, &definition)?;
    let (definition, fetched) = compile(&state, &access, definition).await?;
    if !put(&state, &access, &definition, &fetched, Precondition::Absent).await? {
        let detail = format!("the tool \"{name}\" is already registered; use PUT to replace it");
        return Err(Problem::conflict("TOOL_EXISTS", detail));
    }
    let tool = tool_response(&state, &access, &name, &HeaderMap::new(), body.warnings)?;
    Ok(reply::created(&format!("/tools/{name}"), tool))
}

/// Reads a tool.
#[utoipa::path(get, path = "/tools/{name}", operation_id = "read_tool", tag = "tools",
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("api_key" = ["tools"])),
    params(("name" = String, Path, example = "echo", description = "The tool's name"), ("If-None-Match" = Option<String>, Header, description = "The `ETag` of the caller's version")),
    responses((status = 200, description = "The tool, with its `ETag`", body = ToolView, headers(("ETag" = String))),
        (status = 304, description = "`If-None-Match` lists the current version"), UnknownTool))]
pub(super) async fn read(Api { state, access }: Api, headers: HeaderMap, Path(name): Path<String>) -> HttpResult {
    tool_response(&state, &access, &name, &headers, Vec::new())
}

/// The body of a replacement. `utoipa` takes no generic type here.
type ToolReplacement = Replacement<ToolDefinition>;

/// Registers or replaces a tool. Use `If-Match` for compare-and-swap, `If-None-Match: *` to only register.
#[utoipa::path(put, path = "/tools/{name}", operation_id = "put_tool", tag = "tools",
    request_body(content = ToolReplacement, example = json!({"title": "Weather", "description": "Returns the weather of a city.", "category": "data", "tags": ["weather"],
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string",
        "enum": ["C", "F"]}}, "required": ["city"]}, "annotations": {"read_only": true},
        "executor": {"type": "builtin", "name": "echo"}})),
    security(("api_key" = ["tools"])),
    params(DefinitionParams, ("name" = String, Path, example = "get_weather", description = "The tool's name"), ("If-Match" = Option<String>, Header, description = "Replaces the tool only if it has this `ETag`; `*` matches any"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if no tool of this name exists")),
    responses((status = 200, description = "Replaced", body = ToolView, headers(("ETag" = String))),
        (status = 201, description = "Registered", body = ToolView, headers(("Location" = String), ("ETag" = String))),
        (status = 412, description = "`If-Match` or `If-None-Match` does not hold"),
        (status = 429, description = "`TOO_MANY_TOOLS`: the tenant has reached its limit. `TOO_MANY_REQUESTS`: the \
            rate or concurrency limit of the key is exceeded"),
        (status = 422, description = "The definition is invalid; see `errors`"), BodyErrors, Unavailable))]
pub(super) async fn replace(
    Api { state, access }: Api,
    Path(name): Path<String>,
    Params(how): Params<DefinitionParams>,
    headers: HeaderMap,
    mut body: DefinitionBody,
) -> HttpResult {
    how.correct(&mut body);
    let definition = tool::read_definition(extract::with_name(body.value, &name))?;
    extract::expect_name(&definition.name, &name)?;
    check_allowed(&access, &definition)?;
    let (definition, fetched) = compile(&state, &access, definition).await?;
    let registered = state.engine.registry().registered(access.tenant(), &name);
    let expected = match precondition(&state, &access, &headers, &name)? {
        false => Precondition::Anything,
        true => registered.as_ref().map_or(Precondition::Absent, |entry| Precondition::Revision(entry.made.revision)),
    };
    if !put(&state, &access, &definition, &fetched, expected).await? {
        return Err(stale_version(&name));
    }
    let tool = tool_response(&state, &access, &name, &HeaderMap::new(), body.warnings)?;
    Ok(if registered.is_some() { tool } else { reply::created(&format!("/tools/{name}"), tool) })
}

/// Deletes a registered tool. A file or built-in tool that it shadowed becomes visible again.
#[utoipa::path(delete, path = "/tools/{name}", operation_id = "delete_tool", tag = "tools",
    security(("api_key" = ["tools"])),
    params(("name" = String, Path, example = "get_weather", description = "The tool's name"), ("If-Match" = Option<String>, Header, description = "Deletes the tool only if it has this `ETag`; `*` matches any")),
    responses((status = 204, description = "Removed"),
        (status = 409, description = "The tool was not registered over the API"),
        (status = 412, description = "`If-Match` does not hold"), UnknownTool, Unavailable))]
pub(super) async fn delete(
    Api { state, access }: Api,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> HttpResult<NoContent> {
    let shown = find(&access, &name)?;
    let Some(registered) = state.engine.registry().registered(access.tenant(), &name) else {
        let detail = match shown.made.source {
            Source::File => format!("\"{name}\" is declared in the tools folder; remove it there"),
            Source::Mcp => format!("\"{name}\" is a tool of an upstream MCP server; remove the server instead"),
            _ => format!("\"{name}\" is built in; register a tool of the same name to shadow it"),
        };
        return Err(Problem::conflict("TOOL_NOT_REGISTERED", detail));
    };
    let revision = precondition(&state, &access, &headers, &name)?.then_some(registered.made.revision);
    let Some(commit) = access.store().delete_tool(&name, revision).await? else { return Err(stale_version(&name)) };
    state.engine.registry().apply(access.store(), commit).await?;
    Ok(NoContent)
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ValidateBody {
    /// An object, or JSON as text, as in a call.
    #[serde(default)]
    #[schema(value_type = Value)]
    arguments: Value,
}

/// The response of `POST /tools/{name}/validate`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Validation {
    /// Whether a call with these arguments would run.
    valid: bool,
    /// The arguments as the tool would receive them, or as given if they are invalid.
    #[schema(value_type = Value)]
    arguments: Arc<Value>,
    /// The coerced arguments.
    coerced: Vec<Coercion>,
    /// The violations.
    errors: Vec<Violation>,
}

/// Validates arguments as a call would. Nothing is run or counted.
#[utoipa::path(post, path = "/tools/{name}/validate", operation_id = "validate_arguments", tag = "tools",
    request_body(content = ValidateBody, example = json!({"arguments": {"city": "Paris"}})),
    security(("api_key" = ["call"]), ("api_key" = ["read"]), ("api_key" = ["tools"])),
    params(("name" = String, Path, example = "echo", description = "The tool's name")),
    responses((status = 200, description = "The result of the validation", body = Validation),
        BodyErrors, UnknownTool, InvalidBody))]
pub(super) async fn validate(access: Access, Path(name): Path<String>, mut body: JsonBody) -> HttpResult {
    // Schemas can be slow to compile, so this runs on a blocking thread.
    let tool = find(&access, &name)?;
    let entry = tokio::task::spawn_blocking(move || tool.entry()).await?.map_err(|_| Problem::internal())?;
    let given = Arc::new(body.read::<ValidateBody>()?.arguments);
    let validation = match try_arguments(&entry, &given) {
        Ok(checked) => {
            Validation { valid: true, arguments: checked.arguments, coerced: checked.coerced, errors: Vec::new() }
        }
        Err(errors) => Validation { valid: false, arguments: given, coerced: Vec::new(), errors },
    };
    Ok(reply::ok(&validation))
}

/// Returns the tool that the caller sees under this name.
pub(super) fn find(access: &Access, name: &str) -> HttpResult<Arc<ToolRecord>> {
    find_visible(access, name).map(|(entry, _)| entry)
}

/// Returns the tool that the caller sees under this name, and whether it can be called.
pub(super) fn find_visible(access: &Access, name: &str) -> HttpResult<(Arc<ToolRecord>, bool)> {
    let snapshot = access.snapshot();
    let view = access.view(&snapshot, None);
    let found = view.get(name).map(|entry| (entry.clone(), view.is_available(entry)));
    found.ok_or_else(|| Problem::unknown("tool", name))
}

/// Returns whether the request has a precondition. A precondition that does not hold is a 412 problem.
fn precondition(state: &Shared, access: &Access, headers: &HeaderMap, name: &str) -> HttpResult<bool> {
    let shown = find_visible(access, name).ok();
    let pauses = state.engine.pauses();
    let etag = shown.as_ref().map(|(entry, active)| entry.etag_now(pauses.of(access.tenant(), &entry.name), *active));
    // A pause changes the response but not the registered tool, so both entity tags match.
    let same = shown.as_ref().map(|(entry, active)| entry.etag_now(None, *active));
    let one = |header, etag: Option<&str>| reply::lists(headers, header, etag.unwrap_or("\"none\""));
    let is = |header: header::HeaderName| {
        let now = one(header.clone(), etag.as_deref())?;
        Some(now || one(header, same.as_deref()) == Some(true))
    };
    let matches = is(header::IF_MATCH).map(|listed| listed && shown.is_some());
    let none_matches = is(header::IF_NONE_MATCH).map(|listed| !(listed && shown.is_some()));
    if matches == Some(false) || none_matches == Some(false) {
        return Err(stale_version(name));
    }
    Ok(matches.is_some() || none_matches.is_some())
}

/// Checks that the key may use the tool's name and, if the tool runs a built-in, that built-in.
pub(super) fn check_allowed(access: &Access, definition: &ToolDefinition) -> HttpResult<()> {
    let code = match &definition.executor {
        ExecutorSpec::Builtin { name } => name,
        _ => &definition.name,
    };
    match [&definition.name, code].into_iter().find(|name| !access.caller().may_have(name)) {
        None => Ok(()),
        Some(name) => Err(Problem::forbidden(format!("the key may not use the tool \"{}\"", json::shorten(name, 128)))),
    }
}

fn stale_version(name: &str) -> Problem {
    let name = json::shorten(name, 128);
    Problem::precondition_failed(format!("\"{name}\" was modified since it was read; fetch it again"))
}

/// Checks the definition. Schemas can be slow to compile, so this runs on a blocking thread.
pub(super) async fn compile(
    state: &AppState,
    access: &Access,
    mut definition: ToolDefinition,
) -> HttpResult<(ToolDefinition, FetchedDefinition)> {
    let registry = state.engine.registry().clone();
    registry.keep_presets(access.tenant(), &mut definition);
    aside(|| state.upstreams.complete(&mut definition));
    let fetched = registry.fetch_for(&definition).await;
    let unknown = unknown_groups(state, access, &definition.groups).await?;
    let tenant = access.tenant().clone();
    let tried = tokio::task::spawn_blocking(move || {
        registry.try_fetched(&tenant, definition.clone(), fetched).map(|fetched| (definition, fetched))
    });
    match tried.await? {
        Ok(compiled) if unknown.is_empty() => Ok(compiled),
        Ok(_) => Err(unknown.into()),
        Err(faults) => Err(faults.into_iter().chain(unknown).collect::<Vec<Fault>>().into()),
    }
}

async fn unknown_groups(state: &Shared, access: &Access, named: &[String]) -> HttpResult<Vec<Fault>> {
    let registry = state.engine.registry();
    let unknown = || check::unknown_groups(named, access.snapshot().groups());
    if !unknown().is_empty() {
        // Another node may have created the group just now.
        registry.reload(access.store()).await?;
    }
    Ok(unknown())
}

async fn put(
    state: &Shared,
    access: &Access,
    definition: &ToolDefinition,
    fetched: &FetchedDefinition,
    expected: Precondition,
) -> HttpResult<bool> {
    let write = checked::write_of(definition, fetched, expected).map_err(|_| Problem::internal())?;
    let written = access.store().put_tools(vec![write], state.clock.now()).await?;
    let (registry, has_written) = (state.engine.registry(), written.is_some());
    match written {
        Some(commit) => registry.apply(access.store(), commit).await?,
        None => registry.reload(access.store()).await?,
    }
    Ok(has_written)
}

/// Returns a tool, or 304 if `headers` list the current version.
fn tool_response(
    state: &Shared,
    access: &Access,
    name: &str,
    headers: &HeaderMap,
    warnings: Vec<String>,
) -> HttpResult {
    let (entry, active) = find_visible(access, name)?;
    let paused = state.engine.pauses().of(access.tenant(), &entry.name);
    let mut view = entry.view(paused, active);
    view.warnings = warnings;
    Ok(reply::tagged(headers, &entry.etag_now(paused, active), &view))
}
