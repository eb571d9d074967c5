//! `find_tools` and `call_tool`: access to all tools through two definitions, for models with too little context for
//! all.

use std::sync::{Arc, Weak};

use serde_json::{Value, json};

use super::View;
use super::catalog::Catalogs;
use toolpost_core::domain::{Failure, ToolOutput};
use toolpost_tool::executor::{BoxFuture, Executor, Invocation, ToolRole};
use toolpost_tool::tool::{BuiltinTool, DefinitionBuilder};

/// The catalogs of a registry, shared with its readers.
pub type SharedCatalogs = Arc<Catalogs>;

/// The category of both tools.
const CATEGORY: &str = "discovery";
/// Default number of results.
const USUAL: u64 = 5;
/// Maximum number of results.
const MAX_RESULTS: u64 = 50;

/// Returns both tools for the registry with these catalogs.
#[must_use]
pub fn tools(catalogs: &SharedCatalogs) -> Vec<BuiltinTool> {
    vec![CallTool::tool(), FindTools::tool(catalogs)]
}

/// The executor of `find_tools`.
#[derive(Debug)]
struct FindTools(Weak<Catalogs>);

impl FindTools {
    fn tool(catalogs: &SharedCatalogs) -> BuiltinTool {
        let query = "What the tool should do, in a few words.";
        let schema = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 1000, "description": query},
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "default": USUAL,
                    "description": "Maximum number of tools.",
                },
            },
            "required": ["query"],
            "additionalProperties": false,
        });
        let found = json!({"tools": [{
            "name": "get_weather", "description": "Returns the weather.", "score": 2.1,
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        }]});
        let about = DefinitionBuilder::with_schema("find_tools", schema)
            .title("Find tools")
            .description(
                "Finds tools by what they do, best first, each with the schema of its arguments. Call one with call_tool.",
            )
            .category(CATEGORY)
            .example(json!({"query": "weather in a city"}), found)
            .read_only()
            .closed_world();
        let executor = Arc::new(Self(Arc::downgrade(catalogs)));
        BuiltinTool { definition: about.into_definition(), executor, validate: None }
    }
}

/// Returns the matching tools, best first.
fn found(catalogs: &Weak<Catalogs>, invocation: &Invocation) -> Value {
    let Invocation { tenant, allowed, session_snapshot: conversation, naming, arguments, .. } = invocation;
    let query = arguments["query"].as_str().unwrap_or_default();
    let limit = arguments["limit"].as_u64().unwrap_or(USUAL).min(MAX_RESULTS);
    // The call holds the catalog of its tenant, so it is loaded.
    let catalog = catalogs.upgrade().and_then(|catalogs| catalogs.get(tenant));
    let snapshot = catalog.map(|catalog| catalog.snapshot().clone()).unwrap_or_default();
    let view = View::new(&snapshot, conversation.as_deref(), allowed.as_deref());
    let found = view.search(query).into_iter().filter(|(tool, _)| tool.role.is_none());
    let tools = found.filter_map(|(tool, score)| {
        let (name, definition) = (snapshot.name_for(&tool, *naming)?, tool.definition());
        Some(json!({
            "name": name, "description": definition.description, "input_schema": definition.input_schema, "score": score,
        }))
    });
    let tools = tools.take(usize::try_from(limit).unwrap_or(usize::MAX));
    json!({ "tools": tools.collect::<Vec<Value>>() })
}

impl Executor for FindTools {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let catalogs = self.0.clone();
        Box::pin(async move {
            let name = invocation.name.clone();
            // The first search of a snapshot builds its index, which blocks the thread.
            let found = tokio::task::spawn_blocking(move || found(&catalogs, &invocation)).await;
            let found = found.map_err(|_| Failure::execution(&name, "the search was interrupted"))?;
            Ok(ToolOutput::Data(Arc::new(found)))
        })
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::Search)
    }
}

/// The executor of `call_tool`, which forwards to the tool that its arguments name.
#[derive(Debug)]
struct CallTool;

impl CallTool {
    fn tool() -> BuiltinTool {
        let arguments = "The arguments of the tool as described by its input_schema: an object, or its JSON text.";
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "description": "The name of the tool as returned by find_tools."},
                // Some vendors cannot express an object of any shape, but all can express a string.
                "arguments": {"type": ["object", "string"], "description": arguments},
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        let about = DefinitionBuilder::with_schema("call_tool", schema)
            .title("Call a tool")
            .description("Calls a tool found with find_tools.")
            .category(CATEGORY)
            .example(json!({"name": "get_weather", "arguments": {"city": "Paris"}}), "sunny");
        BuiltinTool { definition: about.into_definition(), executor: Arc::new(Self), validate: None }
    }
}

impl Executor for CallTool {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        // The engine replaces a call of this tool by a call of the named tool, so this executor never runs.
        let failure = Failure::execution(&invocation.name, "it forwards to another tool and does not run itself");
        Box::pin(std::future::ready(Err(failure)))
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::Forward)
    }
}
