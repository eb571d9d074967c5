//! Objects in a small subset: closed, with all members declared; free-form members become a list of entries.

use serde_json::{Map, Value, json};

use super::{Alternative, LoweredNode, render};
use crate::schema::lower::conjunction::{Conjunction, NO_NOTES, Part, Term, first, flatten, is_false};
use crate::schema::lower::lowering::{Lowering, Step, object, put_some};
use crate::schema::lower::restore::Member;
use crate::schema::lower::shape::Shape;
use crate::schema::lower::{Restore, Target, describe, null};

/// The root property for free-form arguments.
const ENTRIES: &str = "entries";

impl<'a> Lowering<'a, '_> {
    /// Lowers an object; `None` if no object is valid.
    pub(super) fn object(&mut self, shape: &mut Shape<'a>, root: bool) -> Step<Option<Alternative>> {
        for name in shape.object.required.clone() {
            if shape.object.declared(name).is_none() {
                let conj = self.undeclared(shape, name);
                shape.object.properties.push((name, conj));
            }
        }
        let closed = shape.is_closed();
        let least = shape.object.min.unwrap_or(0);
        let spoken = shape.object.others_at.is_some() || !shape.object.patterns.is_empty();
        if shape.object.properties.is_empty() {
            if closed && least > 0 {
                return Ok(None);
            }
            if closed && (root || self.target == Target::OpenAiStrict) {
                return Ok(Some(Alternative::same(self.closed(Map::new(), Vec::new()))));
            }
            if !root {
                return self.entries(shape, closed);
            }
            if spoken || least > 0 {
                return self.spread(shape);
            }
            self.lose(shape.at, "additionalProperties", "arguments of any name are allowed; narrowed to none", false);
            return Ok(Some(Alternative::same(self.closed(Map::new(), Vec::new()))));
        }
        if spoken && !closed {
            let keyword = if shape.object.others_at.is_some() { "additionalProperties" } else { "patternProperties" };
            self.lose(shape.at, keyword, "undeclared members are allowed; narrowed to the declared ones", false);
        }
        self.named(shape, root)
    }

    /// Returns the constraints on a required member that is not declared.
    fn undeclared(&self, shape: &Shape<'a>, name: &str) -> Conjunction<'a> {
        let matching = shape.object.patterns.iter().filter(|(pattern, _)| self.document.matches(pattern, name));
        let conj: Conjunction = matching.flat_map(|(_, conj)| conj.iter().cloned()).collect();
        if conj.is_empty() { shape.object.others.clone() } else { conj }
    }

    fn named(&mut self, shape: &mut Shape<'a>, root: bool) -> Step<Option<Alternative>> {
        let strict = self.target == Target::OpenAiStrict;
        let (mut properties, mut required, mut members) = (Map::new(), Vec::new(), Vec::new());
        for (name, conj) in std::mem::take(&mut shape.object.properties) {
            let (needed, at) = (shape.object.required.contains(&name), first(&conj).unwrap_or(shape.at));
            let Some(mut out) = self.lower_subset(&conj)? else {
                if needed {
                    return Ok(None);
                }
                continue;
            };
            if !strict && !needed && out.alternatives.is_empty() {
                // Only `null` is allowed, and Gemini has no type for it.
                self.lose(at, "type", "only null is allowed; the property can only be omitted", false);
                continue;
            }
            let mut null_is_absent = false;
            if strict && !needed {
                null_is_absent = !null::is_valid(self.document, &conj);
                if !null_is_absent && !self.defaults_to_null(&conj) {
                    let message = "optional, and null is a distinct value; the property cannot be omitted";
                    self.lose(at, "required", message, false);
                }
                out.null = true;
            }
            let alias = self.aliases.name(name).to_owned();
            self.spend(alias.len())?;
            let (mut schema, back) = render(self.target, out);
            self.rename(at, name, &alias, &mut schema);
            members.push(Member { null_is_absent, ..Member::new(name, &alias, back) });
            if strict || needed {
                required.push(json!(alias));
            }
            properties.insert(alias, schema);
        }
        if properties.is_empty() && self.target == Target::Gemini && !root {
            return Ok(Some(self.empty_entries()));
        }
        if shape.object.min.is_some_and(|min| min > properties.len() as u64) {
            return Ok(None);
        }
        let (names, needed) = (properties.len() as u64, shape.object.required.len() as u64);
        let mut schema = self.closed(properties, required);
        self.sizes(shape, &mut schema, names, needed);
        Ok(Some(Alternative { schema, back: Restore::object(members, Restore::Identity) }))
    }

    /// Writes the bounds on the number of members, unless every object satisfies them.
    fn sizes(&mut self, shape: &mut Shape<'a>, schema: &mut Map<String, Value>, names: u64, needed: u64) {
        let min = shape.object.min.filter(|min| *min > needed);
        let max = shape.object.max.filter(|max| *max < names);
        for (keyword, value, text) in [("minProperties", min, "at least"), ("maxProperties", max, "at most")] {
            let Some(value) = value else { continue };
            if self.target == Target::Gemini {
                schema.insert(keyword.to_owned(), json!(value));
            } else {
                self.describe_loss(shape, shape.at, keyword, format!("Must have {text} {value} of the members."));
            }
        }
        if !shape.object.names.is_empty() {
            self.describe_loss(shape, shape.at, "propertyNames", String::new());
        }
    }

    /// Returns an object schema with exactly these members.
    fn closed(&self, properties: Map<String, Value>, required: Vec<Value>) -> Map<String, Value> {
        let strict = self.target == Target::OpenAiStrict;
        let mut schema = object([("type", json!("object")), ("properties", Value::Object(properties))]);
        if strict || !required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(required));
        }
        if strict {
            schema.insert("additionalProperties".to_owned(), json!(false));
        }
        schema
    }

    /// Returns an empty list of entries, for an empty object where the vendor requires a member.
    fn empty_entries(&self) -> Alternative {
        let entry = self.entry(json!({"type": "string"}), json!({"type": "string"}));
        let schema = object([("type", json!("array")), ("items", entry), ("maxItems", json!(0))]);
        Alternative { schema, back: Restore::Entries(Box::new(Restore::Identity)) }
    }

    fn entry(&self, key: Value, value: Value) -> Value {
        let properties = object([("key", key), ("value", value)]);
        Value::Object(self.closed(properties, vec![json!("key"), json!("value")]))
    }

    /// Lowers free-form members to a list of entries.
    fn entries(&mut self, shape: &mut Shape<'a>, closed: bool) -> Step<Option<Alternative>> {
        let none = shape.object.min.unwrap_or(0) == 0;
        if closed {
            return Ok(none.then(|| self.empty_entries()));
        }
        let (key, value) = (self.lower_key(&shape.object.names.clone())?, self.values(shape)?);
        let (Some(key), Some((key_by_pattern, (value, back)))) = (key, value) else {
            return Ok(none.then(|| self.empty_entries()));
        };
        let key = key_by_pattern.unwrap_or(key);
        let mut schema = object([("type", json!("array")), ("items", self.entry(key, value))]);
        put_some(&mut schema, "minItems", shape.object.min);
        put_some(&mut schema, "maxItems", shape.object.max);
        if shape.object.min > Some(1) {
            self.lose(shape.at, "minProperties", "written as a list, in which a key may occur twice", true);
        }
        shape.notes.constraints.push("An object, written as a list of entries with key and value.".to_owned());
        Ok(Some(Alternative { schema, back: Restore::Entries(Box::new(back)) }))
    }

    /// Returns the schema of the keys: strings that `propertyNames` allows.
    fn lower_key(&mut self, names: &[Term<'a>]) -> Step<Option<Value>> {
        if names.is_empty() {
            return Ok(Some(json!({"type": "string"})));
        }
        let Some(mut out) = self.lower_subset(names)? else { return Ok(None) };
        let is_string =
            |kind: &Alternative| kind.schema.get("type").is_some_and(|kind| kind == "string") && kind.back.is_same();
        out.alternatives.retain(is_string);
        out.null = false;
        Ok((!out.alternatives.is_empty()).then(|| render(self.target, out).0))
    }

    /// Returns the schema of the values, and the schema of their keys if a pattern gives it.
    #[allow(clippy::type_complexity)]
    fn values(&mut self, shape: &mut Shape<'a>) -> Step<Option<(Option<Value>, (Value, Restore))>> {
        let patterns = std::mem::take(&mut shape.object.patterns);
        let Some((pattern, conj)) = patterns.first() else {
            let others = shape.object.others.clone();
            let unevaluated = shape.object.unevaluated.map(|schema| Term::Part(Part { schema, mask: NO_NOTES }));
            let others = if others.is_empty() { unevaluated.into_iter().collect() } else { others };
            return Ok(self.lower_subset(&others)?.map(|out| (None, render(self.target, out))));
        };
        if !shape.object.others.iter().any(is_false) {
            let message = "other names are also allowed; narrowed to names that match the pattern";
            self.lose(shape.at, "patternProperties", message, false);
        }
        if patterns.len() > 1 {
            self.lose(shape.at, "patternProperties", "several patterns are given; narrowed to the first", false);
            let text = describe::names(patterns.iter().skip(1).map(|(pattern, _)| *pattern));
            // A name that also matches another pattern would have to satisfy its schema, too.
            self.describe_loss(shape, shape.at, "properties", format!("Names must not match {text}."));
        }
        if !shape.object.names.is_empty() {
            self.describe_loss(shape, shape.at, "propertyNames", String::new());
        }
        let key = json!({"type": "string", "pattern": pattern});
        Ok(self.lower_subset(conj)?.map(|out| (Some(key), render(self.target, out))))
    }

    /// Lowers free-form arguments: the list of entries is the only property.
    fn spread(&mut self, shape: &mut Shape<'a>) -> Step<Option<Alternative>> {
        let Some(list) = self.entries(shape, false)? else { return Ok(None) };
        let back = match list.back {
            Restore::Entries(inner) => Restore::FromPairs(ENTRIES.to_owned(), inner),
            other => Restore::object(vec![Member::new(ENTRIES, ENTRIES, other)], Restore::Identity),
        };
        let properties = object([(ENTRIES, Value::Object(list.schema))]);
        Ok(Some(Alternative { schema: self.closed(properties, vec![json!(ENTRIES)]), back }))
    }

    /// Returns `true` if omitting the property is equivalent to `null`.
    fn defaults_to_null(&self, conj: &[Term<'a>]) -> bool {
        let flat = flatten(self.document, conj);
        let default = flat.parts.iter().find_map(|part| part.schema.get("default").filter(|_| part.counts("default")));
        default == Some(&Value::Null)
    }
}

/// Returns the item schema of a list that must be empty.
pub(super) fn empty_item() -> LoweredNode {
    LoweredNode { alternatives: vec![Alternative::of_type("string")], ..LoweredNode::default() }
}
