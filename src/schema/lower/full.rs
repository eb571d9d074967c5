//! Lowering for vendors that support full JSON Schema below the root: non-recursive references are expanded, `allOf` is
//! merged, and keywords are written as in 2020-12.

use serde_json::{Map, Value, json};

use super::Restore;
use super::conjunction::{Conjunction, Part, Term, first};
use super::describe;
use super::kinds::{Kinds, compare};
use super::lowering::{Lowering, Step, Visit};
use super::restore::Member;
use super::shape::{Bound, Group, Notes, Shape};

/// A schema under construction: its keywords, the schemas of its `allOf`, and the restore steps.
#[derive(Default)]
struct SchemaWriter {
    keywords: Map<String, Value>,
    beside: Vec<Value>,
    backs: Vec<Restore>,
}

impl SchemaWriter {
    fn put(&mut self, keyword: &str, value: Value) {
        self.keywords.insert(keyword.to_owned(), value);
    }

    /// Adds a keyword; if it already exists, adds it to the `allOf`.
    fn add(&mut self, keyword: &str, value: Value) {
        if self.keywords.contains_key(keyword) {
            self.beside.push(json!({ keyword: value }));
        } else {
            self.put(keyword, value);
        }
    }

    fn finish(mut self) -> (Map<String, Value>, Restore) {
        if !self.beside.is_empty() {
            self.keywords.insert("allOf".to_owned(), Value::Array(self.beside));
        }
        (self.keywords, Restore::all(self.backs))
    }
}

