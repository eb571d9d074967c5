//! Merging: collects the keywords of all subschemas that apply to one value, as any draft spells them.

use std::cmp::Ordering;

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::compare::{compare, count, same};
use super::conjunction::{Conjunction, FlatConjunction, Part, Term};
use super::shape::{Arrays, Bound, Group, Notes, Numbers, Objects, Shape, Strings};
use crate::schema::document::Document;
use crate::schema::types::Types;

/// Assertions that are kept unchanged.
const REST: [&str; 9] = [
    "not",
    "contains",
    "minContains",
    "maxContains",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedItems",
    "contentSchema",
];

impl<'a> Shape<'a> {
    /// Merges all keywords that apply to one value.
    pub(super) fn of(document: &Document<'a>, flat: FlatConjunction<'a>) -> Self {
        let mut shape = Self {
            at: flat.at.unwrap_or(document.root),
            parts: flat.parts,
            never: flat.never,
            kinds: Types::ALL,
            typed: false,
            values: None,
            notes: Notes::default(),
            number: Numbers::default(),
            string: Strings::default(),
            array: Arrays::default(),
            object: Objects::default(),
            groups: Vec::new(),
            conditions: Vec::new(),
            rest: Vec::new(),
        };
        for index in 0..shape.parts.len() {
            let part = shape.parts[index];
            if let Value::Object(keywords) = part.schema {
                for (keyword, value) in keywords.iter().filter(|(keyword, _)| part.counts(keyword)) {
                    read(&mut shape, index, keyword, value);
                }
            }
        }
        for (made, branches) in flat.any.into_iter().enumerate() {
            let at = shape.at;
            shape.groups.push(Group { part: None, made, one: false, at, branches: branches.to_vec() });
        }
        objects(document, &mut shape);
        arrays(document, &mut shape);
        if let Some(values) = &mut shape.values {
            values.retain(|value| Types::of(value).meets(shape.kinds));
            let left = values.iter().fold(Types::NONE, |kinds, value| kinds.union(Types::of(value)));
            shape.kinds = shape.kinds.intersect(left);
        }
        shape.never |= shape.kinds.is_empty();
        shape
    }
}

fn read<'a>(shape: &mut Shape<'a>, index: usize, keyword: &str, value: &'a Value) {
    let part = shape.parts[index];
    let at = part.schema;
    match keyword {
        "type" => {
            shape.kinds = shape.kinds.intersect(Types::read(value));
            shape.typed = true;
        }
        "enum" => list(&mut shape.values, value.as_array().into_iter().flatten().collect()),
        "const" => list(&mut shape.values, vec![value]),
        "title" => shape.notes.title = shape.notes.title.or(value.as_str()),
        "description" => shape.notes.description = shape.notes.description.or(value.as_str()),
        "default" => shape.notes.default = shape.notes.default.or(Some(value)),
        "examples" => shape.notes.examples = shape.notes.examples.or(value.as_array()),
        "deprecated" | "readOnly" | "writeOnly" if *value == Value::Bool(true) => {
            let flags = ["deprecated", "readOnly", "writeOnly"];
            shape.notes.flags.extend(flags.into_iter().filter(|flag| *flag == keyword));
        }
        "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" => {
            bound(&mut shape.number, part, keyword, value)
        }
        "multipleOf" => shape.number.multiples.push((value, at)),
        "minLength" => larger(&mut shape.string.min, value),
        "maxLength" => smaller(&mut shape.string.max, value),
        "pattern" => shape.string.patterns.extend(value.as_str().map(|pattern| (pattern, at))),
        "format" => shape.string.formats.extend(value.as_str().map(|format| (format, at))),
        "contentEncoding" => shape.string.content.push(("contentEncoding", value)),
        "contentMediaType" => shape.string.content.push(("contentMediaType", value)),
        "minItems" => larger(&mut shape.array.min, value),
        "maxItems" => smaller(&mut shape.array.max, value),
        "uniqueItems" if *value == Value::Bool(true) => shape.array.unique = shape.array.unique.or(Some(at)),
        "required" => {
            for name in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !shape.object.required.contains(&name) {
                    shape.object.required.push(name);
                }
            }
        }
        "minProperties" => larger(&mut shape.object.min, value),
        "maxProperties" => smaller(&mut shape.object.max, value),
        "propertyNames" => {
            shape.object.names.push(Term::of(value));
        }
        "unevaluatedProperties" => {
            shape.object.unevaluated = Some(value);
        }
        "anyOf" | "oneOf" => {
            let Some(schemas) = value.as_array() else { return };
            let branches = schemas.iter().map(|schema| vec![Term::of(schema)]).collect();
            shape.groups.push(Group { part: Some(index), made: 0, one: keyword == "oneOf", at, branches });
        }
        "if" => {
            if at.get("then").or(at.get("else")).is_some() {
                shape.conditions.push(at);
            }
        }
        _ => shape.rest.extend(REST.iter().find(|known| **known == keyword).map(|keyword| (*keyword, at))),
    }
}

fn list<'a>(values: &mut Option<Vec<&'a Value>>, listed: Vec<&'a Value>) {
    match values {
        Some(values) => values.retain(|value| listed.iter().any(|other| same(value, other))),
        None => {
            let mut distinct: Vec<&Value> = Vec::with_capacity(listed.len());
            // Duplicates are removed only from short lists; in a long list the search costs more than it helps.
            for value in listed {
                if distinct.len() > 200 || !distinct.iter().any(|other| same(value, other)) {
                    distinct.push(value);
                }
            }
            *values = Some(distinct);
        }
    }
}

