//! Lowering for vendors that support a small subset: each subschema becomes a list of alternatives with one type each,
//! and a flag for `null`.

use serde_json::{Map, Value, json};

use super::conjunction::{NO_NOTES, Term, first};
use super::lowering::{Lowering, Step, Visit, object};
use super::shape::{Group, Shape};
use super::{Restore, Target, describe};
use crate::schema::types::Types;

mod arrays;
mod objects;
mod render;
mod scalars;

pub(super) use render::render;

/// The result of lowering a subschema.
#[derive(Debug, Clone, Default)]
pub(super) struct LoweredNode {
    pub(super) alternatives: Vec<Alternative>,
    pub(super) null: bool,
    pub(super) title: Option<String>,
    pub(super) description: String,
}

/// One alternative: a schema with one type, or a reference.
#[derive(Debug, Clone)]
pub(super) struct Alternative {
    pub(super) schema: Map<String, Value>,
    pub(super) back: Restore,
}

impl Alternative {
    pub(super) fn same(schema: Map<String, Value>) -> Self {
        Self { schema, back: Restore::Identity }
    }

    fn of_type(name: &str) -> Self {
        Self::same(object([("type", json!(name))]))
    }
}

impl<'a> Lowering<'a, '_> {
    pub(super) fn subset_root(&mut self, mut shape: Shape<'a>) -> Step<(Map<String, Value>, Restore)> {
        shape.kinds = Types::OBJECT;
        self.fold_rest(&mut shape);
        let made = if shape.never { None } else { self.object(&mut shape, true)? };
        let Some(made) = made else {
            return self.cannot(shape.at, "no arguments satisfy this schema, or only infinite ones");
        };
        let out = LoweredNode { alternatives: vec![made], ..self.annotations(&shape)? };
        let (schema, back) = render(self.target, out);
        Ok((if let Value::Object(schema) = schema { schema } else { Map::new() }, back))
    }

    /// Lowers a subschema below the root; `None` if it allows no value.
    pub(super) fn lower_subset(&mut self, conj: &[Term<'a>]) -> Step<Option<LoweredNode>> {
        let (mut shape, definition) = match self.enter(conj)? {
            Visit::Shape(shape, definition) => (shape, definition),
            Visit::Known(reference, back) => return Ok(Some(referring(reference, back))),
            Visit::Truncated => {
                let at = first(conj).unwrap_or(self.here);
                self.lose(at, "$ref", "the schema refers to itself; the recursion ends after a few levels", false);
                return Ok(None);
            }
        };
        let around = std::mem::replace(&mut self.here, shape.at);
        let out = if shape.never { None } else { self.expand(&mut shape)? };
        self.here = around;
        let Some(index) = definition else {
            self.leave();
            return Ok(out);
        };
        if !self.close(index) {
            return Ok(out);
        }
        let Some(out) = out else {
            return self.cannot(shape.at, "the schema refers to itself in a way that no value satisfies");
        };
        let (schema, back) = render(self.target, out);
        let (reference, back) = self.define(index, schema, back);
        Ok(Some(referring(reference, back)))
    }

    fn expand(&mut self, shape: &mut Shape<'a>) -> Step<Option<LoweredNode>> {
        let mut out = LoweredNode::default();
        if shape.groups.is_empty() {
            self.fold_rest(shape);
            self.kinds(shape, &mut out)?;
        } else {
            let group = shape.groups.remove(0);
            self.distribute(shape, &group, &mut out)?;
        }
        let nothing = out.alternatives.is_empty() && !out.null;
        let noted = self.annotations(shape)?;
        Ok((!nothing).then_some(LoweredNode { alternatives: out.alternatives, null: out.null, ..noted }))
    }

    /// Merges the siblings of an `anyOf` or `oneOf` into its branches.
    fn distribute(&mut self, shape: &mut Shape<'a>, group: &Group<'a>, out: &mut LoweredNode) -> Step<()> {
        let branches = self.with_each_branch(shape, group, NO_NOTES);
        if group.one && branches.len() > 1 && !self.are_exclusive(&branches) {
            let text = "Exactly one of the alternatives must match.".to_owned();
            self.describe_loss(shape, group.at, "oneOf", text);
        }
        for branch in &branches {
            self.spend(branch.len() * 8)?;
            let Some(inner) = self.lower_subset(branch)? else { continue };
            out.null |= inner.null;
            for mut alternative in inner.alternatives {
                render::note(self.target, &mut alternative.schema, inner.title.as_deref(), &inner.description);
                render::push(&mut out.alternatives, alternative);
            }
        }
        Ok(())
    }

    /// Folds conditions, `not` and similar keywords into the shape if that is simple, and otherwise describes them as
    /// text.
    fn fold_rest(&mut self, shape: &mut Shape<'a>) {
        self.fold_conditions(shape);
        for (keyword, at) in std::mem::take(&mut shape.rest) {
            let concerns = match keyword {
                "contains" | "unevaluatedItems" => Types::ARRAY,
                "dependentRequired" | "dependentSchemas" | "dependencies" => Types::OBJECT,
                "not" => Types::ALL,
                _ => Types::NONE,
            };
            let moot = !concerns.meets(shape.kinds) || keyword == "not" && excluded(shape, &at["not"]);
            if !moot {
                self.describe_keyword(shape, at, keyword);
            }
        }
        shape.never |= shape.kinds.is_empty();
    }

    /// Adds an alternative for each type.
    fn kinds(&mut self, shape: &mut Shape<'a>, out: &mut LoweredNode) -> Step<()> {
        if shape.values.is_some() {
            return self.listed(shape, out);
        }
        let Some(kinds) = shape.implied_kinds() else {
            self.any_scalar(shape, out);
            return Ok(());
        };
        if !shape.typed {
            let names: Vec<&str> = kinds.names().collect();
            self.lose(shape.at, "type", format!("no type is given; assumed to be {}", names.join(" or ")), false);
        }
        for kind in kinds.intersect(shape.kinds).names() {
            let alternative = match kind {
                "null" => {
                    out.null = true;
                    None
                }
                "boolean" => Some(Alternative::of_type(kind)),
                "integer" | "number" => self.number(shape, kind == "integer"),
                "string" => self.string(shape),
                "array" => self.array(shape)?,
                _ => self.object(shape, false)?,
            };
            out.alternatives.extend(alternative);
        }
        Ok(())
    }

    /// Lowers a schema that allows any value: a subset cannot express it, nor the contents of an object or array.
    fn any_scalar(&mut self, shape: &Shape<'a>, out: &mut LoweredNode) {
        self.lose(shape.at, "type", "any value is allowed; narrowed to strings, numbers and booleans", false);
        for kind in [Types::STRING, Types::NUMBER, Types::BOOLEAN] {
            out.alternatives.extend(kind.intersect(shape.kinds).names().next().map(Alternative::of_type));
        }
        out.null = self.target == Target::OpenAiStrict && shape.kinds.meets(Types::NULL);
    }

    /// Returns the annotations of a shape as title and description.
    fn annotations(&mut self, shape: &Shape<'a>) -> Step<LoweredNode> {
        let notes = &shape.notes;
        let mut description = notes.text();
        for flag in &notes.flags {
            let text = match *flag {
                "deprecated" => "Deprecated.",
                "readOnly" => "Read-only.",
                _ => "Write-only.",
            };
            describe::join(&mut description, text);
        }
        if let Some(default) = notes.default.filter(|default| !default.is_null()) {
            describe::join(&mut description, &format!("Default: {}.", describe::value(default)));
        }
        if let Some(examples) = notes.examples.filter(|examples| !examples.is_empty()) {
            describe::join(&mut description, &format!("Examples: {}.", describe::values(examples)));
        }
        self.spend(description.len() + notes.title.map_or(0, str::len))?;
        Ok(LoweredNode { title: notes.title.map(str::to_owned), description, ..LoweredNode::default() })
    }
}

