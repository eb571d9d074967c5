//! Lowering for vendors who take JSON Schema as it is below the root: references written out unless they lead back into
//! themselves, `allOf` merged, the spelling of 2020-12.

use serde_json::{Map, Value, json};

use super::Restore;
use super::conjunction::{Conjunction, Part, Term, first};
use super::describe;
use super::kinds::{Kinds, compare};
use super::lowering::{Lowering, Step, Visit};
use super::restore::Member;
use super::shape::{Bound, Group, Notes, Shape};

/// What is being written: keywords, what has to stand in an `allOf` beside them, and the ways back.
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

    /// Puts a keyword, or into an `allOf` if it is there already.
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
    pub(super) fn light_root(&mut self, mut shape: Shape<'a>) -> Step<(Map<String, Value>, Restore)> {
        if shape.never {
            return self.cannot(shape.at, "no arguments satisfy this schema");
        }
        shape.kinds = Kinds::OBJECT;
        shape.typed = true;
        let (mut keywords, back) = self.light_shape(&shape)?.finish();
        if let Some(beside) = keywords.shift_remove("allOf") {
            self.lose(shape.at, "allOf", "allOf cannot be said at the root; the description says it instead", true);
            let mut description = keywords.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
            describe::join(&mut description, &format!("All of these must hold: {}", describe::value(&beside)));
            keywords.insert("description".to_owned(), Value::String(description));
        }
        keywords.entry("properties").or_insert_with(|| json!({}));
        Ok((keywords, back))
    }

    /// A subschema below the root.
    fn light(&mut self, conj: &[Term<'a>]) -> Step<(Value, Restore)> {
        let (shape, definition) = match self.enter(conj)? {
            Visit::Shape(shape, definition) => (shape, definition),
            Visit::Known(reference, back) => return Ok((reference, back)),
            Visit::Truncated => return Ok((json!({}), Restore::Identity)),
        };
        let lowered = if shape.never {
            (json!({"not": {}}), Restore::Identity)
        } else {
            let (keywords, back) = self.light_shape(&shape)?.finish();
            (Value::Object(keywords), back)
        };
        let Some(index) = definition else {
            self.leave();
            return Ok(lowered);
        };
        Ok(if self.close(index) { self.define(index, lowered.0, lowered.1) } else { lowered })
    }

    fn light_part(&mut self, part: Part<'a>) -> Step<(Value, Restore)> {
        self.light(&[Term::Part(part)])
    }

    fn light_shape(&mut self, shape: &Shape<'a>) -> Step<SchemaWriter> {
        let mut sheet = SchemaWriter::default();
        if shape.typed {
            let names: Vec<&str> = shape.kinds.names().collect();
            sheet.put("type", if names.len() == 1 { json!(names[0]) } else { json!(names) });
        }
        self.light_notes(&shape.notes, &mut sheet)?;
        if let Some(values) = &shape.values {
            self.spend(values.iter().map(|value| value.as_str().map_or(8, str::len)).sum())?;
            let known = shape.parts.iter().any(|part| part.counts("const") && part.schema.get("const").is_some());
            match values.as_slice() {
                [only] if known => sheet.put("const", (*only).clone()),
                some => sheet.put("enum", some.iter().map(|value| (*value).clone()).collect()),
            }
        }
        scalars(shape, &mut sheet);
        self.light_array(shape, &mut sheet)?;
        self.light_object(shape, &mut sheet)?;
        self.light_combinators(shape, &mut sheet)?;
        Ok(sheet)
    }

    fn light_notes(&mut self, notes: &Notes<'a>, sheet: &mut SchemaWriter) -> Step<()> {
        let mut description = notes.description.unwrap_or_default().to_owned();
        for said in &notes.said {
            describe::join(&mut description, said);
        }
        self.spend(description.len())?;
        if let Some(title) = notes.title {
            sheet.put("title", json!(title));
        }
        if !description.is_empty() || notes.description.is_some() {
            sheet.put("description", Value::String(description));
        }
        if let Some(default) = notes.default {
            sheet.put("default", default.clone());
        }
        if let Some(examples) = notes.examples {
            sheet.put("examples", Value::Array(examples.clone()));
        }
        for flag in &notes.flags {
            sheet.put(flag, json!(true));
        }
        Ok(())
    }

    fn light_array(&mut self, shape: &Shape<'a>, sheet: &mut SchemaWriter) -> Step<()> {
        let array = &shape.array;
        let mut max = array.max;
        if !array.prefix.is_empty() || array.items_given || shape.typed && shape.kinds.meets(Kinds::ARRAY) {
            let (mut prefix, mut backs) = (Vec::new(), Vec::new());
            for place in &array.prefix {
                let (schema, back) = self.light(place)?;
                prefix.push(schema);
                backs.push(back);
            }
            if array.items.iter().any(super::conjunction::is_false) {
                // Without a boolean schema: as many as the prefix has.
                max = Some(max.unwrap_or(u64::MAX).min(prefix.len() as u64));
            }
            let (items, back) = if max == Some(prefix.len() as u64) {
                (json!({}), Restore::Identity)
            } else {
                self.light(&array.items)?
            };
            if prefix.is_empty() {
                sheet.backs.push(Restore::array(back));
            } else {
                sheet.put("prefixItems", Value::Array(prefix));
                let all_same = back.is_same() && backs.iter().all(Restore::is_same);
                sheet.backs.push(if all_same { Restore::Identity } else { Restore::Items(backs, Box::new(back)) });
            }
            sheet.put("items", items);
        }
        if let Some(min) = array.min {
            sheet.put("minItems", json!(min));
        }
        if let Some(max) = max {
            sheet.put("maxItems", json!(max));
        }
        if array.unique.is_some() {
            sheet.put("uniqueItems", json!(true));
        }
        Ok(())
    }

    fn light_object(&mut self, shape: &Shape<'a>, sheet: &mut SchemaWriter) -> Step<()> {
        let object = &shape.object;
        let (mut properties, mut members) = (Map::new(), Vec::new());
        for (name, conj) in &object.properties {
            let (mut schema, back) = self.light(conj)?;
            let alias = self.aliases.name(name).to_owned();
            self.rename(first(conj).map_or(shape.at, |part| part.at), name, &alias, &mut schema);
            let original = (alias != *name).then(|| (*name).to_owned());
            self.spend(alias.len())?;
            members.push(Member { name: alias.clone(), original, null_is_absent: false, back });
            properties.insert(alias, schema);
        }
        if !properties.is_empty() {
            sheet.put("properties", Value::Object(properties));
        }
        for name in &object.required {
            // Required without being declared: still under its alias.
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
            sheet.put("required", object.required.iter().map(|name| json!(self.aliases.name(name))).collect());
        }
        let mut others = Vec::new();
        if !object.patterns.is_empty() {
            let mut patterns = Map::new();
            for (pattern, conj) in &object.patterns {
                let (schema, back) = self.light(conj)?;
                patterns.insert((*pattern).to_owned(), schema);
                others.push(back);
            }
            sheet.put("patternProperties", Value::Object(patterns));
        }
        if object.others.iter().any(super::conjunction::is_false) {
            sheet.put("additionalProperties", json!(false));
        } else if !object.others.is_empty() {
            let (schema, back) = self.light(&object.others)?;
            sheet.put("additionalProperties", schema);
            others.push(back);
        } else if object.others_at.is_some() {
            sheet.put("additionalProperties", json!(true));
        }
        let others = Restore::all(others);
        let members = Restore::object(members);
        sheet.backs.push(match (members, others) {
            (members, Restore::Identity) => members,
            (Restore::Object(members), others) => Restore::Open(members, Box::new(others)),
            (_, others) => Restore::Open(Vec::new(), Box::new(others)),
        });
        for (keyword, value) in [("minProperties", object.min), ("maxProperties", object.max)] {
            if let Some(value) = value {
                sheet.put(keyword, json!(value));
            }
        }
        if !object.names.is_empty() {
            let (schema, _) = self.light(&object.names)?;
            sheet.put("propertyNames", schema);
        }
        if let Some(part) = object.unevaluated {
            let (schema, back) =
                if *part.schema == json!(false) { (json!(false), Restore::Identity) } else { self.light_part(part)? };
            sheet.put("unevaluatedProperties", schema);
            sheet.backs.push(back);
        }
        Ok(())
    }

    fn light_combinators(&mut self, shape: &Shape<'a>, sheet: &mut SchemaWriter) -> Step<()> {
        for group in &shape.groups {
            self.light_group(group, sheet)?;
        }
        for condition in &shape.conditions {
            let mut keywords = Map::new();
            let sides = [("if", Some(condition.when)), ("then", condition.then), ("else", condition.other)];
            for (keyword, part) in sides {
                if let Some(part) = part {
                    let (schema, back) = self.light_part(part)?;
                    keywords.insert(keyword.to_owned(), schema);
                    sheet.backs.push(back);
                }
            }
            if sheet.keywords.contains_key("if") {
                sheet.beside.push(Value::Object(keywords));
            } else {
                sheet.keywords.extend(keywords);
            }
        }
        for rest in &shape.rest {
            let below = |keyword| Part::new(rest.value, self.document.key(rest.part.at, keyword));
            match rest.keyword {
                "minContains" | "maxContains" => {}
                "contains" => {
                    let (schema, back) = self.light_part(below("contains"))?;
                    let mut keywords = Map::new();
                    keywords.insert("contains".to_owned(), schema);
                    for keyword in ["minContains", "maxContains"] {
                        if let Some(value) = rest.part.schema.get(keyword) {
                            keywords.insert(keyword.to_owned(), value.clone());
                        }
                    }
                    sheet.backs.push(Restore::array(back));
                    if sheet.keywords.contains_key("contains") {
                        sheet.beside.push(Value::Object(keywords));
                    } else {
                        sheet.keywords.extend(keywords);
                    }
                }
                "dependentRequired" | "dependentSchemas" | "dependencies" => self.light_dependent(rest, sheet)?,
                keyword => {
                    let (schema, back) = self.light_part(below(keyword))?;
                    sheet.backs.push(back);
                    sheet.add(keyword, schema);
                }
            }
        }
        Ok(())
    }

    fn light_group(&mut self, group: &Group<'a>, sheet: &mut SchemaWriter) -> Step<()> {
        let mut schemas = Vec::with_capacity(group.branches.len());
        for branch in &group.branches {
            let (schema, back) = self.light(branch)?;
            schemas.push(schema);
            sheet.backs.push(back);
        }
        sheet.add(group.keyword(), Value::Array(schemas));
        Ok(())
    }

    /// `dependencies` is today's `dependentRequired` and `dependentSchemas`.
    fn light_dependent(&mut self, rest: &super::shape::Rest<'a>, sheet: &mut SchemaWriter) -> Step<()> {
        let (mut required, mut schemas) = (Map::new(), Map::new());
        for (name, needs) in rest.value.as_object().into_iter().flatten() {
            let alias = self.aliases.name(name).to_owned();
            if let Value::Array(needed) = needs {
                let needed = needed.iter().filter_map(Value::as_str).map(|name| json!(self.aliases.name(name)));
                required.insert(alias, needed.collect());
            } else {
                let conj: Conjunction =
                    vec![super::merge::below(self.document, rest.part.at, rest.keyword, name, needs)];
                let (schema, back) = self.light(&conj)?;
                sheet.backs.push(back);
                schemas.insert(alias, schema);
            }
        }
        for (keyword, map) in [("dependentRequired", required), ("dependentSchemas", schemas)] {
            if !map.is_empty() {
                sheet.add(keyword, Value::Object(map));
            }
        }
        Ok(())
    }
}

/// Keywords of strings and numbers.
fn scalars(shape: &Shape, sheet: &mut SchemaWriter) {
    let bounds = [("minimum", "exclusiveMinimum", shape.number.min), ("maximum", "exclusiveMaximum", shape.number.max)];
    for (keyword, exclusive, bound) in bounds {
        if let Some(Bound { value, exclusive: is_exclusive, .. }) = bound {
            sheet.put(if is_exclusive { exclusive } else { keyword }, Value::Number(value.clone()));
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
            sheet.add("multipleOf", (*value).clone());
        }
    }
    for (keyword, value) in [("minLength", shape.string.min), ("maxLength", shape.string.max)] {
        if let Some(value) = value {
            sheet.put(keyword, json!(value));
        }
    }
    for (keyword, texts) in [("pattern", &shape.string.patterns), ("format", &shape.string.formats)] {
        for (index, (text, _)) in texts.iter().enumerate() {
            if !texts[..index].iter().any(|(other, _)| other == text) {
                sheet.add(keyword, json!(text));
            }
        }
    }
    for (keyword, value) in &shape.string.content {
        sheet.put(keyword, (*value).clone());
    }
}
