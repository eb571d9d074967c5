//! Violations explained so that a model can fix them.

use std::collections::HashSet;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use super::accept::Budget;
use super::graph::{Graph, ROOT};
use super::violation::Violation;
use super::{SchemaError, display, nearest};
use crate::domain::json;

mod branches;
mod required;
mod wording;

/// Maximum number of reported violations.
const MAX_VIOLATIONS: usize = 20;
/// Maximum number of subschemas visited to find violations in a small value.
const STEPS: u32 = 300_000;
/// Maximum depth of schemas above a violation; collecting errors takes about 1 KB of stack for each.
const MAX_DEPTH: usize = 600;

/// Returns the first violations of an invalid value; at least one.
pub(super) fn violations(schema: &Value, validator: &Validator, graph: &Graph, instance: &Value) -> Vec<Violation> {
    // Collecting the errors of a schema that recurses through several branches doubles the work with each level of the
    // value.
    if !graph.affordable(ROOT, instance, &mut Budget::for_value(STEPS, instance), MAX_DEPTH) {
        return vec![somewhere(
            "does not match the schema; the value is too large or too deeply nested to locate the error",
        )];
    }
    let explainer = Explainer { schema, graph: Some(graph), instance };
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for error in validator.iter_errors(instance) {
        for violation in explainer.explain(&error) {
            if seen.insert((violation.pointer.clone(), violation.property.clone(), violation.message.clone())) {
                found.push(violation.bounded());
            }
            if found.len() == MAX_VIOLATIONS {
                return found;
            }
        }
    }
    if found.is_empty() {
        found.push(somewhere("does not match the schema"));
    }
    found
}

pub(super) fn somewhere(message: &str) -> Violation {
    Violation {
        pointer: String::new(),
        message: message.to_owned(),
        keyword: "schema".to_owned(),
        expected: Value::Null,
        property: None,
    }
}

/// Explains an error in a schema, which is validated as a value against the meta-schema of its draft.
pub(super) fn schema_error(error: &ValidationError<'_>) -> SchemaError {
    let empty = Value::Null;
    let explainer = Explainer { schema: &empty, graph: None, instance: &empty };
    let message = match error.kind() {
        Kind::Referencing(reason) => json::shorten(&format!("a reference cannot be resolved: {reason}"), 300),
        _ => explainer
            .explain(error)
            .into_iter()
            .next()
            .map_or_else(String::new, |violation| violation.bounded().message),
    };
    SchemaError { pointer: error.instance_path().as_str().to_owned(), message }
}

/// Converts the validator's errors to violations.
#[derive(Clone, Copy)]
struct Explainer<'a> {
    schema: &'a Value,
    /// `None` if the value is itself a schema: the meta-schema has no graph.
    graph: Option<&'a Graph>,
    instance: &'a Value,
}

