//! Tools as Markdown, for a model that receives its tools in the prompt.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt::Write;

use super::parameters;
use crate::domain::ToolDefinition;
use crate::domain::stats::ToolStats;
use crate::formats::one_line;

/// Minimum number of executions for a meaningful failure rate.
const ENOUGH_EXECUTIONS: u64 = 5;
/// Failure rate in percent from which a tool often fails.
const OFTEN_PERCENT: u64 = 20;
/// Duration (95th percentile) in milliseconds from which a tool is slow.
const SLOW_MS: u64 = 10_000;

/// Renders all tools; an empty list becomes an empty text. `stats` are by tool name.
#[must_use]
pub fn render(
    tools: impl ExactSizeIterator<Item = impl Borrow<ToolDefinition>>,
    stats: &HashMap<String, ToolStats>,
) -> String {
    let mut text = opening(tools.len());
    for (index, tool) in tools.enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let tool = tool.borrow();
        describe(&mut text, tool, stats.get(&tool.name));
    }
    text
}

/// Returns the text before this number of tools.
pub fn opening(tools: usize) -> String {
    if tools == 0 {
        return String::new();
    }
    format!("# Available Tools\n\nYou have access to the following {tools} tool(s):\n\n")
}

/// Returns the text of one tool. A line feed separates it from the next one.
pub fn described(tool: &ToolDefinition) -> String {
    let mut text = String::new();
    describe(&mut text, tool, None);
    text
}

// Writing to a `String` cannot fail, here and below.
fn describe(text: &mut String, tool: &ToolDefinition, stats: Option<&ToolStats>) {
    let _ = writeln!(text, "## {}", tool.name);
    if tool.display_name() != tool.name {
        let _ = writeln!(text, "Display Name: {}", one_line(tool.display_name()));
    }
    if !tool.description.trim().is_empty() {
        // Further lines are indented, so that they do not look like a heading or a field.
        let lines: Vec<&str> = tool.description.trim().lines().map(str::trim_end).collect();
        let _ = writeln!(text, "Description: {}", lines.join("\n  ").replace("\n  \n", "\n\n"));
    }
    if let Some(category) = tool.category.as_deref().map(one_line).filter(|category| !category.is_empty()) {
        let _ = writeln!(text, "Category: {category}");
    }
    let parameters = parameters::lines(&tool.input_schema);
    if !parameters.is_empty() {
        text.push_str("Parameters:\n");
        text.push_str(&parameters.concat());
    }
    if !tool.examples.is_empty() {
        text.push_str("Examples:\n");
        for example in &tool.examples {
            let _ = write!(text, "  - {}", example.arguments);
            match &example.output {
                Some(serde_json::Value::String(output)) => drop(writeln!(text, " → {}", one_line(output))),
                Some(output) => drop(writeln!(text, " → {output}")),
                None => text.push('\n'),
            }
        }
    }
    if let Some(note) = stats.and_then(warning) {
        let _ = writeln!(text, "Note: {note}");
    }
}

/// Returns a warning if the statistics show failures or slow calls.
fn warning(stats: &ToolStats) -> Option<String> {
    let (all, failed) = (stats.execution_count, stats.failure_count);
    let fails = all >= ENOUGH_EXECUTIONS && failed * 100 >= all * OFTEN_PERCENT;
    let fails = fails.then(|| format!("often fails ({failed} of {all} calls)"));
    let slow = (stats.p95_duration_ms >= SLOW_MS)
        .then(|| format!("is slow (95 of 100 calls take up to {} s)", stats.p95_duration_ms.div_ceil(1000)));
    match (fails, slow) {
        (Some(fails), Some(slow)) => Some(format!("this tool {fails} and {slow}.")),
        (one, other) => one.or(other).map(|note| format!("this tool {note}.")),
    }
}
