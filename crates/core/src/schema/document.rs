//! The document of a schema: pointers to its subschemas, targets of its references, and matches of its patterns.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::iter::successors;

use jsonschema::{Draft, Validator};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::backtracking;
use crate::domain::json::pointer_token;

/// A document whose references are all local. Its subschemas are identified by their addresses.
pub(super) struct Document<'a> {
    pub(super) root: &'a Value,
    pub(super) draft: Draft,
    /// The value that contains each value, and its token there.
    parents: HashMap<*const Value, (&'a Value, Cow<'a, str>)>,
    /// Compiled patterns and formats; needed only if values or names are listed next to them.
    assertions: RefCell<HashMap<(&'static str, &'a str), Option<Validator>>>,
}

impl<'a> Document<'a> {
    pub(super) fn new(root: &'a Value, draft: Draft) -> Self {
        let (mut parents, mut waiting) = (HashMap::new(), vec![root]);
        while let Some(parent) = waiting.pop() {
            for (token, child) in children(parent) {
                parents.insert(std::ptr::from_ref(child), (parent, token));
                waiting.push(child);
            }
        }
        Self { root, draft, parents, assertions: RefCell::default() }
    }

    fn parent(&self, value: &Value) -> Option<&(&'a Value, Cow<'a, str>)> {
        self.parents.get(&std::ptr::from_ref(value))
    }

    /// Returns the RFC 6901 pointer of a subschema.
    pub(super) fn pointer(&self, schema: &Value) -> String {
        self.parent(schema).map_or_else(String::new, |(parent, token)| {
            let mut pointer = self.pointer(parent);
            pointer.push('/');
            pointer.push_str(&pointer_token(token));
            pointer
        })
    }

    /// Returns the target of a reference in a subschema.
    pub(super) fn resolve(&self, schema: &'a Value, reference: &str) -> Option<&'a Value> {
        let (fragment, resource) = (fragment(reference)?, self.resource_of(schema));
        if fragment.is_empty() || fragment.starts_with('/') {
            resource.pointer(&fragment)
        } else {
            self.anchor(resource, &fragment)
        }
    }

    /// Returns the nearest schema with an identity at or above a subschema, which `#` refers to; usually the root.
    pub(super) fn resource_of(&self, schema: &'a Value) -> &'a Value {
        let mut around = successors(Some(schema), |schema| self.parent(schema).map(|(parent, _)| *parent));
        around.find(|schema| self.is_resource(schema)).unwrap_or(self.root)
    }

    /// Returns the name of a schema: a URI, or an anchor up to draft 7.
    pub(super) fn identity(&self, schema: &'a Value) -> Option<&'a str> {
        // Up to draft 7, keywords next to a `$ref` are ignored.
        if self.draft <= Draft::Draft7 && schema.get("$ref").is_some_and(Value::is_string) {
            return None;
        }
        schema.get(if self.draft == Draft::Draft4 { "id" } else { "$id" })?.as_str().filter(|name| !name.is_empty())
    }

    fn is_resource(&self, schema: &'a Value) -> bool {
        self.identity(schema).is_some_and(|name| !name.starts_with('#'))
    }

    fn anchor(&self, schema: &'a Value, name: &str) -> Option<&'a Value> {
        let named = |keyword: &str| schema.get(keyword).and_then(Value::as_str) == Some(name);
        let by_identity = self.identity(schema).and_then(|identity| identity.strip_prefix('#')) == Some(name);
        if named("$anchor") || named("$dynamicAnchor") || by_identity {
            return Some(schema);
        }
        let mut below = children(schema).filter(|(_, child)| !self.is_resource(child));
        below.find_map(|(_, child)| self.anchor(child, name))
    }

    /// Returns `true` if a pattern matches a text.
    pub(super) fn matches(&self, pattern: &'a str, text: &str) -> bool {
        self.asserts("pattern", pattern, text)
    }

    /// Returns `true` if a text satisfies a `pattern` or `format`.
    pub(super) fn asserts(&self, keyword: &'static str, argument: &'a str, text: &str) -> bool {
        let mut assertions = self.assertions.borrow_mut();
        let compiled = assertions
            .entry((keyword, argument))
            .or_insert_with(|| super::part_validator(self.draft, &json!({ keyword: argument })));
        let holds = |assertion: &Validator| assertion.is_valid(&Value::String(text.to_owned()));
        compiled.as_ref().is_some_and(|assertion| backtracking::bounded(true, || holds(assertion)))
    }
}

/// Returns the decoded fragment of a reference that consists of a fragment only.
pub(super) fn fragment(reference: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()
}

/// Returns the members or items of a value, with their names or indexes.
fn children(value: &Value) -> impl Iterator<Item = (Cow<'_, str>, &Value)> {
    let members = value.as_object().into_iter().flatten().map(|(name, member)| (Cow::from(name), member));
    let items = value.as_array().into_iter().flatten().enumerate();
    members.chain(items.map(|(index, item)| (Cow::from(index.to_string()), item)))
}
