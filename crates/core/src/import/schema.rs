//! Converts schemas of a document to self-contained JSON Schema 2020-12: references, also recursive ones, become
//! `$defs`.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};

use serde_json::{Map, Value, json};

use super::names::{Unique, cleaned};
use super::reference;
use super::version::Version;
use crate::domain::json;

mod dialect;
mod hidden;
mod polymorphic;

/// Approximate maximum size of one tool's schema before compilation, in bytes.
const MAX_SCHEMA_BYTES: usize = 512 * 1024;

/// Maximum nesting of schemas; compilation rejects deeper ones anyway.
const MAX_DEPTH: usize = 64;

/// Approximate maximum length of an example or default in a description, in bytes.
const MAX_EXAMPLE_LENGTH: usize = 1000;

/// The direction in which values are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the server: without read-only properties, and without inserting defaults.
    Request,
    /// From the server: without write-only properties.
    Response,
}

/// Converts the schemas of one tool.
pub struct Bundler<'d> {
    document: &'d Value,
    version: Version,
    direction: Direction,
    /// The names of definitions, by their pointers.
    names: HashMap<String, String>,
    given: Unique,
    /// Definitions that are named but not converted yet.
    waiting: VecDeque<(String, &'d Value)>,
    /// The current schema, which is the target of `$recursiveRef`.
    around: EnclosingSchema<'d>,
    left: usize,
    depth: usize,
    /// The bytes that are left for the whole import.
    budget: &'d Cell<usize>,
}

/// A schema that is being converted.
#[derive(Debug, Clone)]
enum EnclosingSchema<'d> {
    /// A schema without a name so far.
    Inline(Option<&'d Value>),
    /// The definition of this name.
    Definition(String),
}

/// The values that a parameter may have, which decide how it is serialized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Only scalars.
    Scalar,
    /// Arrays of scalars.
    Scalars,
    /// Anything else.
    Composite,
}

impl<'d> Bundler<'d> {
    /// Creates a converter for the schemas of one tool.
    pub fn new(document: &'d Value, version: Version, direction: Direction, budget: &'d Cell<usize>) -> Self {
        let (names, given, waiting) = (HashMap::new(), Unique::default(), VecDeque::new());
        let around = EnclosingSchema::Inline(None);
        Self { document, version, direction, names, given, waiting, around, left: MAX_SCHEMA_BYTES, depth: 0, budget }
    }

    /// Converts one schema; its references lead to [`Self::definitions`].
    ///
    /// # Errors
    /// Returns the reason if the schema is invalid or too large, or refers outside the document.
    pub fn schema(&mut self, schema: &'d Value) -> Result<Value, String> {
        self.around = EnclosingSchema::Inline(Some(schema));
        self.convert(schema, &BTreeSet::new())
    }

    /// Converts and returns all referenced definitions.
    ///
    /// # Errors
    /// Returns the reason if a definition is invalid, as [`Self::schema`] does.
    pub fn definitions(mut self) -> Result<Map<String, Value>, String> {
        let mut definitions = Map::new();
        while let Some((name, schema)) = self.waiting.pop_front() {
            self.around = EnclosingSchema::Definition(name.clone());
            let made = self.convert(schema, &BTreeSet::new()).map_err(|reason| format!("{name}: {reason}"))?;
            definitions.insert(name, made);
        }
        Ok(definitions)
    }

    /// Converts a schema that is an object.
    ///
    /// # Errors
    /// Returns the reason if the schema is invalid, as [`Self::schema`] does.
    pub fn of_object(&mut self, object: &'d Map<String, Value>) -> Result<Value, String> {
        self.convert_object(object, &BTreeSet::new())
    }

    /// Returns the shape of a parameter with this schema.
    pub fn shape(&self, schema: &Map<String, Value>) -> Shape {
        let Some(object) = self.resolved(schema) else { return Shape::Composite };
        if is_scalar(object) {
            return Shape::Scalar;
        }
        let items = object.get("items").and_then(Value::as_object).and_then(|items| self.resolved(items));
        match object.get("type").and_then(Value::as_str) {
            Some("array") if items.is_some_and(is_scalar) => Shape::Scalars,
            _ => Shape::Composite,
        }
    }

