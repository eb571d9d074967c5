//! Tools of a running service: list, show and try.

use serde::Deserialize;
use serde_json::{Value, json};

use super::show::{self, DescribedTool};
use super::{executor, print_table, row};
use crate::cli::error::CliError;
use crate::cli::remote::{Query, Remote};
use crate::cli::{Exit, print};
use crate::domain::call::Coercion;
use crate::domain::tool::read_definition;
use crate::domain::{Time, json as lossless};
use crate::formats::definitions::Format;

/// Maximum length of a message, in characters.
const LONGEST: usize = 500;

/// The facts of a tool that are not part of its definition.
#[derive(Debug, Deserialize)]
struct ToolFacts {
    name: String,
    #[serde(default)]
    description: String,
    source: String,
    revision: i64,
    active: bool,
    updated_at: Time,
}

/// The response of `POST /tools/{name}/validate`.
#[derive(Debug, Deserialize)]
struct Validation {
    valid: bool,
    arguments: Value,
    coerced: Vec<Coercion>,
    errors: Vec<Violation>,
}

/// A violation of the schema.
#[derive(Debug, Deserialize)]
struct Violation {
    pointer: String,
    message: String,
}

/// Lists the tools.
pub async fn list(service: &Remote, json: bool, format: Option<Format>) -> Result<(), CliError> {
    let query = Query::default();
    if let Some(format) = format {
        let query = query.with("format", Some(format.name()));
        return print::result(&service.get_text(&["tools"], &query).await?);
    }
    if json {
        return print::json(&service.get(&["tools"], &query).await?);
    }
    let mut answer = service.get(&["tools"], &query.with("include_inactive", Some(true))).await?;
    let tools: Vec<Value> = service.member(&mut answer, "tools")?;
    let mut rows = Vec::with_capacity(tools.len());
    for tool in tools {
        let facts: ToolFacts = service.read(tool.clone())?;
        // A newer service can have kinds of executors that this program does not know.
        let executor = read_definition(tool).map_or_else(|_| "?".to_owned(), |definition| executor(&definition));
        rows.push(row(&facts.name, facts.active, &facts.source, &executor, &facts.description));
    }
    print_table(rows.into_iter())
}

/// Shows one tool. The definition of a newer service is shown as JSON.
pub async fn show(service: &Remote, name: &str, json: bool) -> Result<(), CliError> {
    let tool = service.get(&["tools", name], &Query::default()).await?;
    let Some(definition) = read_definition(tool.clone()).ok().filter(|_| !json) else { return print::json(&tool) };
    let ToolFacts { source, revision, updated_at, .. } = service.read(tool)?;
    let described =
        DescribedTool { definition: &definition, source: &print::one_line(&source, LONGEST), revision, updated_at };
    print::result(&show::text(&described))
}

/// Validates arguments. Invalid arguments have the exit code of a failed check.
pub async fn try_arguments(service: &Remote, name: &str, arguments: &str, json: bool) -> Result<Exit, CliError> {
    // Invalid JSON is passed on as a string, as in a call.
    let arguments = lossless::parse(arguments.as_bytes()).unwrap_or_else(|_| Value::String(arguments.to_owned()));
    let answer = service.post(&["tools", name, "validate"], &json!({ "arguments": arguments })).await?;
    let validation: Validation = service.read(answer.clone())?;
    if json {
        print::json(&answer)?;
    } else {
        print::result(&text(&validation))?;
    }
    Ok(if validation.valid { Exit::Success } else { Exit::Failure })
}

fn text(Validation { valid, arguments, coerced, errors }: &Validation) -> String {
    let mut lines = vec![if *valid { format!("valid: {arguments}") } else { "not valid".to_owned() }];
    lines.extend(coerced.iter().map(|Coercion { pointer, from, to }| {
        format!("  coerced {}: {from} → {to}", print::one_line(lossless::pointer_text(pointer), LONGEST))
    }));
    lines.extend(errors.iter().map(|Violation { pointer, message }| {
        format!(
            "  {}: {}",
            print::one_line(lossless::pointer_text(pointer), LONGEST),
            print::one_line(message, LONGEST)
        )
    }));
    lines.join("\n")
}