impl<'a> Lowering<'a, '_> {
    pub(super) fn full_root(&mut self, mut shape: Shape<'a>) -> Step<(Map<String, Value>, Restore)> {
        if shape.never {
            return self.cannot(shape.at, "no arguments satisfy this schema");
        }
        shape.kinds = Kinds::OBJECT;
        shape.typed = true;
        let (mut keywords, back) = self.write_shape(&shape)?.finish();
        if let Some(beside) = keywords.shift_remove("allOf") {
            self.lose(shape.at, "allOf", "allOf is not supported at the root; the description states it instead", true);
            let mut description = keywords.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
            describe::join(&mut description, &format!("All of these must match: {}", describe::value(&beside)));
            keywords.insert("description".to_owned(), Value::String(description));
        }
        keywords.entry("properties").or_insert_with(|| json!({}));
        Ok((keywords, back))
    }

    /// Lowers a subschema below the root.
    fn lower_full(&mut self, conj: &[Term<'a>]) -> Step<(Value, Restore)> {
        let (shape, definition) = match self.enter(conj)? {
            Visit::Shape(shape, definition) => (shape, definition),
            Visit::Known(reference, back) => return Ok((reference, back)),
            Visit::Truncated => return Ok((json!({}), Restore::Identity)),
        };
        let lowered = if shape.never {
            (json!({"not": {}}), Restore::Identity)
        } else {
            let (keywords, back) = self.write_shape(&shape)?.finish();
            (Value::Object(keywords), back)
        };
        let Some(index) = definition else {
            self.leave();
            return Ok(lowered);
        };
        Ok(if self.close(index) { self.define(index, lowered.0, lowered.1) } else { lowered })
    }

    fn write_part(&mut self, part: Part<'a>) -> Step<(Value, Restore)> {
        self.lower_full(&[Term::Part(part)])
    }

    fn write_shape(&mut self, shape: &Shape<'a>) -> Step<SchemaWriter> {
        let mut writer = SchemaWriter::default();
        if shape.typed {
            let names: Vec<&str> = shape.kinds.names().collect();
            writer.put("type", if names.len() == 1 { json!(names[0]) } else { json!(names) });
        }
        self.write_notes(&shape.notes, &mut writer)?;
        if let Some(values) = &shape.values {
            self.spend(values.iter().map(|value| value.as_str().map_or(8, str::len)).sum())?;
            let known = shape.parts.iter().any(|part| part.counts("const") && part.schema.get("const").is_some());
            match values.as_slice() {
                [only] if known => writer.put("const", (*only).clone()),
                some => writer.put("enum", some.iter().map(|value| (*value).clone()).collect()),
            }
        }
        scalars(shape, &mut writer);
        self.write_array(shape, &mut writer)?;
        self.write_object(shape, &mut writer)?;
        self.write_combinators(shape, &mut writer)?;
        Ok(writer)
    }

    fn write_notes(&mut self, notes: &Notes<'a>, writer: &mut SchemaWriter) -> Step<()> {
        let mut description = notes.description.unwrap_or_default().to_owned();
        for constraint in &notes.constraints {
            describe::join(&mut description, constraint);
        }
        self.spend(description.len())?;
        if let Some(title) = notes.title {
            writer.put("title", json!(title));
        }
        if !description.is_empty() || notes.description.is_some() {
            writer.put("description", Value::String(description));
        }
        if let Some(default) = notes.default {
            writer.put("default", default.clone());
        }
        if let Some(examples) = notes.examples {
            writer.put("examples", Value::Array(examples.clone()));
        }
        for flag in &notes.flags {
            writer.put(flag, json!(true));
        }
        Ok(())
    }

    fn write_array(&mut self, shape: &Shape<'a>, writer: &mut SchemaWriter) -> Step<()> {
        let array = &shape.array;
        let mut max = array.max;
        if !array.prefix.is_empty() || array.items_given || shape.typed && shape.kinds.meets(Kinds::ARRAY) {
            let (mut prefix, mut backs) = (Vec::new(), Vec::new());
            for place in &array.prefix {
                let (schema, back) = self.lower_full(place)?;
                prefix.push(schema);
                backs.push(back);
            }
            if array.items.iter().any(super::conjunction::is_false) {
                // Avoids a boolean schema: no items after the prefix.
                max = Some(max.unwrap_or(u64::MAX).min(prefix.len() as u64));
            }
            let (items, back) = if max == Some(prefix.len() as u64) {
                (json!({}), Restore::Identity)
            } else {
                self.lower_full(&array.items)?
            };
            if prefix.is_empty() {
                writer.backs.push(Restore::array(back));
            } else {
                writer.put("prefixItems", Value::Array(prefix));
                let all_same = back.is_same() && backs.iter().all(Restore::is_same);
                writer.backs.push(if all_same { Restore::Identity } else { Restore::Items(backs, Box::new(back)) });
            }
            writer.put("items", items);
        }
        if let Some(min) = array.min {
            writer.put("minItems", json!(min));
        }
        if let Some(max) = max {
            writer.put("maxItems", json!(max));
        }
        if array.unique.is_some() {
            writer.put("uniqueItems", json!(true));
        }
        Ok(())
    }

    fn write_object(&mut self, shape: &Shape<'a>, writer: &mut SchemaWriter) -> Step<()> {
        let object = &shape.object;
        let (mut properties, mut members) = (Map::new(), Vec::new());
        for (name, conj) in &object.properties {
            let (mut schema, back) = self.lower_full(conj)?;
            let alias = self.aliases.name(name).to_owned();
            self.rename(first(conj).map_or(shape.at, |part| part.at), name, &alias, &mut schema);
            let original = (alias != *name).then(|| (*name).to_owned());
            self.spend(alias.len())?;
            members.push(Member { name: alias.clone(), original, null_is_absent: false, back });
            properties.insert(alias, schema);
        }
        if !properties.is_empty() {
            writer.put("properties", Value::Object(properties));
        }
        for name in &object.required {
            // A required but undeclared property also gets its alias.
            let alias = self.aliases.name(name).to_owned();
            if alias != *name && !members.iter().any(|member| member.name == alias) {
                members.push(Member {
                    name: alias,
                    original: Some((*name).to_owned()),
                    null_is_absent: false,
                    back: Restore::Identity,
                });
            }
        }
        if !object.required.is_empty() {
            writer.put("required", object.required.iter().map(|name| json!(self.aliases.name(name))).collect());
        }
        let mut others = Vec::new();
        if !object.patterns.is_empty() {
            let mut patterns = Map::new();
            for (pattern, conj) in &object.patterns {
                let (schema, back) = self.lower_full(conj)?;
                patterns.insert((*pattern).to_owned(), schema);
                others.push(back);
            }
            writer.put("patternProperties", Value::Object(patterns));
        }
        if object.others.iter().any(super::conjunction::is_false) {
            writer.put("additionalProperties", json!(false));
        } else if !object.others.is_empty() {
            let (schema, back) = self.lower_full(&object.others)?;
            writer.put("additionalProperties", schema);
            others.push(back);
        } else if object.others_at.is_some() {
            writer.put("additionalProperties", json!(true));
        }
        let others = Restore::all(others);
        let members = Restore::object(members);
        writer.backs.push(match (members, others) {
            (members, Restore::Identity) => members,
            (Restore::Object(members), others) => Restore::Open(members, Box::new(others)),
            (_, others) => Restore::Open(Vec::new(), Box::new(others)),
        });
        for (keyword, value) in [("minProperties", object.min), ("maxProperties", object.max)] {
            if let Some(value) = value {
                writer.put(keyword, json!(value));
            }
        }
        if !object.names.is_empty() {
            let (schema, _) = self.lower_full(&object.names)?;
            writer.put("propertyNames", schema);
        }
        if let Some(part) = object.unevaluated {
            let (schema, back) =
                if *part.schema == json!(false) { (json!(false), Restore::Identity) } else { self.write_part(part)? };
            writer.put("unevaluatedProperties", schema);
            writer.backs.push(back);
        }
        Ok(())
    }

    fn write_combinators(&mut self, shape: &Shape<'a>, writer: &mut SchemaWriter) -> Step<()> {
        for group in &shape.groups {
            self.write_group(group, writer)?;
        }
        for condition in &shape.conditions {
            let mut keywords = Map::new();
            let sides = [("if", Some(condition.when)), ("then", condition.then), ("else", condition.other)];
            for (keyword, part) in sides {
                if let Some(part) = part {
                    let (schema, back) = self.write_part(part)?;
                    keywords.insert(keyword.to_owned(), schema);
                    writer.backs.push(back);
                }
            }
            if writer.keywords.contains_key("if") {
                writer.beside.push(Value::Object(keywords));
            } else {
                writer.keywords.extend(keywords);
            }
        }
        for rest in &shape.rest {
            let below = |keyword| Part::new(rest.value, self.document.key(rest.part.at, keyword));
            match rest.keyword {
                "minContains" | "maxContains" => {}
                "contains" => {
                    let (schema, back) = self.write_part(below("contains"))?;
                    let mut keywords = Map::new();
                    keywords.insert("contains".to_owned(), schema);
                    for keyword in ["minContains", "maxContains"] {
                        if let Some(value) = rest.part.schema.get(keyword) {
                            keywords.insert(keyword.to_owned(), value.clone());
                        }
                    }
                    writer.backs.push(Restore::array(back));
                    if writer.keywords.contains_key("contains") {
                        writer.beside.push(Value::Object(keywords));
                    } else {
                        writer.keywords.extend(keywords);
                    }
                }
                "dependentRequired" | "dependentSchemas" | "dependencies" => self.write_dependent(rest, writer)?,
                keyword => {
                    let (schema, back) = self.write_part(below(keyword))?;
                    writer.backs.push(back);
                    writer.add(keyword, schema);
                }
            }
        }
        Ok(())
    }

    fn write_group(&mut self, group: &Group<'a>, writer: &mut SchemaWriter) -> Step<()> {
        let mut schemas = Vec::with_capacity(group.branches.len());
        for branch in &group.branches {
            let (schema, back) = self.lower_full(branch)?;
            schemas.push(schema);
            writer.backs.push(back);
        }
        writer.add(group.keyword(), Value::Array(schemas));
        Ok(())
    }

    /// Writes `dependencies` as `dependentRequired` and `dependentSchemas`.
    fn write_dependent(&mut self, rest: &super::shape::Rest<'a>, writer: &mut SchemaWriter) -> Step<()> {
        let (mut required, mut schemas) = (Map::new(), Map::new());
        for (name, needs) in rest.value.as_object().into_iter().flatten() {
            let alias = self.aliases.name(name).to_owned();
            if let Value::Array(needed) = needs {
                let needed = needed.iter().filter_map(Value::as_str).map(|name| json!(self.aliases.name(name)));
                required.insert(alias, needed.collect());
            } else {
                let conj: Conjunction =
                    vec![super::merge::below(self.document, rest.part.at, rest.keyword, name, needs)];
                let (schema, back) = self.lower_full(&conj)?;
                writer.backs.push(back);
                schemas.insert(alias, schema);
            }
        }
        for (keyword, map) in [("dependentRequired", required), ("dependentSchemas", schemas)] {
            if !map.is_empty() {
                writer.add(keyword, Value::Object(map));
            }
        }
        Ok(())
    }
}

