//! JSON Schema: compiles schemas, coerces arguments, applies defaults, and explains violations so that a model can fix
//! them. All functions are pure: nothing is fetched or read, and the work for any input is bounded.

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::aside::aside;
use crate::domain::call::Coercion;
use document::Document;
use effort::Effort;
use graph::{Graph, ROOT};
use patterns::PatternEffort;

mod accept;
mod backtracking;
mod bounds;
mod checked;
mod coerce;
mod correct;
mod defaults;
mod display;
mod document;
mod drafts;
mod effort;
mod explain;
mod graph;
pub mod lower;
mod nearest;
mod patterns;
pub mod portable;
mod references;
#[cfg(test)]
mod tests;
mod types;
mod violation;

pub use checked::{SchemaHash, check, hash_of};
pub use correct::{CorrectedSchema, correct};
pub use nearest::{nearest, sort_by_nearness};
pub use references::{DOCUMENT_MAPS, localize_document};
pub use violation::Violation;

/// The purpose of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A tool's arguments: the root must be an object.
    Input,
    /// A tool's structured result: the root may be of any type.
    Output,
}

/// An error in a schema, with its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct SchemaError {
    /// The location in the schema, as an RFC 6901 pointer.
    pub pointer: String,
    /// The fault and how to fix it.
    pub message: String,
}

/// A schema that was compiled once, at registration.
#[derive(Debug)]
pub struct CompiledSchema {
    schema: Arc<Value>,
    /// The schema with its references by URI rewritten as pointers; `None` if it has no such references.
    local: Option<Value>,
    validator: Validator,
    graph: Graph,
    effort: Effort,
    /// The approximate memory of the compiled schema, in bytes.
    size: usize,
}

/// Valid arguments, ready for the tool.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedArguments {
    /// The arguments after coercion, with defaults; the same `Arc` as the input if nothing changed.
    pub arguments: Arc<Value>,
    /// The coercions that were made; applied defaults are not listed.
    pub coerced: Vec<Coercion>,
}

/// Approximate memory of one subschema: its node, its validator and its parsed text, in bytes.
const NODE_BYTES: usize = 4096;

/// Compiles a schema.
///
/// # Errors
/// Returns a [`SchemaError`] if the schema is invalid or too large, has the wrong root type for its role, refers to
/// anything outside itself, or could take too long to evaluate.
pub fn compile(schema: &Value, role: Role) -> Result<CompiledSchema, SchemaError> {
    bounds::size(schema)?;
    let draft = drafts::read_draft(schema)?;
    if role == Role::Input {
        check_root(schema)?;
    }
    let mut patterns = patterns::Patterns::new(draft);
    let local = references::localize(schema, draft)?;
    let document = local.as_ref().map_or(schema, |local| &local.schema);
    let mut graph = graph::build(&Document::new(document, draft), &mut patterns)?;
    let expansion = bounds::expansion(&graph)?;
    let engine = patterns.engine();
    let validator = match without_identity(document, draft) {
        // The references depend on the dynamic scope, or the drafts are mixed: the validator needs the original.
        _ if local.as_ref().is_some_and(|local| !local.is_exact) => validator(draft, engine, schema)?,
        Some(anonymous) => validator(draft, engine, &anonymous)?,
        None => validator(draft, engine, document)?,
    };
    defaults::prepare(&mut graph);
    let size = graph.nodes.len() * NODE_BYTES;
    let (schema, local) = (Arc::new(schema.clone()), local.map(|local| local.schema));
    let effort = Effort { expansion, patterns: patterns.effort() };
    Ok(CompiledSchema { schema, local, validator, graph, effort, size })
}

fn check_root(schema: &Value) -> Result<(), SchemaError> {
    let declared = schema.get("type");
    let only = declared.and_then(Value::as_array).filter(|types| types.len() == 1).map(|types| &types[0]);
    let message = match only.or(declared) {
        Some(Value::String(name)) if name == "object" => return Ok(()),
        Some(other) => {
            format!(
                "the root must have \"type\":\"object\", got {}: arguments are passed by name",
                display::value(other)
            )
        }
        None if schema.get("$ref").is_some() => {
            "the root itself must have \"type\":\"object\": move the definition that \"$ref\" names to the root"
                .to_owned()
        }
        None => "the root must be an object schema: add \"type\":\"object\"".to_owned(),
    };
    Err(SchemaError { pointer: if declared.is_some() { "/type".to_owned() } else { String::new() }, message })
}

/// Returns the schema without the URI of its root, or `None` if it has none. All references are local, so the URI has
/// no effect and may be invalid.
fn without_identity(schema: &Value, draft: Draft) -> Option<Value> {
    let keyword = if draft == Draft::Draft4 { "id" } else { "$id" };
    let id = schema.get(keyword)?.as_str()?;
    let mut anonymous = schema.clone();
    if !id.starts_with('#') {
        anonymous.as_object_mut()?.shift_remove(keyword);
    }
    Some(anonymous)
}

