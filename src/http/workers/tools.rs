//! `PUT /workers/{queue}/tools`: the tools that a worker offers.

use axum::extract::Path;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::responses::Unavailable;
use super::super::tools::{check_allowed, compile, find_visible};
use super::super::{Api, AppState, BodyErrors, HttpResult, JsonBody, Problem, reply};
use crate::access::Access;
use crate::domain::{ToolDefinition, decode, tool};
use crate::registry::checked;
use crate::registry::fetched::FetchedDefinition;
use crate::registry::listed::{ListedTool, ToolView};
use crate::store::tools::{Precondition, StoredTool, ToolWrite};
use crate::store::workers::SeenWorker;

/// Maximum number of tools of one worker.
const MAX_TOOLS: usize = 200;
/// How often a registration is repeated that a concurrent change has overtaken.
const ATTEMPTS: usize = 5;

/// The tools of a worker.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OfferedTools)]
pub(in super::super) struct ToolsBody {
    /// The name of the worker.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\u0000-\u001F\u007F-\u009F]+$")]
    worker: String,
    /// All tools that the worker offers. The `executor` may be omitted.
    #[schema(value_type = Vec<Object>, max_items = 200)]
    tools: Vec<Value>,
}

/// The registered tools of a worker.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = RegisteredTools)]
struct ToolsView {
    /// The tools, in the order of the request.
    #[schema(value_type = Vec<ToolView>)]
    tools: Vec<ListedTool>,
}

/// Registers the tools that a worker offers, all or none, and replaces the list of its tools.
///
/// A tool that is registered with the same definition stays unchanged. A tool of the same name that is not of this queue is
/// not replaced.
#[utoipa::path(put, path = "/workers/{queue}/tools", operation_id = "put_worker_tools", tag = "workers",
    security(("api_key" = ["work", "tools"])),
    params(("queue" = String, Path, example = "mail", description = "The queue")),
    request_body(content = ToolsBody, example = json!({"worker": "mailer-1", "tools": [{"name": "send_mail",
        "description": "Sends a mail.", "input_schema": {"type": "object", "properties": {"to": {"type": "string"}},
        "required": ["to"]}, "executor": {"type": "worker", "queue": "mail"}}]})),
    responses((status = 200, description = "The registered tools", body = ToolsView),
        (status = 404, description = "The name of the queue is invalid"),
        (status = 409, description = "`TOOL_EXISTS`: a tool of this name is registered, and is not of this queue. `TOOL_CHANGED`: a tool was changed at the same time; repeat the request"),
        (status = 422, description = "A definition is invalid; see `errors`"),
        (status = 429, description = "`TOO_MANY_TOOLS`: the tenant has reached its limit. `TOO_MANY_REQUESTS`: the \
            rate or concurrency limit of the key is exceeded"),
        BodyErrors, Unavailable))]
pub(in super::super) async fn put(
    Api { state, access }: Api,
    Path(queue): Path<String>,
    headers: HeaderMap,
    mut body: JsonBody,
) -> HttpResult {
    let queue = super::queue_of(&access, &queue)?;
    decode::expect_strings(&body.value, &["/worker"])?;
    let ToolsBody { worker, tools } = body.read()?;
    let worker = super::worker_of(&worker)?;
    if tools.len() > MAX_TOOLS {
        return Err(Problem::field("/tools", format!("must have at most {MAX_TOOLS} tools")));
    }
    let mut compiled = Vec::with_capacity(tools.len());
    for (index, value) in tools.into_iter().enumerate() {
        let pointer = format!("/tools/{index}");
        let definition = definition_of(value, &queue).map_err(|problem| problem.within(&pointer))?;
        check_allowed(&access, &definition)?;
        let is_known = |(known, _): &(ToolDefinition, FetchedDefinition)| known.name == definition.name;
        if compiled.iter().any(is_known) {
            return Err(Problem::field(format!("{pointer}/name"), "is repeated; each tool is listed once"));
        }
        let one = Box::pin(compile(&state, &access, definition)).await;
        compiled.push(one.map_err(|problem| problem.within(&pointer))?);
    }
    register(&state, &access, &queue, &compiled).await?;
    let names: Vec<String> = compiled.into_iter().map(|(definition, _)| definition.name).collect();
    let seen = SeenWorker { tenant: access.tenant().clone(), queue, worker, sdk: super::sdk_of(&headers) };
    state.engine.workers().offer_tools(seen, &names).await?;
    let found: HttpResult<Vec<_>> = names.iter().map(|name| find_visible(&access, name)).collect();
    let found = found?;
    let pauses = state.engine.pauses();
    let views = found.iter().map(|(entry, active)| entry.view(pauses.of(access.tenant(), &entry.name), *active));
    Ok(reply::ok(&ToolsView { tools: views.collect() }))
}

/// Reads a definition. The executor is that of the queue.
fn definition_of(mut value: Value, queue: &str) -> HttpResult<ToolDefinition> {
    if let Value::Object(members) = &mut value {
        members.entry("executor").or_insert_with(|| json!({"type": "worker", "queue": queue}));
    }
    let definition = tool::read_definition(value)?;
    match definition.worker() {
        Some(spec) if spec.queue == queue => Ok(definition),
        Some(_) => Err(Problem::field("/executor/queue", format!("must be \"{queue}\" as in the path"))),
        None => Err(Problem::field("/executor/type", "must be `worker`: workers offer only tools that they run")),
    }
}

/// Registers the tools that are new or have changed.
async fn register(
    state: &AppState,
    access: &Access,
    queue: &str,
    compiled: &[(ToolDefinition, FetchedDefinition)],
) -> HttpResult<()> {
    let registry = state.engine.registry();
    for _ in 0..ATTEMPTS {
        let names: Vec<&str> = compiled.iter().map(|(definition, _)| definition.name.as_str()).collect();
        let stored = if names.is_empty() { Vec::new() } else { access.store().tools_named(&names).await? };
        let mut writes = Vec::new();
        for (definition, fetched) in compiled {
            let known = stored.iter().find(|tool| tool.name == definition.name);
            writes.extend(write_of(known, queue, definition, fetched)?);
        }
        if writes.is_empty() {
            // Another node may have registered them just now.
            return Ok(registry.reload(access.store()).await?);
        }
        match access.store().put_tools(writes, state.clock.now()).await? {
            Some(commit) => return Ok(registry.apply(access.store(), commit).await?),
            // Another worker has registered some of them meanwhile.
            None => registry.reload(access.store()).await?,
        }
    }
    Err(Problem::conflict("TOOL_CHANGED", "a tool was changed at the same time; repeat the request"))
}

/// Returns the write that registers a tool; `None` if it is registered with this definition.
fn write_of(
    known: Option<&StoredTool>,
    queue: &str,
    definition: &ToolDefinition,
    fetched: &FetchedDefinition,
) -> HttpResult<Option<ToolWrite>> {
    let expected = known.map_or(Precondition::Absent, |known| Precondition::Revision(known.revision));
    let write = checked::write_of(definition, fetched, expected).map_err(|_| Problem::internal())?;
    let Some(known) = known else { return Ok(Some(write)) };
    if known.definition == write.definition {
        return Ok(None);
    }
    let executor = serde_json::from_str::<Value>(&known.definition).unwrap_or_default()["executor"].take();
    if executor["type"] != "worker" || executor["queue"] != queue {
        let name = &definition.name;
        let detail = format!("the tool \"{name}\" is registered and is not of the queue \"{queue}\"; delete it first");
        return Err(Problem::conflict("TOOL_EXISTS", detail));
    }
    Ok(Some(write))
}
