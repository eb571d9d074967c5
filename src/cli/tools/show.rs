//! A tool as text.

use crate::domain::{Time, ToolDefinition};

use crate::cli::print;

/// Maximum length of a property, in characters.
const LONGEST: usize = 500;

/// A tool with the facts that are not part of its definition.
#[derive(Debug)]
pub struct DescribedTool<'a> {
    pub definition: &'a ToolDefinition,
    /// The source of the definition, as in JSON.
    pub source: &'a str,
    pub revision: i64,
    pub updated_at: Time,
}

/// Formats all properties of a tool, the schemas last.
pub fn text(tool: &DescribedTool<'_>) -> String {
    let definition = tool.definition;
    let mut text = String::new();
    for line in definition.description.trim().lines() {
        text.push_str(&format!("{}\n", print::one_line(line, usize::MAX)));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&print::facts(&facts(tool)));
    text.push_str(&format!("\n\nInput schema:\n{:#}", definition.input_schema));
    if let Some(schema) = &definition.output_schema {
        text.push_str(&format!("\n\nOutput schema:\n{schema:#}"));
    }
    for example in &definition.examples {
        text.push_str(&format!("\n\nExample:\n{}", example.arguments));
        if let Some(output) = &example.output {
            text.push_str(&format!("\n→ {output}"));
        }
    }
    text
}

fn facts(tool: &DescribedTool<'_>) -> Vec<(&'static str, String)> {
    let DescribedTool { definition, source, revision, updated_at } = tool;
    let mut facts = vec![("name", definition.name.clone())];
    facts.extend(definition.title.clone().filter(|title| *title != definition.name).map(|title| ("title", title)));
    facts.push(("source", format!("{source}, revision {revision}, {updated_at}")));
    facts.push(("executor", super::executor(definition)));
    facts.push(("hints", hints(definition)));
    let timeout = definition.limits.timeout_ms;
    facts.push(("timeout", timeout.map_or_else(|| "the server's".to_owned(), |ms| format!("{ms} ms"))));
    facts.extend(definition.category.clone().map(|category| ("category", category)));
    facts.extend(definition.version.clone().map(|version| ("version", version)));
    if !definition.groups.is_empty() {
        facts.push(("groups", definition.groups.join(", ")));
    }
    if !definition.tags.is_empty() {
        facts.push(("tags", definition.tags.join(", ")));
    }
    facts.into_iter().map(|(name, fact)| (name, print::one_line(&fact, LONGEST))).collect()
}

fn hints(definition: &ToolDefinition) -> String {
    let annotations = definition.annotations;
    let hints = [
        (annotations.read_only, "read-only"),
        (annotations.destructive && !annotations.read_only, "destructive"),
        (annotations.idempotent, "idempotent"),
        (annotations.open_world, "open world"),
        (definition.is_concurrency_safe(), "runs concurrently"),
    ];
    let hints: Vec<&str> = hints.into_iter().filter_map(|(given, hint)| given.then_some(hint)).collect();
    if hints.is_empty() { "none".to_owned() } else { hints.join(", ") }
}