impl Explainer<'_> {
    /// Explains one error, as several violations if it concerns several properties.
    fn explain(&self, error: &ValidationError<'_>) -> Vec<Violation> {
        let at = error.instance_path().as_str();
        match error.kind() {
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                let known = self.known_properties(error);
                let names =
                    self.undeclared(error, &known).unwrap_or_else(|| unexpected.iter().map(String::as_str).collect());
                names.into_iter().take(MAX_VIOLATIONS).map(|name| self.unexpected(error, at, name, &known)).collect()
            }
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let message = format!("missing required property {}", display::text(name));
                vec![Violation { property: Some(name.to_owned()), ..self.violation(error, message) }]
            }
            Kind::FalseSchema => match self.undeclared(error, &[]) {
                Some(names) => {
                    let unexpected = names.into_iter().take(MAX_VIOLATIONS);
                    unexpected.map(|name| self.unexpected(error, at, name, &[])).collect()
                }
                None => vec![self.forbidden(error, at)],
            },
            Kind::PropertyNames { error: inner } => {
                let name = inner.instance().as_str().unwrap_or_default();
                let message = format!("property name {} {}", display::text(name), wording::describe_error(inner));
                vec![Violation { property: Some(name.to_owned()), ..self.violation(error, message) }]
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                let (message, forms) = branches::describe(*self, error, context);
                vec![Violation { expected: forms, ..self.violation(error, message) }]
            }
            Kind::OneOfMultipleValid { context } => {
                let message =
                    required::ambiguous(*self, error, context).unwrap_or_else(|| wording::describe_error(error));
                vec![self.violation(error, message)]
            }
            Kind::Not { schema } => {
                let message = required::forbidden(schema).unwrap_or_else(|| wording::describe_error(error));
                vec![self.violation(error, message)]
            }
            Kind::Type { kind } => {
                vec![self.violation(error, wording::of_type(&self.type_names(error, kind), error.instance()))]
            }
            _ => vec![self.violation(error, wording::describe_error(error))],
        }
    }

    fn violation(&self, error: &ValidationError<'_>, message: String) -> Violation {
        Violation {
            pointer: error.instance_path().as_str().to_owned(),
            message,
            keyword: error.kind().keyword().to_owned(),
            expected: self.keyword_value(error).cloned().unwrap_or_else(|| wording::expected(error.kind())),
            property: None,
        }
    }

    /// Returns the value of the violated keyword in the schema.
    fn keyword_value(&self, error: &ValidationError<'_>) -> Option<&Value> {
        self.schema.pointer(error.schema_path().as_str())
    }

    /// Returns the allowed types, in the schema's own order.
    fn type_names(&self, error: &ValidationError<'_>, kind: &TypeKind) -> Vec<String> {
        match self.keyword_value(error).and_then(Value::as_array) {
            Some(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            None => type_names(kind),
        }
    }

    /// Returns the schema that contains the violated keyword.
    fn around(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let path = error.schema_path().as_str();
        match error.kind() {
            // The validator reports `additionalProperties: false` without `properties` as if the schema itself were
            // `false`.
            Kind::FalseSchema => self.schema.pointer(path.strip_suffix("/additionalProperties").unwrap_or(path)),
            _ => self.schema.pointer(path.rsplit_once('/')?.0),
        }
    }

    /// Returns the properties that are declared next to the violated keyword.
    fn known_properties(&self, error: &ValidationError<'_>) -> Vec<&str> {
        let properties = self.around(error).and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        properties.map_or_else(Vec::new, |properties| properties.keys().map(String::as_str).collect())
    }

    /// Returns all undeclared properties, if `additionalProperties: false` forbids them by name: without any
    /// `properties`, the validator reports only the first one.
    fn undeclared(&self, error: &ValidationError<'_>, known: &[&str]) -> Option<Vec<&str>> {
        if matches!(error.kind(), Kind::UnevaluatedProperties { .. }) {
            return None;
        }
        let around = self.around(error)?;
        if around.get("additionalProperties") != Some(&Value::Bool(false)) || around.get("patternProperties").is_some()
        {
            return None;
        }
        let object = self.instance.pointer(error.instance_path().as_str())?.as_object()?;
        let names = object.keys().map(String::as_str);
        Some(names.filter(|name| !known.contains(name)).collect())
    }

    fn unexpected(&self, error: &ValidationError<'_>, at: &str, name: &str, known: &[&str]) -> Violation {
        let empty = Map::new();
        let present = self.instance.pointer(at).and_then(Value::as_object).unwrap_or(&empty);
        let free = known.iter().copied().filter(|known| !present.contains_key(*known));
        let hint = match nearest(name, free) {
            Some(meant) => format!(", did you mean {}?", display::text(meant)),
            None if known.is_empty() || known.len() > 12 => String::new(),
            None => {
                let known: Vec<Value> = known.iter().map(|name| Value::String((*name).to_owned())).collect();
                format!("; known properties: {}", display::listed(known.iter()))
            }
        };
        let message = format!("unexpected property {}{hint}", display::text(name));
        let keyword = match error.kind() {
            Kind::FalseSchema => "additionalProperties".to_owned(),
            kind => kind.keyword().to_owned(),
        };
        let expected = Value::Bool(false);
        Violation { property: Some(name.to_owned()), keyword, expected, ..self.violation(error, message) }
    }

    /// Explains a value where the schema is `false`.
    fn forbidden(&self, error: &ValidationError<'_>, at: &str) -> Violation {
        let around =
            at.rsplit_once('/').filter(|(around, _)| self.instance.pointer(around).is_some_and(Value::is_object));
        let Some((around, token)) = around else {
            return self.violation(error, "must not be present".to_owned());
        };
        let name = token.replace("~1", "/").replace("~0", "~");
        Violation {
            pointer: around.to_owned(),
            property: Some(name.clone()),
            ..self.violation(error, format!("unexpected property {}", display::text(&name)))
        }
    }
}

/// Returns the names of the types that a `type` keyword allows.
fn type_names(kind: &TypeKind) -> Vec<String> {
    match kind {
        TypeKind::Single(one) => vec![one.to_string()],
        TypeKind::Multiple(several) => several.iter().map(|one| one.to_string()).collect(),
    }
}

/// Returns the error of a branch that does not allow the type of the value at `at`.
fn wrong_type<'a, 'b>(at: &str, branch: &'a [ValidationError<'b>]) -> Option<&'a ValidationError<'b>> {
    branch.iter().find(|error| error.instance_path().as_str() == at && matches!(error.kind(), Kind::Type { .. }))
}
