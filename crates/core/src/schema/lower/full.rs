//! Lowering for vendors that support full JSON Schema below the root: non-recursive references are expanded, `allOf` is
//! merged, and keywords are written as in 2020-12.

use serde_json::{Map, Value, json};

use super::Restore;
use super::compare::same;
use super::conjunction::{Term, first, is_false};
use super::describe;
use super::lowering::{Lowering, Step, Visit, object};
use super::restore::Member;
use super::shape::{Notes, Shape};
use crate::schema::types::Types;

/// A schema under construction: its keywords, the schemas of its `allOf`, and the restore steps.
#[derive(Default)]
struct SchemaWriter {
    keywords: Map<String, Value>,
    beside: Vec<Value>,
    backs: Vec<Restore>,
}

impl SchemaWriter {
    fn put(&mut self, keyword: &str, value: impl Into<Value>) {
        self.keywords.insert(keyword.to_owned(), value.into());
    }

    fn put_some(&mut self, keyword: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(keyword, value);
        }
    }

    /// Adds keywords that belong together; if the first one already exists, adds them to the `allOf`.
    fn add(&mut self, keywords: Map<String, Value>) {
        if keywords.keys().next().is_some_and(|first| self.keywords.contains_key(first)) {
            self.beside.push(Value::Object(keywords));
        } else {
            self.keywords.extend(keywords);
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
        shape.kinds = Types::OBJECT;
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

    /// Lowers a subschema and records its conversion.
    fn write(&mut self, conj: &[Term<'a>], writer: &mut SchemaWriter) -> Step<Value> {
        let (schema, back) = self.lower_full(conj)?;
        writer.backs.push(back);
        Ok(schema)
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
                some => writer.put("enum", some.iter().map(|value| (*value).clone()).collect::<Value>()),
            }
        }
        scalars(shape, &mut writer);
        self.write_array(shape, &mut writer)?;
        self.write_object(shape, &mut writer)?;
        self.write_combinators(shape, &mut writer)?;
        Ok(writer)
    }

    fn write_notes(&mut self, notes: &Notes<'a>, writer: &mut SchemaWriter) -> Step<()> {
        let description = notes.text();
        self.spend(description.len())?;
        writer.put_some("title", notes.title);
        if !description.is_empty() || notes.description.is_some() {
            writer.put("description", description);
        }
        writer.put_some("default", notes.default.cloned());
        writer.put_some("examples", notes.examples.cloned());
        for flag in &notes.flags {
            writer.put(flag, true);
        }
        Ok(())
    }

    fn write_array(&mut self, shape: &Shape<'a>, writer: &mut SchemaWriter) -> Step<()> {
        let array = &shape.array;
        let mut max = array.max;
        if !array.prefix.is_empty() || array.items_given || shape.typed && shape.kinds.meets(Types::ARRAY) {
            let (mut prefix, mut backs) = (Vec::new(), Vec::new());
            for item in &array.prefix {
                let (schema, back) = self.lower_full(item)?;
                prefix.push(schema);
                backs.push(back);
            }
            let length = prefix.len() as u64;
            if array.items.iter().any(is_false) {
                // Avoids a boolean schema: no items after the prefix.
                max = Some(max.map_or(length, |max| max.min(length)));
            }
            let (items, back) =
                if max == Some(length) { (json!({}), Restore::Identity) } else { self.lower_full(&array.items)? };
            if !prefix.is_empty() {
                writer.put("prefixItems", prefix);
            }
            writer.put("items", items);
            writer.backs.push(Restore::array(backs, back));
        }
        writer.put_some("minItems", array.min);
        writer.put_some("maxItems", max);
        writer.put_some("uniqueItems", array.unique.map(|_| true));
        Ok(())
    }

    fn write_object(&mut self, shape: &Shape<'a>, writer: &mut SchemaWriter) -> Step<()> {
        let object = &shape.object;
        let (members, mut others) = (self.write_members(shape, writer)?, Vec::new());
        let mut patterns = Map::new();
        for (pattern, conj) in &object.patterns {
            let (schema, back) = self.lower_full(conj)?;
            patterns.insert((*pattern).to_owned(), schema);
            others.push(back);
        }
        if !patterns.is_empty() {
            writer.put("patternProperties", patterns);
        }
        if object.others.iter().any(is_false) {
            writer.put("additionalProperties", false);
        } else if !object.others.is_empty() {
            let (schema, back) = self.lower_full(&object.others)?;
            writer.put("additionalProperties", schema);
            others.push(back);
        } else if object.others_at.is_some() {
            writer.put("additionalProperties", true);
        }
        writer.backs.push(Restore::object(members, Restore::all(others)));
        writer.put_some("minProperties", object.min);
        writer.put_some("maxProperties", object.max);
        if !object.names.is_empty() {
            let (schema, _) = self.lower_full(&object.names)?;
            writer.put("propertyNames", schema);
        }
        if let Some(schema) = object.unevaluated {
            let is_false = *schema == Value::Bool(false);
            let schema = if is_false { json!(false) } else { self.write(&[Term::of(schema)], writer)? };
            writer.put("unevaluatedProperties", schema);
        }
        Ok(())
    }

    /// Writes the declared and the required members.
    fn write_members(&mut self, shape: &Shape<'a>, writer: &mut SchemaWriter) -> Step<Vec<Member>> {
        let (mut properties, mut members) = (Map::new(), Vec::new());
        for (name, conj) in &shape.object.properties {
            let (mut schema, back) = self.lower_full(conj)?;
            let alias = self.aliases.name(name).to_owned();
            self.rename(first(conj).unwrap_or(shape.at), name, &alias, &mut schema);
            self.spend(alias.len())?;
            members.push(Member::new(name, &alias, back));
            properties.insert(alias, schema);
        }
        if !properties.is_empty() {
            writer.put("properties", properties);
        }
        for name in &shape.object.required {
            // A required but undeclared property also gets its alias.
            let alias = self.aliases.name(name);
            if alias != *name && !members.iter().any(|member| member.name == alias) {
                members.push(Member::new(name, alias, Restore::Identity));
            }
        }
        let required: Vec<&str> = shape.object.required.iter().map(|name| self.aliases.name(name)).collect();
        if !required.is_empty() {
            writer.put("required", required);
        }
        Ok(members)
    }

    fn write_combinators(&mut self, shape: &Shape<'a>, writer: &mut SchemaWriter) -> Step<()> {
        for group in &shape.groups {
            let schemas: Step<Value> = group.branches.iter().map(|branch| self.write(branch, writer)).collect();
            writer.add(object([(group.keyword(), schemas?)]));
        }
        for condition in &shape.conditions {
            let mut keywords = Map::new();
            for keyword in ["if", "then", "else"] {
                if let Some(schema) = condition.get(keyword) {
                    keywords.insert(keyword.to_owned(), self.write(&[Term::of(schema)], writer)?);
                }
            }
            writer.add(keywords);
        }
        for (keyword, at) in &shape.rest {
            let value = &at[*keyword];
            match *keyword {
                "minContains" | "maxContains" => {}
                "contains" => {
                    let (schema, back) = self.lower_full(&[Term::of(value)])?;
                    let bounds = ["minContains", "maxContains"].into_iter();
                    let bounds = bounds.filter_map(|keyword| Some((keyword, at.get(keyword)?.clone())));
                    writer.backs.push(Restore::array(Vec::new(), back));
                    writer.add(object(std::iter::once(("contains", schema)).chain(bounds)));
                }
                "dependentRequired" | "dependentSchemas" | "dependencies" => self.write_dependent(value, writer)?,
                keyword => {
                    let schema = self.write(&[Term::of(value)], writer)?;
                    writer.add(object([(keyword, schema)]));
                }
            }
        }
        Ok(())
    }

    /// Writes `dependencies` as in 2020-12, by their kind.
    fn write_dependent(&mut self, dependent: &'a Value, writer: &mut SchemaWriter) -> Step<()> {
        let (mut required, mut schemas) = (Map::new(), Map::new());
        for (name, needs) in dependent.as_object().into_iter().flatten() {
            let alias = self.aliases.name(name).to_owned();
            if let Value::Array(needed) = needs {
                let needed = needed.iter().filter_map(Value::as_str).map(|name| json!(self.aliases.name(name)));
                required.insert(alias, needed.collect());
            } else {
                schemas.insert(alias, self.write(&[Term::of(needs)], writer)?);
            }
        }
        for (keyword, map) in [("dependentRequired", required), ("dependentSchemas", schemas)] {
            if !map.is_empty() {
                writer.add(object([(keyword, Value::Object(map))]));
            }
        }
        Ok(())
    }
}

/// Writes the keywords of strings and numbers.
fn scalars(shape: &Shape, writer: &mut SchemaWriter) {
    let bounds = [("minimum", "exclusiveMinimum", shape.number.min), ("maximum", "exclusiveMaximum", shape.number.max)];
    for (keyword, exclusive, bound) in bounds {
        if let Some(bound) = bound {
            writer.put(if bound.exclusive { exclusive } else { keyword }, bound.value.clone());
        }
    }
    let multiples = &shape.number.multiples;
    for (index, (value, _)) in multiples.iter().enumerate() {
        if !multiples[..index].iter().any(|(other, _)| same(other, value)) {
            writer.add(object([("multipleOf", (*value).clone())]));
        }
    }
    writer.put_some("minLength", shape.string.min);
    writer.put_some("maxLength", shape.string.max);
    for (keyword, texts) in [("pattern", &shape.string.patterns), ("format", &shape.string.formats)] {
        for (index, (text, _)) in texts.iter().enumerate() {
            if !texts[..index].iter().any(|(other, _)| other == text) {
                writer.add(object([(keyword, json!(text))]));
            }
        }
    }
    for (keyword, value) in &shape.string.content {
        writer.put(keyword, (*value).clone());
    }
}
