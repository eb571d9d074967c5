//! Builds the graph of a schema document: every location of a schema, and every reference.

use std::collections::HashMap;

use jsonschema::Draft;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{Graph, Node, NodeId};
use crate::domain::json;
use crate::schema::patterns::Patterns;
use crate::schema::types::{declared, of_values};
use crate::schema::{SchemaError, display, drafts, references};

/// Assertions that need no other schema; each node has a validator for its own.
#[rustfmt::skip]
const ASSERTIONS: [&str; 19] = [
    "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
    "minLength", "pattern", "format", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties",
    "dependentRequired", "contentEncoding", "contentMediaType",
];

/// Reads the document; the root becomes the first node.
///
/// # Errors
/// Returns a [`SchemaError`] for a reference that leaves the document or has no target, an unknown type or draft, or a
/// pattern that is not a linear-time regular expression.
pub(in crate::schema) fn build(document: &Value, draft: Draft, patterns: &mut Patterns) -> Result<Graph, SchemaError> {
    let mut builder = Builder {
        document,
        patterns,
        graph: Graph { nodes: Vec::new(), draft },
        by_pointer: HashMap::new(),
        resources: Vec::new(),
        anchors: HashMap::new(),
        dynamic_anchors: HashMap::new(),
        references: Vec::new(),
    };
    builder.schema(String::new(), document, "")?;
    // A reference may lead to a location that is not known as a schema, and that schema may contain further references.
    while let Some(reference) = builder.references.pop() {
        builder.resolve(&reference)?;
    }
    Ok(builder.graph)
}

/// A reference to be resolved after the whole document has been read.
struct Reference {
    from: NodeId,
    keyword: &'static str,
    to: String,
    base: String,
}

struct Builder<'a, 'p> {
    document: &'a Value,
    patterns: &'p mut Patterns,
    graph: Graph,
    by_pointer: HashMap<String, NodeId>,
    /// Pointers of the subschemas with an `$id`; `#` refers to the nearest one.
    resources: Vec<String>,
    anchors: HashMap<(String, String), NodeId>,
    dynamic_anchors: HashMap<String, Vec<NodeId>>,
    references: Vec<Reference>,
}

/// The location of a schema: its pointer, its keywords, and the base that `#` refers to.
#[derive(Clone, Copy)]
struct Place<'a, 'b> {
    pointer: &'b str,
    keywords: &'a Map<String, Value>,
    base: &'b str,
}