    /// Returns `true` if a value of this schema may be a string, an array or an object, so that its serialization
    /// depends on the value; also for an array of such values.
    pub fn is_open(&self, schema: &Map<String, Value>) -> bool {
        let Some(object) = self.resolved(schema) else { return false };
        match object.get("type").and_then(Value::as_str) {
            Some("array") => match object.get("items") {
                Some(Value::Object(items)) => self
                    .resolved(items)
                    .is_some_and(|items| items.get("type").is_none_or(|name| name != "array") && self.is_open(items)),
                items => items.is_none_or(Value::is_boolean),
            },
            Some(_) => false,
            None => !["properties", "additionalProperties"].iter().any(|keyword| object.contains_key(*keyword)),
        }
    }

    fn resolved<'s>(&'s self, schema: &'s Map<String, Value>) -> Option<&'s Map<String, Value>> {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(text) => {
                let (_, target) = reference::target(self.document, text).ok()?;
                reference::object(self.document, target, "").ok()
            }
            None => Some(schema),
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        let total = self.budget.get();
        if bytes > self.left {
            return Err(format!("its schema is larger than {} KiB", MAX_SCHEMA_BYTES / 1024));
        }
        if bytes > total {
            return Err("the operations are too large in total: import fewer at a time with `only`".to_owned());
        }
        self.left -= bytes;
        self.budget.set(total - bytes);
        Ok(())
    }

    /// Copies a value unchanged and charges its size.
    fn copy(&mut self, value: &Value) -> Result<Value, String> {
        self.charge(weight(value, self.left))?;
        Ok(value.clone())
    }

    /// Converts a schema. `unseen` are the hidden properties from enclosing schemas of the same value.
    fn convert(&mut self, schema: &'d Value, unseen: &BTreeSet<&'d str>) -> Result<Value, String> {
        match schema {
            Value::Bool(_) => Ok(schema.clone()),
            Value::Object(object) => self.convert_object(object, unseen),
            other => Err(format!("a schema must be an object, not {}", json::type_name(other))),
        }
    }

