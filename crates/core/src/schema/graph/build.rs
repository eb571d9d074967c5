//! Builds the graph of a schema document: every location of a schema, and every reference.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::{Graph, Node, NodeId};
use crate::domain::json;
use crate::schema::document::{Document, fragment};
use crate::schema::patterns::Patterns;
use crate::schema::types::{declared, of_values};
use crate::schema::{SchemaError, display, drafts, references};

type Keywords = Map<String, Value>;

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
pub(in crate::schema) fn build(document: &Document<'_>, patterns: &mut Patterns) -> Result<Graph, SchemaError> {
    let graph = Graph { nodes: Vec::new(), draft: document.draft };
    let (known, anchors, dynamic_anchors) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut builder = Builder { document, patterns, graph, known, anchors, dynamic_anchors, references: Vec::new() };
    builder.schema(document.root)?;
    // A reference may lead to a location that is not known as a schema, and that schema may contain further references.
    while let Some(reference) = builder.references.pop() {
        builder.resolve(&reference)?;
    }
    Ok(builder.graph)
}

/// A reference to be resolved after the whole document has been read.
struct Reference<'a> {
    from: NodeId,
    schema: &'a Value,
    keyword: &'static str,
    to: &'a str,
}

struct Builder<'a, 'd> {
    document: &'d Document<'a>,
    patterns: &'d mut Patterns,
    graph: Graph,
    /// The nodes by the addresses of their schemas.
    known: HashMap<*const Value, NodeId>,
    /// The anchors by the addresses of their resources and their names.
    anchors: HashMap<(*const Value, &'a str), NodeId>,
    dynamic_anchors: HashMap<&'a str, Vec<NodeId>>,
    references: Vec<Reference<'a>>,
}

impl<'a> Builder<'a, '_> {
    /// Reads one schema, once per location.
    fn schema(&mut self, schema: &'a Value) -> Result<NodeId, SchemaError> {
        let id = self.graph.nodes.len();
        match self.known.entry(std::ptr::from_ref(schema)) {
            Entry::Occupied(known) => return Ok(*known.get()),
            Entry::Vacant(new) => new.insert(id),
        };
        let pointer = self.document.pointer(schema);
        self.graph.nodes.push(Node::default());
        let node = match schema {
            Value::Bool(constant) => Node { constant: Some(*constant), ..Node::default() },
            Value::Object(keywords) => self.object(id, &pointer, schema, keywords)?,
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
        schema: &'a Value,
        keywords: &'a Keywords,
    ) -> Result<Node, SchemaError> {
        drafts::declared(pointer, schema)?;
        // Up to draft 7, keywords next to a `$ref` are ignored.
        let only_reference = self.graph.draft <= Draft::Draft7 && keywords.get("$ref").is_some_and(Value::is_string);
        if !only_reference {
            self.note_anchors(id, schema);
        }
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(to) = keywords.get(keyword).and_then(Value::as_str) else { continue };
            if !to.starts_with('#') {
                return Err(references::outside(pointer, keyword, to));
            }
            self.references.push(Reference { from: id, schema, keyword, to });
        }
        for keyword in ["$defs", "definitions"] {
            self.map(keywords, keyword)?;
        }
        let mut node = self.applicators(pointer, keywords)?;
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

    fn note_anchors(&mut self, id: NodeId, schema: &'a Value) {
        let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
        let identity = self.document.identity(schema).and_then(|name| name.strip_prefix('#'));
        let dynamic = text("$dynamicAnchor");
        for anchor in identity.into_iter().chain(text("$anchor")).chain(dynamic) {
            let resource = std::ptr::from_ref(self.document.resource_of(schema));
            self.anchors.insert((resource, anchor), id);
        }
        let is_recursive = schema.get("$recursiveAnchor") == Some(&Value::Bool(true));
        for anchor in dynamic.into_iter().chain(is_recursive.then_some("")) {
            self.dynamic_anchors.entry(anchor).or_default().push(id);
        }
    }

    fn applicators(&mut self, pointer: &str, keywords: &'a Keywords) -> Result<Node, SchemaError> {
        let mut node = Node {
            all: self.list(keywords, "allOf")?,
            any: self.list(keywords, "anyOf")?,
            one: self.list(keywords, "oneOf")?,
            not: self.single(keywords, "not")?,
            properties: self.map(keywords, "properties")?.into_iter().collect(),
            additional: self.single(keywords, "additionalProperties")?,
            prefix: self.list(keywords, "prefixItems")?,
            ..Node::default()
        };
        let [when, then, other] =
            [self.single(keywords, "if")?, self.single(keywords, "then")?, self.single(keywords, "else")?];
        node.condition = when.map(|when| (when, then, other));
        let after_prefix = self.single(keywords, "additionalItems")?;
        if keywords.get("items").is_some_and(Value::is_array) {
            node.prefix = self.list(keywords, "items")?;
            node.items = after_prefix;
        } else {
            node.items = self.single(keywords, "items")?;
            node.part_of_value.extend(after_prefix);
        }
        for (pattern, id) in self.map(keywords, "patternProperties")? {
            let pointer_to_pattern = format!("{}/patternProperties/{}", pointer, json::pointer_token(&pattern));
            node.patterns.push((self.patterns.check_name(&pointer_to_pattern, &pattern)?, id));
        }
        for keyword in ["dependentSchemas", "dependencies"] {
            node.dependent.extend(self.map(keywords, keyword)?);
        }
        for keyword in ["contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contentSchema"] {
            node.part_of_value.extend(self.single(keywords, keyword)?);
        }
        Ok(node)
    }

    fn single(&mut self, keywords: &'a Keywords, keyword: &str) -> Result<Option<NodeId>, SchemaError> {
        // The meta-schema of the draft rejects everything else.
        let schema = keywords.get(keyword).filter(|schema| schema.is_object() || schema.is_boolean());
        schema.map(|schema| self.schema(schema)).transpose()
    }

    fn list(&mut self, keywords: &'a Keywords, keyword: &str) -> Result<Vec<NodeId>, SchemaError> {
        let schemas = keywords.get(keyword).and_then(Value::as_array).into_iter().flatten();
        schemas.map(|schema| self.schema(schema)).collect()
    }

    fn map(&mut self, keywords: &'a Keywords, keyword: &str) -> Result<Vec<(String, NodeId)>, SchemaError> {
        let schemas = keywords.get(keyword).and_then(Value::as_object).into_iter().flatten();
        // `dependencies` may hold lists of names.
        let schemas = schemas.filter(|(_, schema)| keyword != "dependencies" || !schema.is_array());
        schemas.map(|(name, schema)| Ok((name.clone(), self.schema(schema)?))).collect()
    }

    /// Resolves one reference and links its node to the target.
    fn resolve(&mut self, reference: &Reference<'a>) -> Result<(), SchemaError> {
        let Reference { from, schema, keyword, to } = *reference;
        let pointer = &self.graph.nodes[from].pointer;
        let nowhere = || references::nowhere(pointer, keyword, to);
        let (fragment, resource) = (fragment(to).ok_or_else(nowhere)?, self.document.resource_of(schema));
        let target = if fragment.is_empty() || fragment.starts_with('/') {
            let schema = resource.pointer(&fragment).ok_or_else(nowhere)?;
            self.schema(schema)?
        } else {
            *self.anchors.get(&(std::ptr::from_ref(resource), &*fragment)).ok_or_else(nowhere)?
        };
        self.graph.nodes[from].all.push(target);
        if keyword != "$ref" {
            // The target depends on the dynamic scope, so every candidate counts.
            let anchor = if keyword == "$recursiveRef" { "" } else { &*fragment };
            let candidates = self.dynamic_anchors.get(anchor).into_iter().flatten();
            self.graph.nodes[from].same_value.extend(candidates.filter(|id| **id != target));
        }
        Ok(())
    }
}
