//! A merged subschema: all keywords that apply to one value.

use serde_json::{Number, Value};

use super::conjunction::{Conjunction, Part, is_false};
use super::describe;
use crate::schema::types::Types;

/// All constraints on one value. Nested subschemas are merged only on demand, because they may be recursive.
pub(super) struct Shape<'a> {
    /// The first merged subschema.
    pub(super) at: &'a Value,
    pub(super) parts: Vec<Part<'a>>,
    /// Whether no value is valid.
    pub(super) never: bool,
    pub(super) kinds: Types,
    /// Whether any `type` was given.
    pub(super) typed: bool,
    /// `enum` and `const`.
    pub(super) values: Option<Vec<&'a Value>>,
    pub(super) notes: Notes<'a>,
    pub(super) number: Numbers<'a>,
    pub(super) string: Strings<'a>,
    pub(super) array: Arrays<'a>,
    pub(super) object: Objects<'a>,
    pub(super) groups: Vec<Group<'a>>,
    /// The subschemas with `if`.
    pub(super) conditions: Vec<&'a Value>,
    /// Keywords that only full JSON Schema supports, with the subschemas that contain them.
    pub(super) rest: Vec<(&'static str, &'a Value)>,
}

/// Annotations.
#[derive(Default)]
pub(super) struct Notes<'a> {
    pub(super) title: Option<&'a str>,
    pub(super) description: Option<&'a str>,
    pub(super) default: Option<&'a Value>,
    pub(super) examples: Option<&'a Vec<Value>>,
    /// `deprecated`, `readOnly`, `writeOnly`, where true.
    pub(super) flags: Vec<&'static str>,
    /// Descriptions of constraints that the subset cannot express.
    pub(super) constraints: Vec<String>,
}

impl Notes<'_> {
    /// Returns the description, with the constraints that the subset cannot express.
    pub(super) fn text(&self) -> String {
        let mut text = self.description.unwrap_or_default().to_owned();
        self.constraints.iter().for_each(|constraint| describe::join(&mut text, constraint));
        text
    }
}

/// A minimum or maximum of a number.
#[derive(Clone, Copy)]
pub(super) struct Bound<'a> {
    pub(super) value: &'a Number,
    pub(super) exclusive: bool,
    pub(super) at: &'a Value,
}

#[derive(Default)]
pub(super) struct Numbers<'a> {
    pub(super) min: Option<Bound<'a>>,
    pub(super) max: Option<Bound<'a>>,
    pub(super) multiples: Vec<(&'a Value, &'a Value)>,
}

#[derive(Default)]
pub(super) struct Strings<'a> {
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
    pub(super) patterns: Vec<(&'a str, &'a Value)>,
    pub(super) formats: Vec<(&'a str, &'a Value)>,
    /// `contentEncoding`, `contentMediaType`: never asserted.
    pub(super) content: Vec<(&'static str, &'a Value)>,
}

#[derive(Default)]
pub(super) struct Arrays<'a> {
    pub(super) prefix: Vec<Conjunction<'a>>,
    /// The schema of the items after the prefix.
    pub(super) items: Conjunction<'a>,
    /// Whether a schema was given for the items after the prefix.
    pub(super) items_given: bool,
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
    pub(super) unique: Option<&'a Value>,
}

#[derive(Default)]
pub(super) struct Objects<'a> {
    pub(super) properties: Vec<(&'a str, Conjunction<'a>)>,
    pub(super) required: Vec<&'a str>,
    pub(super) patterns: Vec<(&'a str, Conjunction<'a>)>,
    /// The schema of members that are neither declared nor matched by a pattern: `additionalProperties`.
    pub(super) others: Conjunction<'a>,
    /// The subschema with `additionalProperties`, if any.
    pub(super) others_at: Option<&'a Value>,
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
    /// `propertyNames`.
    pub(super) names: Conjunction<'a>,
    pub(super) unevaluated: Option<&'a Value>,
}

/// An `anyOf` or a `oneOf`.
pub(super) struct Group<'a> {
    /// The index of the part that contains it; `None` for a generated group.
    pub(super) part: Option<usize>,
    /// The index among the generated groups.
    pub(super) made: usize,
    pub(super) one: bool,
    pub(super) at: &'a Value,
    pub(super) branches: Vec<Conjunction<'a>>,
}

impl Group<'_> {
    pub(super) fn keyword(&self) -> &'static str {
        if self.one { "oneOf" } else { "anyOf" }
    }
}

impl<'a> Objects<'a> {
    /// Returns the schema of a declared member.
    pub(super) fn declared(&self, name: &str) -> Option<&Conjunction<'a>> {
        self.properties.iter().find(|(known, _)| *known == name).map(|(_, conj)| conj)
    }
}

impl Shape<'_> {
    /// Returns the declared types, or else the types that the keywords apply to.
    pub(super) fn implied_kinds(&self) -> Option<Types> {
        if self.typed || self.values.is_some() {
            return Some(self.kinds);
        }
        let object = &self.object;
        let spoken = [
            (!object.properties.is_empty() || !object.required.is_empty() || object.others_at.is_some(), Types::OBJECT),
            (!object.patterns.is_empty() || object.min.is_some() || object.max.is_some(), Types::OBJECT),
            (!object.names.is_empty() || object.unevaluated.is_some(), Types::OBJECT),
            (self.array.items_given || !self.array.prefix.is_empty() || self.array.unique.is_some(), Types::ARRAY),
            (self.array.min.is_some() || self.array.max.is_some(), Types::ARRAY),
            (!self.string.patterns.is_empty() || !self.string.formats.is_empty(), Types::STRING),
            (self.string.min.is_some() || self.string.max.is_some() || !self.string.content.is_empty(), Types::STRING),
            (self.number.min.is_some() || self.number.max.is_some(), Types::NUMBER),
            (!self.number.multiples.is_empty(), Types::NUMBER),
        ];
        let kinds =
            spoken.iter().filter(|(spoken, _)| *spoken).fold(Types::NONE, |kinds, (_, kind)| kinds.union(*kind));
        let kinds = kinds.intersect(self.kinds);
        (!kinds.is_empty()).then_some(kinds)
    }

    /// Returns `true` if undeclared members are forbidden.
    pub(super) fn is_closed(&self) -> bool {
        let forbids = |conj: &Conjunction| conj.iter().any(is_false);
        let object = &self.object;
        let sealed = object.unevaluated.is_some_and(|schema| *schema == Value::Bool(false));
        object.max == Some(0)
            || object.patterns.is_empty() && (forbids(&object.others) || sealed && object.others.is_empty())
    }
}