    fn convert_object(&mut self, object: &'d Map<String, Value>, unseen: &BTreeSet<&'d str>) -> Result<Value, String> {
        self.charge(32)?;
        if self.depth >= MAX_DEPTH {
            return Err(format!("its schema is nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let made = self.convert_keywords(object, unseen);
        self.depth -= 1;
        made
    }

    fn convert_keywords(
        &mut self,
        object: &'d Map<String, Value>,
        unseen: &BTreeSet<&'d str>,
    ) -> Result<Value, String> {
        let mut unseen = unseen.clone();
        self.find_hidden(object, &mut unseen)?;
        // Before 3.1, keywords next to a reference are ignored; annotations can be kept.
        let only_words = object.contains_key("$ref") && self.version != Version::V31;
        let mut made = Map::new();
        for (keyword, value) in object {
            if only_words && !matches!(&**keyword, "$ref" | "description" | "title" | "deprecated") {
                continue;
            }
            self.keyword(keyword, value, object, &unseen, &mut made)?;
        }
        self.discriminate(object, &mut made);
        dialect::make_exclusive(object, &mut made);
        if self.direction == Direction::Request {
            describe_default(object, &mut made);
        }
        let is_nullable = reference::is_true(object, "nullable") || reference::is_true(object, "x-nullable");
        Ok(if is_nullable { dialect::nullable(made) } else { Value::Object(made) })
    }

    fn keyword(
        &mut self,
        keyword: &'d str,
        value: &'d Value,
        object: &'d Map<String, Value>,
        unseen: &BTreeSet<&'d str>,
        made: &mut Map<String, Value>,
    ) -> Result<(), String> {
        let none = BTreeSet::new();
        let (name, converted) = match keyword {
            "$ref" => (keyword, self.reference(value)?),
            "type" if value == "file" => (keyword, "string".into()),
            "type" | "title" | "description" | "format" | "pattern" | "enum" | "const" | "minimum" | "maximum"
            | "multipleOf" | "minLength" | "maxLength" | "minItems" | "maxItems" | "minContains" | "maxContains"
            | "minProperties" | "maxProperties" | "uniqueItems" | "contentEncoding" | "contentMediaType"
            | "dependentRequired" => (keyword, self.copy(value)?),
            // Booleans modify `minimum` and `maximum` and are handled later.
            "exclusiveMinimum" | "exclusiveMaximum" if !value.is_boolean() => (keyword, self.copy(value)?),
            "deprecated" if *value == Value::Bool(true) => (keyword, Value::Bool(true)),
            "required" => match self.required(value, unseen)? {
                Some(required) => (keyword, required),
                None => return Ok(()),
            },
            "properties" => (keyword, self.members(value, keyword, unseen)?),
            "patternProperties" | "dependentSchemas" => (keyword, self.members(value, keyword, &none)?),
            "items" if value.is_array() => ("prefixItems", self.list(value, keyword, &none)?),
            "additionalItems" if object.get("items").is_some_and(Value::is_array) => {
                ("items", self.convert(value, &none)?)
            }
            "items"
            | "additionalProperties"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "contains"
            | "propertyNames"
            | "contentSchema" => (keyword, self.convert(value, &none)?),
            "not" | "if" | "then" | "else" => (keyword, self.convert(value, unseen)?),
            "allOf" | "anyOf" | "oneOf" => (keyword, self.list(value, keyword, unseen)?),
            "prefixItems" => (keyword, self.list(value, keyword, &none)?),
            "example" if weight(value, MAX_EXAMPLE_LENGTH) < MAX_EXAMPLE_LENGTH => {
                ("examples", json!([self.copy(value)?]))
            }
            "examples" if value.is_array() && weight(value, MAX_EXAMPLE_LENGTH) < MAX_EXAMPLE_LENGTH => {
                (keyword, self.copy(value)?)
            }
            // The target is the enclosing schema, which has the anchor.
            "$recursiveRef" if value == "#" && !object.contains_key("$ref") => ("$ref", self.recursion()?),
            "$dynamicRef" | "$recursiveRef" => {
                return Err(format!("it has a `{keyword}`, which is not supported; use `$ref`"));
            }
            // Not an assertion, or unknown to JSON Schema.
            _ => return Ok(()),
        };
        made.insert(name.to_owned(), converted);
        Ok(())
    }

    /// Returns the required properties that are not hidden; `None` if there are none.
    fn required(&mut self, value: &Value, unseen: &BTreeSet<&'d str>) -> Result<Option<Value>, String> {
        let names = match value {
            Value::Array(names) => names,
            // A 2.0 parameter is also a schema; its boolean `required` concerns the parameter.
            Value::Bool(_) => return Ok(None),
            other => return self.copy(other).map(Some),
        };
        let shown = names.iter().filter(|name| !name.as_str().is_some_and(|name| unseen.contains(name)));
        let shown: Vec<Value> = shown.cloned().collect();
        self.charge(shown.len() * 16)?;
        Ok((!shown.is_empty()).then_some(Value::Array(shown)))
    }

    /// Converts the schemas of named members, except those of hidden members.
    fn members(&mut self, value: &'d Value, keyword: &str, hidden: &BTreeSet<&'d str>) -> Result<Value, String> {
        let Value::Object(members) = value else {
            return Err(format!("`{keyword}` must be an object, not {}", json::type_name(value)));
        };
        let mut all = Map::new();
        for (name, schema) in members.iter().filter(|(name, _)| !hidden.contains(name.as_str())) {
            self.charge(name.len())?;
            let made = self.convert(schema, &BTreeSet::new()).map_err(|reason| within(name, reason))?;
            all.insert(name.clone(), made);
        }
        Ok(Value::Object(all))
    }

    fn list(&mut self, value: &'d Value, keyword: &str, unseen: &BTreeSet<&'d str>) -> Result<Value, String> {
        let Value::Array(schemas) = value else {
            return Err(format!("`{keyword}` must be an array, not {}", json::type_name(value)));
        };
        schemas.iter().map(|schema| self.convert(schema, unseen)).collect()
    }

    /// Returns a reference to the schema that is being converted.
    fn recursion(&mut self) -> Result<Value, String> {
        let name = match &self.around {
            EnclosingSchema::Definition(name) => name.clone(),
            EnclosingSchema::Inline(None) => return Err("it has a `$recursiveRef` without a target schema".to_owned()),
            EnclosingSchema::Inline(Some(schema)) => {
                let name = self.given.reserve("recursive", 100);
                self.waiting.push_back((name.clone(), schema));
                self.around = EnclosingSchema::Definition(name.clone());
                name
            }
        };
        Ok(format!("#/$defs/{name}").into())
    }

    /// Returns a reference to a definition, and queues the definition for conversion.
    fn reference(&mut self, reference: &Value) -> Result<Value, String> {
        let Value::String(reference) = reference else {
            return Err(format!("`$ref` must be a string, not {}", json::type_name(reference)));
        };
        let (pointer, target) = reference::target(self.document, reference)?;
        let name = match self.names.get(&pointer) {
            Some(name) => name.clone(),
            None => {
                self.charge(pointer.len())?;
                let last = cleaned(pointer.rsplit('/').next().unwrap_or_default());
                let name = self.given.reserve(if last.is_empty() { "schema" } else { &last }, 100);
                self.names.insert(pointer, name.clone());
                self.waiting.push_back((name.clone(), target));
                name
            }
        };
        Ok(format!("#/$defs/{name}").into())
    }
}

fn is_scalar(object: &Map<String, Value>) -> bool {
    let scalar = |name: &Value| matches!(name.as_str(), Some("string" | "number" | "integer" | "boolean" | "null"));
    match (object.get("type"), object.get("enum")) {
        (Some(Value::Array(types)), _) => types.iter().all(scalar),
        (Some(name), _) => scalar(name),
        (None, Some(Value::Array(values))) => !values.iter().any(|value| value.is_array() || value.is_object()),
        _ => false,
    }
}

fn within(name: &str, reason: String) -> String {
    // For a deeply nested schema, the full path would hide the fault.
    if reason.len() > 300 { reason } else { format!("{}: {reason}", json::shorten(name, 60)) }
}

/// Estimates the size of a value in bytes; stops above `max`.
fn weight(value: &Value, max: usize) -> usize {
    let (mut sum, mut waiting) = (0_usize, vec![value]);
    while let Some(value) = waiting.pop() {
        sum += 4;
        match value {
            Value::String(text) => sum += text.len(),
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => {
                sum += members.keys().map(String::len).sum::<usize>();
                waiting.extend(members.values());
            }
            _ => {}
        }
        if sum > max {
            return max.saturating_add(1);
        }
    }
    sum
}

/// Moves a default to the description. If it was sent, the default would override the server's own value, and an update
/// of one member would reset the others.
fn describe_default(object: &Map<String, Value>, made: &mut Map<String, Value>) {
    let Some(default) =
        object.get("default").filter(|default| weight(default, MAX_EXAMPLE_LENGTH) < MAX_EXAMPLE_LENGTH)
    else {
        return;
    };
    let text = format!("Default: {default}.");
    let description = match made.get("description").and_then(Value::as_str).map(str::trim_end) {
        Some(existing) if !existing.is_empty() => format!("{existing} {text}"),
        _ => text,
    };
    made.insert("description".to_owned(), description.into());
}

#[cfg(test)]
mod tests;
