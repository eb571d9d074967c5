//! JSON Schema: compiling once, coercing, applying defaults, and explaining what is wrong in words that a model can act
//! on. Pure functions: nothing is fetched, nothing is read, and no input takes long.

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::domain::call::Coercion;
use graph::{Graph, ROOT};

mod accept;
mod bounds;
mod coerce;
mod defaults;
mod display;
mod drafts;
mod explain;
mod graph;
pub mod lower;
mod nearest;
mod patterns;
mod references;
#[cfg(test)]
mod tests;
mod types;
mod violation;

pub use nearest::{nearest, sort_by_nearness};
pub(crate) use references::{DOCUMENT_MAPS, localize_document};
pub use violation::Violation;

/// What a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A tool's arguments: the root must be an object.
    Input,
    /// A tool's structured result: any root.
    Output,
}

/// Why a schema is refused, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct SchemaError {
    /// RFC 6901, within the schema.
    pub pointer: String,
    /// What is wrong and how to mend it.
    pub message: String,
}

/// A schema compiled once, at registration.
#[derive(Debug)]
pub struct Compiled {
    schema: Arc<Value>,
    /// The schema with its references by URI written as pointers, if it has any.
    local: Option<Value>,
    validator: Validator,
    graph: Graph,
}

/// Arguments as a tool may get them.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// With what was mended and with defaults; the very `Arc` that was given, if nothing changed.
    pub arguments: Arc<Value>,
    /// What was mended; applied defaults are not in it.
    pub coerced: Vec<Coercion>,
}

/// Compiles a schema.
///
/// # Errors
/// A schema that is too large, is invalid, is not about an object though it must be, refers to anything outside itself,
/// or could take long.
pub fn compile(schema: &Value, role: Role) -> Result<Compiled, SchemaError> {
    bounds::size(schema)?;
    let draft = drafts::of(schema)?;
    if role == Role::Input {
        check_root(schema)?;
    }
    let mut patterns = patterns::Patterns::new(draft);
    let local = references::localize(schema, draft)?;
    let document = local.as_ref().map_or(schema, |local| &local.schema);
    let mut graph = graph::build(document, draft, &mut patterns)?;
    bounds::expansion(&graph)?;
    let size_limit = patterns.size_limit();
    let validator = match without_identity(document, draft) {
        // Only the identities tell where these references lead.
        _ if local.as_ref().is_some_and(|local| !local.is_exact) => validator(draft, size_limit, schema)?,
        Some(anonymous) => validator(draft, size_limit, &anonymous)?,
        None => validator(draft, size_limit, document)?,
    };
    defaults::prepare(&mut graph);
    Ok(Compiled { schema: Arc::new(schema.clone()), local: local.map(|local| local.schema), validator, graph })
}

fn check_root(schema: &Value) -> Result<(), SchemaError> {
    let declared = schema.get("type");
    let only = declared.and_then(Value::as_array).filter(|types| types.len() == 1).map(|types| &types[0]);
    let message = match only.or(declared) {
        Some(Value::String(name)) if name == "object" => return Ok(()),
        Some(other) => {
            format!("the root must be of type \"object\", got {}: arguments are named", display::value(other))
        }
        None if schema.get("$ref").is_some() => {
            "the root must say \"type\":\"object\" itself: write the definition that \"$ref\" names at the root"
                .to_owned()
        }
        None => "the root must be an object schema: add \"type\":\"object\"".to_owned(),
    };
    Err(SchemaError { pointer: if declared.is_some() { "/type".to_owned() } else { String::new() }, message })
}

/// The schema without the URI of its root: all references are local, so it means nothing, and need not be a good one.
fn without_identity(schema: &Value, draft: Draft) -> Option<Value> {
    let keyword = if draft == Draft::Draft4 { "id" } else { "$id" };
    let id = schema.get(keyword)?.as_str()?;
    let mut anonymous = schema.clone();
    if !id.starts_with('#') {
        anonymous.as_object_mut()?.shift_remove(keyword);
    }
    Some(anonymous)
}

/// The one way in which validators are made: offline, formats asserted, patterns in linear time.
fn validator(draft: Draft, pattern_size: usize, schema: &Value) -> Result<Validator, SchemaError> {
    let options = jsonschema::options()
        .with_draft(draft)
        .offline()
        .should_validate_formats(true)
        .should_ignore_unknown_formats(true)
        .with_pattern_options(PatternOptions::regex().size_limit(pattern_size).dfa_size_limit(pattern_size));
    // A backstop: strange identifiers have made the library panic, and a registration must not take the service down.
    let built = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| options.build(schema)));
    match built {
        Ok(built) => built.map_err(|error| explain::schema_error(&error)),
        Err(_) => Err(SchemaError { pointer: String::new(), message: "the schema does not compile".to_owned() }),
    }
}

impl Compiled {
    /// As it was registered.
    #[must_use]
    pub fn schema(&self) -> &Arc<Value> {
        &self.schema
    }

    /// Validates arguments, after mending their types if `coerce` says so, and applies the defaults.
    ///
    /// Valid arguments without absent defaults come back as the same `Arc`, with nothing allocated.
    ///
    /// # Errors
    /// The first 20 violations that are left after mending.
    pub fn check(&self, arguments: &Arc<Value>, coerce: bool) -> Result<Checked, Vec<Violation>> {
        let mended = if self.validator.is_valid(arguments) {
            return Ok(Checked { arguments: self.completed(arguments), coerced: Vec::new() });
        } else if coerce {
            coerce::coerce(&self.graph, arguments).map(|(mended, coerced)| (Arc::new(mended), coerced))
        } else {
            None
        };
        let (candidate, coerced) = mended.unwrap_or_else(|| (arguments.clone(), Vec::new()));
        if !coerced.is_empty() && self.validator.is_valid(&candidate) {
            return Ok(Checked { arguments: self.completed(&candidate), coerced });
        }
        // Defaults come after validation: what a schema requires must be said, even if it also has a default.
        Err(self.violations(&candidate))
    }

    /// Whether a value is valid as it is.
    #[must_use]
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// What is wrong with a value: the first 20 violations, none if it is valid.
    #[must_use]
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        explain::violations(self.local.as_ref().unwrap_or(&self.schema), &self.validator, &self.graph, value)
    }

    /// Valid arguments with defaults, unless those would make them invalid.
    fn completed(&self, arguments: &Arc<Value>) -> Arc<Value> {
        if !self.graph.nodes[ROOT].fills {
            return arguments.clone();
        }
        let filled = defaults::fill(&self.graph, arguments).filter(|filled| self.validator.is_valid(filled));
        filled.map_or_else(|| arguments.clone(), Arc::new)
    }
}