fn larger(bound: &mut Option<u64>, value: &Value) {
    *bound = (*bound).max(count(value));
}

fn smaller(bound: &mut Option<u64>, value: &Value) {
    *bound = [*bound, count(value)].into_iter().flatten().min();
}

fn bound<'a>(numbers: &mut Numbers<'a>, part: Part<'a>, keyword: &str, value: &'a Value) {
    let Value::Number(value) = value else { return };
    let lower = keyword.ends_with("inimum");
    // Up to draft 4, a boolean next to the bound makes it exclusive.
    let beside = part.schema.get(if lower { "exclusiveMinimum" } else { "exclusiveMaximum" });
    let exclusive = keyword.starts_with("exclusive") || beside == Some(&Value::Bool(true));
    let new = Bound { value, exclusive, at: part.schema };
    let old = if lower { &mut numbers.min } else { &mut numbers.max };
    let tighter = old.is_none_or(|old| match compare(value, old.value) {
        Ordering::Greater => lower,
        Ordering::Less => !lower,
        Ordering::Equal => exclusive,
    });
    if tighter {
        *old = Some(new);
    }
}

fn map<'a>(part: &Part<'a>, keyword: &str) -> Option<&'a Map<String, Value>> {
    part.schema.get(keyword).filter(|_| part.counts(keyword))?.as_object()
}

/// Merges the members; `additionalProperties` applies to members that the same subschema does not declare.
fn objects<'a>(document: &Document<'a>, shape: &mut Shape<'a>) {
    let speaks = |part: &&Part| {
        ["properties", "patternProperties", "additionalProperties"]
            .iter()
            .any(|keyword| part.counts(keyword) && part.schema.get(keyword).is_some())
    };
    let parts: Vec<Part> = shape.parts.iter().filter(speaks).copied().collect();
    let others = |part: &Part<'a>| {
        let schema = part.schema.get("additionalProperties").filter(|_| part.counts("additionalProperties"))?;
        Some(Term::of(schema))
    };
    let object = &mut shape.object;
    for part in &parts {
        let named = map(part, "properties").into_iter().flatten();
        for (name, _) in named {
            if parts.len() > 1 && object.declared(name).is_some() {
                continue;
            }
            let conj = parts.iter().flat_map(|part| of_member(document, part, name, others(part))).collect();
            object.properties.push((name, conj));
        }
        for (pattern, schema) in map(part, "patternProperties").into_iter().flatten() {
            let own = Term::of(schema);
            let elsewhere = parts.iter().filter(|other| !std::ptr::eq(other.schema, part.schema)).filter_map(others);
            object.patterns.push((pattern, std::iter::once(own).chain(elsewhere).collect()));
        }
        if let Some(term) = others(part) {
            object.others_at = object.others_at.or(Some(part.schema));
            if !matches!(&term, Term::Part(part) if *part.schema == Value::Bool(true)) {
                object.others.push(term);
            }
        }
    }
}

/// Returns the constraints of one subschema on a member.
fn of_member<'a>(document: &Document<'a>, part: &Part<'a>, name: &'a str, others: Option<Term<'a>>) -> Conjunction<'a> {
    let mut conj = Conjunction::new();
    if let Some(schema) = map(part, "properties").and_then(|properties| properties.get(name)) {
        conj.push(Term::of(schema));
    }
    for (pattern, schema) in map(part, "patternProperties").into_iter().flatten() {
        if document.matches(pattern, name) {
            conj.push(Term::of(schema));
        }
    }
    if conj.is_empty() {
        conj.extend(others);
    }
    conj
}

/// Merges the items: `prefixItems` and `items`, or up to 2019-09 an array of `items` and `additionalItems`.
fn arrays<'a>(document: &Document<'a>, shape: &mut Shape<'a>) {
    let mut read: Vec<(&'a [Value], Option<&'a Value>)> = Vec::new();
    for part in &shape.parts {
        let get = |keyword: &'static str| part.schema.get(keyword).filter(|_| part.counts(keyword));
        // Older drafts ignore the keyword.
        let prefix = get("prefixItems").filter(|_| document.draft >= Draft::Draft202012);
        match (get("items"), prefix) {
            (Some(Value::Array(schemas)), _) => read.push((schemas, get("additionalItems"))),
            (items, Some(Value::Array(schemas))) => read.push((schemas, items)),
            (items @ Some(_), _) => read.push((&[], items)),
            (None, _) => {}
        }
    }
    let longest = read.iter().map(|(prefix, _)| prefix.len()).max().unwrap_or(0);
    let array: &mut Arrays = &mut shape.array;
    for index in 0..longest {
        let items_at_index = read.iter().filter_map(|(prefix, after)| prefix.get(index).or(*after));
        array.prefix.push(items_at_index.map(Term::of).collect());
    }
    array.items_given = read.iter().any(|(_, after)| after.is_some());
    let after = read.into_iter().filter_map(|(_, after)| after).filter(|schema| **schema != Value::Bool(true));
    array.items = after.map(Term::of).collect();
}
