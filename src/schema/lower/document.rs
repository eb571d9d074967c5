//! The document to lower: locations of subschemas, targets of references, and matches of patterns.

use std::cell::RefCell;
use std::collections::HashMap;

use jsonschema::{Draft, Validator};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::domain::json;

/// A location in the document; its pointer is built only on request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Location(usize);

enum Step<'a> {
    /// A pointer from the document's root.
    Jump(String),
    Key(Location, &'a str),
    Member(Location, &'static str, &'a str),
    Index(Location, &'static str, usize),
}

/// The registered schema.
pub(super) struct Document<'a> {
    pub(super) root: &'a Value,
    pub(super) draft: Draft,
    steps: RefCell<Vec<Step<'a>>>,
    /// Compiled patterns and formats; needed only if values or names are listed next to them.
    assertions: RefCell<HashMap<(&'static str, &'a str), Option<Validator>>>,
}

impl<'a> Document<'a> {
    pub(super) const ROOT: Location = Location(0);

    pub(super) fn new(root: &'a Value, draft: Draft) -> Self {
        let steps = RefCell::new(vec![Step::Jump(String::new())]);
        Self { root, draft, steps, assertions: RefCell::default() }
    }

    fn place(&self, step: Step<'a>) -> Location {
        let mut steps = self.steps.borrow_mut();
        steps.push(step);
        Location(steps.len() - 1)
    }

    pub(super) fn key(&self, at: Location, keyword: &'a str) -> Location {
        self.place(Step::Key(at, keyword))
    }

    pub(super) fn member(&self, at: Location, keyword: &'static str, name: &'a str) -> Location {
        self.place(Step::Member(at, keyword, name))
    }

    pub(super) fn index(&self, at: Location, keyword: &'static str, index: usize) -> Location {
        self.place(Step::Index(at, keyword, index))
    }

    /// Builds the RFC 6901 pointer of a location.
    pub(super) fn pointer(&self, at: Location) -> String {
        let steps = self.steps.borrow();
        let (mut tokens, mut at) = (Vec::new(), at);
        loop {
            let (above, token) = match &steps[at.0] {
                Step::Jump(pointer) => {
                    tokens.push(pointer.clone());
                    break;
                }
                Step::Key(above, keyword) => (*above, format!("/{keyword}")),
                Step::Member(above, keyword, name) => (*above, format!("/{keyword}/{}", json::pointer_token(name))),
                Step::Index(above, keyword, index) => (*above, format!("/{keyword}/{index}")),
            };
            tokens.push(token);
            at = above;
        }
        tokens.reverse();
        tokens.concat()
    }

    /// Returns the target of a reference in the schema at `at`.
    pub(super) fn resolve(&self, at: Location, reference: &str) -> Option<(&'a Value, Location)> {
        let fragment = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
        let base = self.resource_of(&self.pointer(at));
        let pointer = if fragment.is_empty() || fragment.starts_with('/') {
            format!("{base}{fragment}")
        } else {
            self.anchor(self.root.pointer(&base)?, &base, &fragment)?
        };
        Some((self.root.pointer(&pointer)?, self.place(Step::Jump(pointer))))
    }

    /// Returns the pointer of the nearest schema with an identity, which `#` refers to; usually the root.
    fn resource_of(&self, pointer: &str) -> String {
        let (mut base, mut value, mut end) = (0, self.root, 0);
        for token in pointer.split('/').skip(1) {
            end += token.len() + 1;
            let token = token.replace("~1", "/").replace("~0", "~");
            let next = match value {
                Value::Object(members) => members.get(&token),
                Value::Array(items) => token.parse().ok().and_then(|index: usize| items.get(index)),
                _ => None,
            };
            let Some(next) = next else { break };
            value = next;
            if self.identity(value).is_some_and(|name| !name.starts_with('#')) {
                base = end;
            }
        }
        pointer[..base].to_owned()
    }

    fn identity(&self, schema: &'a Value) -> Option<&'a str> {
        // Up to draft 7, keywords next to a `$ref` are ignored.
        if self.draft <= Draft::Draft7 && schema.get("$ref").is_some() {
            return None;
        }
        schema.get(if self.draft == Draft::Draft4 { "id" } else { "$id" })?.as_str().filter(|name| !name.is_empty())
    }

    fn anchor(&self, schema: &'a Value, pointer: &str, name: &str) -> Option<String> {
        let named = |keyword: &str| schema.get(keyword).and_then(Value::as_str) == Some(name);
        let by_identity = self.identity(schema).and_then(|identity| identity.strip_prefix('#')) == Some(name);
        if named("$anchor") || named("$dynamicAnchor") || by_identity {
            return Some(pointer.to_owned());
        }
        let below = |token: String, value: &'a Value| {
            let other = self.identity(value).is_some_and(|name| !name.starts_with('#'));
            if other { None } else { self.anchor(value, &format!("{pointer}/{token}"), name) }
        };
        match schema {
            Value::Object(members) => members.iter().find_map(|(key, value)| below(json::pointer_token(key), value)),
            Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| below(index.to_string(), item)),
            _ => None,
        }
    }

    /// Returns `true` if a pattern matches a text.
    pub(super) fn matches(&self, pattern: &'a str, text: &str) -> bool {
        self.asserts("pattern", pattern, text)
    }

    /// Returns `true` if a text satisfies a `pattern` or `format`.
    pub(super) fn asserts(&self, keyword: &'static str, argument: &'a str, text: &str) -> bool {
        let mut assertions = self.assertions.borrow_mut();
        let compiled = assertions.entry((keyword, argument)).or_insert_with(|| {
            super::super::validator(self.draft, super::super::patterns::MAX_SIZE, &json!({ keyword: argument })).ok()
        });
        compiled.as_ref().is_some_and(|assertion| assertion.is_valid(&Value::String(text.to_owned())))
    }
}
