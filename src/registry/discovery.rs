//! `find_tools` and `call_tool`: all tools through two definitions, for a model that cannot be told of every one.

use std::sync::{Arc, Weak};

use serde_json::{Value, json};

use super::View;
use super::catalog::Catalogs;
use crate::domain::{Failure, ToolOutput};
use crate::executor::{BoxFuture, Executor, Invocation, ToolRole};
use crate::tool::{BuiltinTool, DefinitionBuilder};

/// What is shown of a registry, to be looked at later.
pub type SharedCatalogs = Arc<Catalogs>;

/// The heading that they are listed under.
const CATEGORY: &str = "discovery";
/// Tools that are found unless more are wanted.
const USUAL: u64 = 5;
/// Most tools that are found.
const MOST: u64 = 50;

/// Both tools, for the registry that is shown here.
#[must_use]
pub fn tools(shown: &SharedCatalogs) -> Vec<BuiltinTool> {
    vec![CallTool::tool(), FindTools::tool(shown)]
}

/// Searches the tools.
#[derive(Debug)]
struct FindTools(Weak<Catalogs>);

impl FindTools {
    fn tool(shown: &SharedCatalogs) -> BuiltinTool {
        let query = "What the tool is to do, in a few words.";
        let schema = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 1000, "description": query},
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL,
                    "description": "How many tools at most.",
                },
            },
            "required": ["query"],
            "additionalProperties": false,
        });
        let found = json!({"tools": [{
            "name": "get_weather", "description": "Tells the weather.", "score": 2.1,
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
        let executor = Arc::new(Self(Arc::downgrade(shown)));
        BuiltinTool { definition: about.into_definition(), executor, validate: None }
    }
}

/// The tools that fit, best first.
fn found(shown: &Weak<Catalogs>, invocation: &Invocation) -> Value {
    let Invocation { tenant, allowed, session_snapshot: conversation, naming, arguments, .. } = invocation;
    let query = arguments["query"].as_str().unwrap_or_default();
    let limit = arguments["limit"].as_u64().unwrap_or(USUAL).min(MOST);
    // The call holds the shelf of its tenant.
    let shelf = shown.upgrade().and_then(|shown| shown.of(tenant));
    let snapshot = shelf.map(|shelf| shelf.snapshot().clone()).unwrap_or_default();
    let view = View::new(&snapshot, conversation.as_deref(), allowed.as_deref());
    let found = view.search(query).into_iter().filter(|(entry, _)| entry.role.is_none());
    let tools = found.filter_map(|(entry, score)| {
        let (name, definition) = (snapshot.name_for(&entry, *naming)?, &entry.definition);
        Some(json!({
            "name": name, "description": definition.description, "input_schema": definition.input_schema, "score": score,
        }))
    });
    let tools = tools.take(usize::try_from(limit).unwrap_or(usize::MAX));
    json!({ "tools": tools.collect::<Vec<Value>>() })
}

impl Executor for FindTools {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let shown = self.0.clone();
        Box::pin(async move {
            let name = invocation.name.clone();
            // The first search of a snapshot reads all of it.
            let found = tokio::task::spawn_blocking(move || found(&shown, &invocation)).await;
            let found = found.map_err(|_| Failure::execution(&name, "the search broke off"))?;
            Ok(ToolOutput::Data(Arc::new(found)))
        })
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::Search)
    }
}

/// Stands for the tool that its arguments name.
#[derive(Debug)]
struct CallTool;

impl CallTool {
    fn tool() -> BuiltinTool {
        let arguments = "Its arguments, as its input_schema describes them: an object, or the JSON text of one.";
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "description": "The tool, as find_tools names it."},
                // Some vendors cannot say an object of any shape, but every one can say a text.
                "arguments": {"type": ["object", "string"], "description": arguments},
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        let about = DefinitionBuilder::with_schema("call_tool", schema)
            .title("Call a tool")
            .description("Calls a tool that find_tools has found.")
            .category(CATEGORY)
            .example(json!({"name": "get_weather", "arguments": {"city": "Paris"}}), "sunny");
        BuiltinTool { definition: about.into_definition(), executor: Arc::new(Self), validate: None }
    }
}

impl Executor for CallTool {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        // Its calls become those of the tools that they name before anything runs.
        let failure = Failure::execution(&invocation.name, "it stands for another tool and is not run itself");
        Box::pin(std::future::ready(Err(failure)))
    }

    fn role(&self) -> Option<ToolRole> {
        Some(ToolRole::Forward)
    }
}