/// The engine that matches patterns.
#[derive(Debug, Clone, Copy)]
struct Engine {
    /// Maximum compiled size of one pattern in bytes.
    size: usize,
    /// Whether patterns may backtrack; all others are matched in linear time.
    backtracks: bool,
}

impl Engine {
    const fn linear(size: usize) -> Self {
        Self { size, backtracks: false }
    }

    const fn backtracking(size: usize) -> Self {
        Self { size, backtracks: true }
    }
}

/// Builds a validator of a part of a schema that was compiled before.
fn part_validator(draft: Draft, schema: &Value) -> Option<Validator> {
    let linear = validator(draft, Engine::linear(patterns::MAX_SIZE), schema);
    linear.or_else(|_| validator(draft, Engine::backtracking(patterns::MAX_SIZE), schema)).ok()
}

/// Builds a validator. Every validator is offline and asserts formats.
fn validator(draft: Draft, engine: Engine, schema: &Value) -> Result<Validator, SchemaError> {
    let Engine { size, backtracks } = engine;
    let mut options = jsonschema::options()
        .with_draft(draft)
        .offline()
        .should_validate_formats(true)
        .should_ignore_unknown_formats(true)
        .with_pattern_options(PatternOptions::regex().size_limit(size).dfa_size_limit(size));
    if backtracks {
        options = backtracking::permit(options, draft, size);
    }
    // A backstop: unusual identifiers have made the library panic, and a registration must not take the service down.
    let built = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| options.build(schema)));
    match built {
        Ok(built) => built.map_err(|error| explain::schema_error(&error)),
        Err(_) => Err(SchemaError { pointer: String::new(), message: "the schema cannot be compiled".to_owned() }),
    }
}

impl CompiledSchema {
    /// Returns the approximate memory of the compiled schema, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the schema as it was registered.
    #[must_use]
    pub fn schema(&self) -> &Arc<Value> {
        &self.schema
    }

    /// Validates arguments, coerces their types first if `coerce` is `true`, and applies the defaults.
    ///
    /// Returns the same `Arc`, without allocating, if the arguments are valid and no defaults are missing.
    ///
    /// # Errors
    /// Returns the first 20 violations that remain after coercion.
    pub fn check(&self, arguments: &Arc<Value>, coerce: bool) -> Result<CheckedArguments, Vec<Violation>> {
        self.bounded(arguments, || self.check_bounded(arguments, coerce))
    }

    fn check_bounded(&self, arguments: &Arc<Value>, coerce: bool) -> Result<CheckedArguments, Vec<Violation>> {
        let result = if self.holds(arguments) {
            return Ok(CheckedArguments { arguments: self.completed(arguments), coerced: Vec::new() });
        } else if coerce {
            coerce::coerce(&self.graph, arguments).map(|(result, coerced)| (Arc::new(result), coerced))
        } else {
            None
        };
        let (candidate, coerced) = result.unwrap_or_else(|| (arguments.clone(), Vec::new()));
        if !coerced.is_empty() && self.holds(&candidate) {
            return Ok(CheckedArguments { arguments: self.completed(&candidate), coerced });
        }
        // Defaults are applied after validation: a required property must be given even if it has a default.
        Err(self.explained(&candidate))
    }

    /// Runs a check of a value: aside if it may take long, and with a bound on the work of patterns that backtrack.
    fn bounded<T>(&self, value: &Value, check: impl FnOnce() -> T) -> T {
        if self.effort.is_small_for(value) {
            return check();
        }
        let is_affordable = || self.effort.patterns != PatternEffort::Names || !backtracking::has_too_many_names(value);
        aside(|| backtracking::bounded(is_affordable(), check))
    }

    /// Returns `true` if a value is valid for certain.
    fn holds(&self, value: &Value) -> bool {
        let is_certain = || !self.effort.backtracks() || !backtracking::is_unfinished();
        is_certain() && self.validator.is_valid(value) && is_certain()
    }

    /// Returns `true` if a value is valid without coercion.
    #[must_use]
    pub fn is_valid(&self, value: &Value) -> bool {
        self.bounded(value, || self.holds(value))
    }

    /// Returns the first 20 violations of a value; empty if the value is valid.
    #[must_use]
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        self.bounded(value, || if self.holds(value) { Vec::new() } else { self.explained(value) })
    }

    /// Returns the first 20 violations of an invalid value.
    fn explained(&self, value: &Value) -> Vec<Violation> {
        if self.effort.patterns == PatternEffort::Names && backtracking::is_unfinished() {
            return vec![explain::somewhere(
                "has names that are too long to be matched against a pattern that backtracks",
            )];
        }
        explain::violations(self.local.as_ref().unwrap_or(&self.schema), &self.validator, &self.graph, value)
    }

    /// Returns valid arguments with defaults, or unchanged if the defaults would make them invalid.
    fn completed(&self, arguments: &Arc<Value>) -> Arc<Value> {
        if !self.graph.nodes[ROOT].fills {
            return arguments.clone();
        }
        let filled = defaults::fill(&self.graph, arguments).filter(|filled| self.holds(filled));
        filled.map_or_else(|| arguments.clone(), Arc::new)
    }
}