impl<'a> Builder<'a, '_> {
    /// Reads one schema, once per location.
    fn schema(&mut self, pointer: String, schema: &'a Value, base: &str) -> Result<NodeId, SchemaError> {
        if let Some(id) = self.by_pointer.get(&pointer) {
            return Ok(*id);
        }
        let id = self.graph.nodes.len();
        self.by_pointer.insert(pointer.clone(), id);
        self.graph.nodes.push(Node { pointer: pointer.clone(), ..Node::default() });
        let node = match schema {
            Value::Bool(constant) => Node { constant: Some(*constant), ..Node::default() },
            Value::Object(keywords) => self.object(id, &pointer, keywords, base)?,
            other => {
                let message = format!("a schema must be an object or a boolean, got {}", display::value(other));
                return Err(SchemaError { pointer, message });
            }
        };
        self.graph.nodes[id] = Node { pointer, ..node };
        Ok(id)
    }

    fn object(
        &mut self,
        id: NodeId,
        pointer: &str,
        keywords: &'a Map<String, Value>,
        base: &str,
    ) -> Result<Node, SchemaError> {
        drafts::check(pointer, keywords)?;
        // Up to draft 7, keywords next to a `$ref` are ignored.
        let only_reference = self.graph.draft <= Draft::Draft7 && keywords.get("$ref").is_some_and(Value::is_string);
        let base = if only_reference { base.to_owned() } else { self.identify(id, pointer, keywords, base) };
        let at = Place { pointer, keywords, base: &base };
        self.note_references(id, at)?;
        for keyword in ["$defs", "definitions"] {
            self.map(at, keyword)?;
        }
        let mut node = self.applicators(at)?;
        node.types = declared(pointer, keywords.get("type"))?;
        if let Some(pattern) = keywords.get("pattern").and_then(Value::as_str) {
            self.patterns.check(&format!("{pointer}/pattern"), pattern)?;
        }
        if only_reference {
            return Ok(Node { default: keywords.get("default").cloned(), ..Node::default() });
        }
        let listed = keywords.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        node.listed_types = listed.or(keywords.get("const").map(std::slice::from_ref)).map(of_values);
        node.default = keywords.get("default").cloned();
        let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
        node.required = required.filter_map(Value::as_str).map(str::to_owned).collect();
        let assertions = ASSERTIONS.iter().filter_map(|keyword| keywords.get_key_value(*keyword));
        node.assertions = assertions.map(|(keyword, value)| (keyword.clone(), value.clone())).collect();
        Ok(node)
    }

    fn note_references(&mut self, from: NodeId, at: Place<'a, '_>) -> Result<(), SchemaError> {
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(to) = at.keywords.get(keyword).and_then(Value::as_str) else { continue };
            if !to.starts_with('#') {
                return Err(references::outside(at.pointer, keyword, to));
            }
            self.references.push(Reference { from, keyword, to: to.to_owned(), base: at.base.to_owned() });
        }
        Ok(())
    }

    /// Records the names of a schema, and returns the base that `#` refers to inside it.
    fn identify(&mut self, id: NodeId, pointer: &str, keywords: &Map<String, Value>, base: &str) -> String {
        let keyword = if self.graph.draft == Draft::Draft4 { "id" } else { "$id" };
        let name = keywords.get(keyword).and_then(Value::as_str).unwrap_or_default();
        let mut base = base.to_owned();
        if let Some(anchor) = name.strip_prefix('#') {
            self.anchors.insert((base.clone(), anchor.to_owned()), id);
        } else if !name.is_empty() && !pointer.is_empty() {
            pointer.clone_into(&mut base);
            self.resources.push(base.clone());
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = keywords.get(keyword).and_then(Value::as_str) {
                self.anchors.insert((base.clone(), anchor.to_owned()), id);
                if keyword == "$dynamicAnchor" {
                    self.dynamic_anchors.entry(anchor.to_owned()).or_default().push(id);
                }
            }
        }
        if keywords.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            self.dynamic_anchors.entry(String::new()).or_default().push(id);
        }
        base
    }

    fn applicators(&mut self, at: Place<'a, '_>) -> Result<Node, SchemaError> {
        let mut node = Node {
            all: self.list(at, "allOf")?,
            any: self.list(at, "anyOf")?,
            one: self.list(at, "oneOf")?,
            not: self.single(at, "not")?,
            properties: self.map(at, "properties")?.into_iter().collect(),
            additional: self.single(at, "additionalProperties")?,
            prefix: self.list(at, "prefixItems")?,
            ..Node::default()
        };
        let [when, then, other] = [self.single(at, "if")?, self.single(at, "then")?, self.single(at, "else")?];
        node.condition = when.map(|when| (when, then, other));
        let after_prefix = self.single(at, "additionalItems")?;
        if at.keywords.get("items").is_some_and(Value::is_array) {
            node.prefix = self.list(at, "items")?;
            node.items = after_prefix;
        } else {
            node.items = self.single(at, "items")?;
            node.part_of_value.extend(after_prefix);
        }
        for (pattern, id) in self.map(at, "patternProperties")? {
            let place = format!("{}/patternProperties/{}", at.pointer, json::pointer_token(&pattern));
            node.patterns.push((self.patterns.check(&place, &pattern)?, id));
        }
        for keyword in ["dependentSchemas", "dependencies"] {
            node.dependent.extend(self.map(at, keyword)?);
        }
        for keyword in ["contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contentSchema"] {
            node.part_of_value.extend(self.single(at, keyword)?);
        }
        Ok(node)
    }

    fn single(&mut self, at: Place<'a, '_>, keyword: &str) -> Result<Option<NodeId>, SchemaError> {
        // The meta-schema of the draft rejects everything else.
        match at.keywords.get(keyword) {
            Some(schema @ (Value::Object(_) | Value::Bool(_))) => {
                self.schema(format!("{}/{keyword}", at.pointer), schema, at.base).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn list(&mut self, at: Place<'a, '_>, keyword: &str) -> Result<Vec<NodeId>, SchemaError> {
        let schemas = at.keywords.get(keyword).and_then(Value::as_array).into_iter().flatten();
        let schemas = schemas.enumerate();
        schemas
            .map(|(index, schema)| self.schema(format!("{}/{keyword}/{index}", at.pointer), schema, at.base))
            .collect()
    }

    fn map(&mut self, at: Place<'a, '_>, keyword: &str) -> Result<Vec<(String, NodeId)>, SchemaError> {
        let schemas = at.keywords.get(keyword).and_then(Value::as_object).into_iter().flatten();
        // `dependencies` may hold lists of names.
        let schemas = schemas.filter(|(_, schema)| keyword != "dependencies" || !schema.is_array());
        schemas
            .map(|(name, schema)| {
                let pointer = format!("{}/{keyword}/{}", at.pointer, json::pointer_token(name));
                Ok((name.clone(), self.schema(pointer, schema, at.base)?))
            })
            .collect()
    }

    /// Resolves one reference and links its node to the target.
    fn resolve(&mut self, reference: &Reference) -> Result<(), SchemaError> {
        let from = &self.graph.nodes[reference.from].pointer;
        let nowhere = || references::nowhere(from, reference.keyword, &reference.to);
        let fragment = percent_decode_str(&reference.to[1..]).decode_utf8().map_err(|_| nowhere())?;
        let target = if fragment.is_empty() || fragment.starts_with('/') {
            let pointer = format!("{}{fragment}", reference.base);
            let schema = self.document.pointer(&pointer).ok_or_else(nowhere)?;
            let base = self.resource_of(&pointer);
            self.schema(pointer, schema, &base)?
        } else {
            let name = (reference.base.clone(), fragment.to_string());
            *self.anchors.get(&name).ok_or_else(nowhere)?
        };
        self.graph.nodes[reference.from].all.push(target);
        if reference.keyword != "$ref" {
            // The target depends on the dynamic scope, so every candidate counts.
            let anchor = if reference.keyword == "$recursiveRef" { "" } else { fragment.as_ref() };
            let candidates = self.dynamic_anchors.get(anchor).cloned().unwrap_or_default();
            self.graph.nodes[reference.from].same_value.extend(candidates.into_iter().filter(|id| *id != target));
        }
        Ok(())
    }

    /// Returns the nearest schema with an `$id` at or above a location, or else the root.
    fn resource_of(&self, pointer: &str) -> String {
        let around = self.resources.iter().filter(|resource| {
            pointer.strip_prefix(resource.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        around.max_by_key(|resource| resource.len()).cloned().unwrap_or_default()
    }
}
