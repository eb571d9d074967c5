//! The schema as a graph of subschemas with resolved local references, for coercion, defaults and bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use jsonschema::{Draft, Validator};
use serde_json::{Map, Value};

use super::types::Types;

mod build;

pub(in crate::schema) use build::build;

/// The index of a node in its graph.
pub(super) type NodeId = usize;

/// All subschemas of a document, including unused definitions.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) draft: Draft,
}

/// The subschema at the root of the document, which is always the first node.
pub(super) const ROOT: NodeId = 0;

/// One subschema: its own assertions, and the subschemas that it applies to its value or to parts of it.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The location in the document, as an RFC 6901 pointer.
    pub(super) pointer: String,
    /// The value of a boolean schema.
    pub(super) constant: Option<bool>,
    /// The value of `type`.
    pub(super) types: Option<Types>,
    /// The types of the values that `enum` and `const` allow.
    pub(super) listed_types: Option<Types>,
    /// Subschemas that all apply to the same value: `$ref`, `allOf`.
    pub(super) all: Vec<NodeId>,
    pub(super) any: Vec<NodeId>,
    pub(super) one: Vec<NodeId>,
    pub(super) not: Option<NodeId>,
    /// `if`, `then`, `else`.
    pub(super) condition: Option<(NodeId, Option<NodeId>, Option<NodeId>)>,
    /// `dependentSchemas`, and `dependencies` with schemas.
    pub(super) dependent: Vec<(String, NodeId)>,
    pub(super) properties: BTreeMap<String, NodeId>,
    pub(super) patterns: Vec<(Validator, NodeId)>,
    pub(super) additional: Option<NodeId>,
    pub(super) prefix: Vec<NodeId>,
    pub(super) items: Option<NodeId>,
    pub(super) required: Vec<String>,
    /// The schema's own `default`.
    pub(super) default: Option<Value>,
    /// The defaults of absent properties, by name; set by `defaults`.
    pub(super) defaults: Vec<(String, Value)>,
    /// Whether this node or one below it has defaults to apply.
    pub(super) fills: bool,
    /// Further subschemas that apply to the same value; only the validator knows when.
    pub(super) same_value: Vec<NodeId>,
    /// Further subschemas that apply to a part of the value; only the validator knows when.
    pub(super) part_of_value: Vec<NodeId>,
    /// The assertions of this schema, without `type`, `required` and keywords that apply other schemas.
    assertions: Map<String, Value>,
    /// The validator of `assertions`; built on first use, because valid calls never need it.
    asserting: OnceLock<Option<Validator>>,
}

impl Graph {
    /// Returns `true` if the node's own assertions hold, regardless of other nodes.
    pub(super) fn asserts(&self, id: NodeId, value: &Value) -> bool {
        let node = &self.nodes[id];
        if let Some(constant) = node.constant {
            return constant;
        }
        if node.types.is_some_and(|types| !types.allow(value, self.draft)) {
            return false;
        }
        if let Value::Object(object) = value
            && node.required.iter().any(|name| !object.contains_key(name))
        {
            return false;
        }
        if node.assertions.is_empty() {
            return true;
        }
        let validator =
            node.asserting.get_or_init(|| super::part_validator(self.draft, &Value::Object(node.assertions.clone())));
        validator.as_ref().is_none_or(|validator| validator.is_valid(value))
    }

    /// Returns the properties that the subschema at a pointer requires, including those of references and of its
    /// `allOf`.
    pub(super) fn required(&self, pointer: &str) -> Option<BTreeSet<&str>> {
        let mut waiting = vec![self.nodes.iter().position(|node| node.pointer == pointer)?];
        let mut required = BTreeSet::new();
        // `bounds::expansion` has rejected cycles through `all`.
        while let Some(id) = waiting.pop() {
            required.extend(self.nodes[id].required.iter().map(String::as_str));
            waiting.extend(&self.nodes[id].all);
        }
        Some(required)
    }

    /// Returns the subschemas that the node applies to the property `name`.
    pub(super) fn of_property(&self, id: NodeId, name: &str) -> Vec<NodeId> {
        let node = &self.nodes[id];
        let mut found: Vec<NodeId> = node.properties.get(name).copied().into_iter().collect();
        if !node.patterns.is_empty() {
            let key = Value::String(name.to_owned());
            found.extend(node.patterns.iter().filter(|(pattern, _)| pattern.is_valid(&key)).map(|(_, id)| *id));
        }
        if found.is_empty() {
            found.extend(node.additional);
        }
        found
    }

    /// Returns the subschema that the node applies to the array element at `index`.
    pub(super) fn of_element(&self, id: NodeId, index: usize) -> Option<NodeId> {
        let node = &self.nodes[id];
        node.prefix.get(index).copied().or(node.items)
    }
}

impl Node {
    /// Returns the subschemas that apply to the same value as this one.
    pub(super) fn in_place(&self) -> impl Iterator<Item = NodeId> + '_ {
        let condition = self.condition.iter().flat_map(|(when, then, other)| [Some(*when), *then, *other]);
        [&self.all, &self.any, &self.one, &self.same_value]
            .into_iter()
            .flatten()
            .copied()
            .chain(self.not)
            .chain(condition.flatten())
            .chain(self.dependent.iter().map(|(_, id)| *id))
    }

    /// Returns the subschemas that apply to properties, elements or names of the value.
    pub(super) fn below(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.properties
            .values()
            .copied()
            .chain(self.patterns.iter().map(|(_, id)| *id))
            .chain(self.additional)
            .chain(self.prefix.iter().copied())
            .chain(self.items)
            .chain(self.part_of_value.iter().copied())
    }
}
