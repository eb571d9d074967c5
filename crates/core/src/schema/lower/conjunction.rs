//! Conjunctions of subschemas that apply to one value, with references resolved and `allOf` flattened.

use std::rc::Rc;

use jsonschema::Draft;
use serde_json::Value;

use crate::schema::document::Document;

/// Masks of a part: the hidden keywords.
pub(super) const NO_ANY: u8 = 1;
pub(super) const NO_ONE: u8 = 2;
/// Hides title, description, default and other annotations.
pub(super) const NO_NOTES: u8 = 4;
/// Hides `$ref` and `allOf`, which have been followed.
const FLAT: u8 = 8;
/// Hides everything except annotations.
const NO_ASSERTIONS: u8 = 16;

const NOTES: [&str; 7] = ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];
const FOLLOWED: [&str; 4] = ["$ref", "$dynamicRef", "$recursiveRef", "allOf"];

/// A subschema of the document, without its hidden keywords.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) schema: &'a Value,
    pub(super) mask: u8,
}

impl<'a> Part<'a> {
    pub(super) fn without(self, mask: u8) -> Self {
        Self { mask: self.mask | mask, ..self }
    }

    /// Returns `true` if a keyword is not hidden.
    pub(super) fn counts(&self, keyword: &str) -> bool {
        if NOTES.contains(&keyword) {
            return self.mask & NO_NOTES == 0;
        }
        let hidden = match keyword {
            "anyOf" => NO_ANY | NO_ASSERTIONS,
            "oneOf" => NO_ONE | NO_ASSERTIONS,
            _ if FOLLOWED.contains(&keyword) => FLAT,
            _ => NO_ASSERTIONS,
        };
        self.mask & hidden == 0
    }

    fn is_empty(&self) -> bool {
        let silent = ["$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$defs", "definitions"];
        let mut keywords = self.schema.as_object().into_iter().flat_map(|keywords| keywords.keys());
        !keywords.any(|keyword| !silent.contains(&keyword.as_str()) && self.counts(keyword))
    }
}

/// One term of a conjunction.
#[derive(Debug, Clone)]
pub(super) enum Term<'a> {
    Part(Part<'a>),
    /// At least one of these conjunctions.
    Any(Rc<[Conjunction<'a>]>),
}

impl<'a> Term<'a> {
    pub(super) fn of(schema: &'a Value) -> Self {
        Self::Part(Part { schema, mask: 0 })
    }
}

/// Terms that all apply to the same value. An empty conjunction allows any value.
pub(super) type Conjunction<'a> = Vec<Term<'a>>;

/// Returns the first subschema of a conjunction.
pub(super) fn first<'a>(conj: &[Term<'a>]) -> Option<&'a Value> {
    conj.iter().find_map(|term| match term {
        Term::Part(part) => Some(part.schema),
        Term::Any(_) => None,
    })
}

/// Returns `true` if no value satisfies the term.
pub(super) fn is_false(term: &Term) -> bool {
    matches!(term, Term::Part(part) if *part.schema == Value::Bool(false))
}

/// A conjunction without references and `allOf`.
pub(super) struct FlatConjunction<'a> {
    pub(super) parts: Vec<Part<'a>>,
    pub(super) any: Vec<Rc<[Conjunction<'a>]>>,
    /// Whether `false` is among the subschemas.
    pub(super) never: bool,
    /// The first subschema.
    pub(super) at: Option<&'a Value>,
    /// The last token of the last reference that was followed.
    pub(super) via: Option<&'a str>,
}

/// The identity of a conjunction: equal for conjunctions of the same subschemas.
pub(super) type Key = Vec<(usize, u8)>;

/// Follows references and flattens `allOf`. References without a target are skipped: `compile` has rejected them.
pub(super) fn flatten<'a>(document: &Document<'a>, conj: &[Term<'a>]) -> FlatConjunction<'a> {
    let parts = Vec::with_capacity(conj.len());
    let mut flat = FlatConjunction { parts, any: Vec::new(), never: false, at: first(conj), via: None };
    for term in conj {
        match term {
            Term::Part(part) => add(document, *part, &mut flat),
            Term::Any(branches) => flat.any.push(branches.clone()),
        }
    }
    flat.parts.retain(|part| !part.is_empty());
    flat
}

fn add<'a>(document: &Document<'a>, part: Part<'a>, flat: &mut FlatConjunction<'a>) {
    let keywords = match part.schema {
        Value::Object(keywords) => keywords,
        other => {
            flat.never |= *other == Value::Bool(false);
            return;
        }
    };
    if flat.parts.iter().any(|seen| std::ptr::eq(seen.schema, part.schema) && seen.mask & !FLAT == part.mask & !FLAT) {
        return;
    }
    let only_reference = document.draft <= Draft::Draft7 && keywords.get("$ref").is_some_and(Value::is_string);
    flat.parts.push(part.without(if only_reference { FLAT | NO_ASSERTIONS } else { FLAT }));
    if part.mask & FLAT != 0 {
        return;
    }
    for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
        let Some(reference) = keywords.get(keyword).and_then(Value::as_str) else { continue };
        if let Some(schema) = document.resolve(part.schema, reference) {
            flat.via = Some(reference.rsplit(['/', '#']).next().unwrap_or_default());
            add(document, Part { schema, mask: part.mask & NO_NOTES }, flat);
        }
    }
    if !only_reference {
        for schema in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            add(document, Part { schema, mask: part.mask & NO_NOTES }, flat);
        }
    }
}

impl FlatConjunction<'_> {
    pub(super) fn key(&self) -> Key {
        let mut key = Key::new();
        for part in &self.parts {
            key.push((std::ptr::from_ref(part.schema).addr(), part.mask));
        }
        for branches in &self.any {
            // The list is rebuilt at each visit, but from the same branches.
            key.push((0, 0));
            branches.iter().for_each(|branch| add_key(branch, &mut key));
        }
        key
    }
}

fn add_key(conj: &[Term], key: &mut Key) {
    key.push((0, 1));
    for term in conj {
        match term {
            Term::Part(part) => key.push((std::ptr::from_ref(part.schema).addr(), part.mask)),
            Term::Any(branches) => branches.iter().for_each(|branch| add_key(branch, key)),
        }
    }
}