fn referring(reference: Value, back: Restore) -> LoweredNode {
    let schema = if let Value::Object(schema) = reference { schema } else { Map::new() };
    LoweredNode { alternatives: vec![Alternative { schema, back }], ..LoweredNode::default() }
}

/// Folds a `not` into the shape and returns `true`, if it excludes only types or listed values.
fn excluded(shape: &mut Shape, not: &Value) -> bool {
    let Some(keywords) = not.as_object().filter(|keywords| keywords.len() == 1) else { return false };
    if let Some(kinds) = keywords.get("type").map(Types::read) {
        // No type name means numbers except integers.
        let whole = !kinds.meets(Types::INTEGER) || kinds.intersect(Types::NUMBER) == Types::NUMBER;
        if whole || !shape.kinds.meets(Types::NUMBER.without(Types::INTEGER)) {
            shape.kinds = shape.kinds.without(kinds);
            return true;
        }
        return false;
    }
    let listed = keywords.get("enum").and_then(Value::as_array).map(Vec::as_slice);
    let listed = listed.or(keywords.get("const").map(std::slice::from_ref));
    match (&mut shape.values, listed) {
        (Some(values), Some(listed)) => {
            values.retain(|value| !listed.iter().any(|other| super::compare::same(value, other)));
            true
        }
        _ => false,
    }
}