/// Writes the keywords of strings and numbers.
fn scalars(shape: &Shape, writer: &mut SchemaWriter) {
    let bounds = [("minimum", "exclusiveMinimum", shape.number.min), ("maximum", "exclusiveMaximum", shape.number.max)];
    for (keyword, exclusive, bound) in bounds {
        if let Some(Bound { value, exclusive: is_exclusive, .. }) = bound {
            writer.put(if is_exclusive { exclusive } else { keyword }, Value::Number(value.clone()));
        }
    }
    let mut multiples: Vec<&Value> = Vec::new();
    for (value, _) in &shape.number.multiples {
        let known = |other: &&Value| match (other, value) {
            (Value::Number(one), Value::Number(other)) => compare(one, other).is_eq(),
            _ => false,
        };
        if !multiples.iter().any(known) {
            multiples.push(value);
            writer.add("multipleOf", (*value).clone());
        }
    }
    for (keyword, value) in [("minLength", shape.string.min), ("maxLength", shape.string.max)] {
        if let Some(value) = value {
            writer.put(keyword, json!(value));
        }
    }
    for (keyword, texts) in [("pattern", &shape.string.patterns), ("format", &shape.string.formats)] {
        for (index, (text, _)) in texts.iter().enumerate() {
            if !texts[..index].iter().any(|(other, _)| other == text) {
                writer.add(keyword, json!(text));
            }
        }
    }
    for (keyword, value) in &shape.string.content {
        writer.put(keyword, (*value).clone());
    }
}
