//! `/hooks`: webhooks that are invoked before and after calls.

use axum::extract::Path;
use serde::Serialize;

use super::auth::require_all_tools;
use super::responses::Unavailable;
use super::{Api, BodyErrors, FieldError, HttpResult, JsonBody, NoContent, Problem, reply};
use crate::domain::{HookDefinition, decode};
use crate::hooks::{Hook, HookSource};
use crate::store::hooks::StoredHook;

/// The response of `GET /hooks`.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct HookList<'a> {
    /// All hooks, in the order in which they are invoked.
    hooks: Vec<&'a Hook>,
    /// The number of hooks.
    total: usize,
}

/// Lists the hooks without their secrets.
#[utoipa::path(get, path = "/hooks", operation_id = "list_hooks", tag = "hooks",
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The hooks", body = HookList), Unavailable))]
pub(super) async fn list(Api { state, access }: Api) -> HttpResult {
    let all = state.engine.hooks().all(access.tenant());
    let hooks: Vec<&Hook> = all.iter().map(|hook| &**hook).collect();
    Ok(reply::ok(&HookList { total: hooks.len(), hooks }))
}

/// Registers a hook. It applies to this node from the response on, and to all nodes within about a second.
#[utoipa::path(post, path = "/hooks", operation_id = "create_hook", tag = "hooks",
    request_body(content = HookDefinition, example = json!({"event": "tool_result_persist", "builtin": "redact", "options": {"patterns": ["sk-[A-Za-z0-9]{16,}"]},
        "match": {"tools": ["mail_*"]}})),
    security(("api_key" = ["admin"])),
    responses((status = 201, description = "Registered", body = Hook, headers(("Location" = String))),
        (status = 429, description = "`TOO_MANY_HOOKS`: the limit of the tenant is reached. `TOO_MANY_REQUESTS`: the rate or concurrency limit of the key is exceeded"),
        (status = 422, description = "The hook is invalid; see `errors`"), BodyErrors, Unavailable))]
pub(super) async fn create(Api { state, access }: Api, mut body: JsonBody) -> HttpResult {
    // A hook applies to calls of all tools.
    require_all_tools(&access)?;
    decode::expect_objects(&body.value, &["/match", "/options"])?;
    decode::expect_strings(&body.value, &["/event", "/builtin", "/failure_policy"])?;
    let definition: HookDefinition = body.read()?;
    let (id, now) = (state.engine.new_id(), state.clock.now());
    let hook = compile(id.to_string(), definition, now).await?;
    let hooks = state.engine.hooks();
    let definition = serde_json::to_string(&hook.definition).map_err(|_| Problem::internal())?;
    let secret = hook.definition.secret.as_ref().map(|secret| secret.0.clone());
    access.store().insert_hook(&StoredHook { id, definition, secret, created_at: now }).await?;
    hooks.reload(&state.stores).await?;
    Ok(reply::created(&format!("/hooks/{id}"), reply::ok(&hook)))
}

/// Returns a hook without its secret.
#[utoipa::path(get, path = "/hooks/{id}", operation_id = "read_hook", tag = "hooks", params(("id" = String, Path, description = "The hook's id")),
    security(("api_key" = ["admin"])),
    responses((status = 200, description = "The hook", body = Hook),
        (status = 404, description = "Unknown hook")))]
pub(super) async fn read(Api { state, access }: Api, Path(id): Path<String>) -> HttpResult {
    let hook = state.engine.hooks().get(access.tenant(), &id).ok_or_else(|| Problem::unknown("hook", &id))?;
    Ok(reply::ok(&*hook))
}

/// Removes a registered hook. Running invocations of the hook continue.
#[utoipa::path(delete, path = "/hooks/{id}", operation_id = "delete_hook", tag = "hooks", params(("id" = String, Path, description = "The hook's id")),
    security(("api_key" = ["admin"])),
    responses((status = 204, description = "Removed"),
        (status = 404, description = "Unknown hook"),
        (status = 409, description = "The hook was not registered over the API"), Unavailable))]
pub(super) async fn delete(Api { state, access }: Api, Path(id): Path<String>) -> HttpResult<NoContent> {
    require_all_tools(&access)?;
    if let Some(hook) = state.engine.hooks().get(access.tenant(), &id).filter(|hook| hook.source != HookSource::Api) {
        let origin = if hook.source == HookSource::Config { "settings" } else { "program" };
        let detail = format!("the hook is declared in the {origin}; remove it there");
        return Err(Problem::conflict("HOOK_NOT_REGISTERED", detail));
    }
    // A hook that another node has just registered may not be listed here yet.
    let known = id.parse().map_err(|_| Problem::unknown("hook", &id))?;
    let found = access.store().delete_hook(known).await?;
    state.engine.hooks().reload(&state.stores).await?;
    if found { Ok(NoContent) } else { Err(Problem::unknown("hook", &id)) }
}

/// Compiles a hook on a blocking thread, because patterns and globs can take long to compile.
async fn compile(id: String, definition: HookDefinition, now: crate::domain::Time) -> HttpResult<Hook> {
    let compiled = tokio::task::spawn_blocking(move || Hook::declared(id, definition, HookSource::Api, now)).await;
    compiled?.map_err(|faults| {
        let field = |(pointer, message)| FieldError { pointer, message };
        Problem::invalid(faults.into_iter().map(field).collect())
    })
}
