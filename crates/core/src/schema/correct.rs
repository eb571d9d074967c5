//! Corrections of schemas that are not valid but have one plain meaning, as other servers and generators write them. A
//! valid schema is never changed.

use jsonschema::Draft;
use serde_json::{Map, Value, json};

use super::references::SCHEMAS;
use super::{Role, SchemaError, check, display, drafts};
use crate::domain::json::{SCHEMA_MAPS, pointer_token};

mod keywords;
mod shape;

/// Maximum number of patterns that are removed from one schema.
const MAX_PATTERNS: usize = 100;
/// Maximum number of notes about one schema.
const MAX_NOTES: usize = 20;
/// Maximum nesting of corrected schemas. A deeper schema is refused in any case.
const MAX_DEPTH: usize = 64;

/// A schema that compiles, and what was corrected in it.
#[derive(Debug, Clone, PartialEq)]
pub struct CorrectedSchema {
    /// The schema.
    pub schema: Value,
    /// What was corrected, each with its location; empty if the schema was valid.
    pub notes: Vec<String>,
}

/// Corrects a schema as far as its meaning is plain, and removes patterns that cannot be compiled.
///
/// # Errors
/// Returns the [`SchemaError`] that remains.
pub fn correct(schema: &Value, role: Role) -> Result<CorrectedSchema, SchemaError> {
    if check(schema, role).is_ok() {
        return Ok(CorrectedSchema { schema: schema.clone(), notes: Vec::new() });
    }
    let mut notes = Notes::default();
    let mut schema = schema.clone();
    if role == Role::Input {
        shape::root(&mut schema, &mut notes);
    }
    // Older drafts have forms of their own, which are valid there.
    let draft = drafts::declared("", &schema).ok().flatten();
    let (is_draft_4, has_draft) = (draft == Some(Draft::Draft4), draft.is_some_and(|draft| draft < Draft::Draft202012));
    Corrector { notes: &mut notes, is_draft_4, has_draft, path: String::new(), depth: 0 }.schema(&mut schema);
    for _ in 0..=MAX_PATTERNS {
        let error = match check(&schema, role) {
            Ok(()) => return Ok(CorrectedSchema { schema, notes: notes.finish() }),
            Err(error) => error,
        };
        let parent = error.pointer.strip_suffix("/pattern").and_then(|parent| schema.pointer_mut(parent));
        if parent.and_then(Value::as_object_mut).and_then(|schema| schema.shift_remove("pattern")).is_none() {
            return Err(error);
        }
        notes.add(&error.pointer, format_args!("left out, so only the tool checks it: {}", error.message));
    }
    check(&schema, role).map(|()| CorrectedSchema { schema, notes: notes.finish() })
}

/// Notes of corrections.
#[derive(Default)]
struct Notes {
    notes: Vec<String>,
    further: usize,
}

impl Notes {
    fn add(&mut self, pointer: &str, what: impl std::fmt::Display) {
        if self.notes.len() == MAX_NOTES {
            self.further += 1;
            return;
        }
        let location = if pointer.is_empty() { "the root" } else { pointer };
        self.notes.push(crate::domain::json::shorten(&format!("{location}: {what}"), 300));
    }

    fn finish(mut self) -> Vec<String> {
        if self.further > 0 {
            self.notes.push(format!("and {} more", self.further));
        }
        self.notes
    }
}

/// Corrects a schema and its subschemas in place.
struct Corrector<'a> {
    notes: &'a mut Notes,
    is_draft_4: bool,
    /// Whether the root declares a draft.
    has_draft: bool,
    /// The location of the current schema.
    path: String,
    depth: usize,
}

impl Corrector<'_> {
    /// Corrects a schema. What is no schema at all but names a type becomes one.
    fn schema(&mut self, schema: &mut Value) {
        match schema {
            Value::Null => {
                *schema = json!({});
                self.note("", "null is written {}");
            }
            Value::String(name) if keywords::type_named(name).is_some() => {
                self.note("", format_args!("{} is written as its \"type\"", display::text(name)));
                *schema = json!({ "type": name });
            }
            _ => {}
        }
        if self.depth >= MAX_DEPTH {
            return;
        }
        let Some(members) = schema.as_object_mut() else { return };
        self.remove_nulls(members);
        self.keywords(members);
        self.subschemas(members);
    }

    /// Removes keywords whose value is `null` where that has no meaning.
    fn remove_nulls(&mut self, members: &mut Map<String, Value>) {
        let nulls = members.iter().filter(|(name, value)| value.is_null() && keywords::is_never_null(name));
        for name in nulls.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            members.shift_remove(&name);
            self.note(&name, "null is left out");
        }
    }

    fn subschemas(&mut self, members: &mut Map<String, Value>) {
        for name in SCHEMA_MAPS {
            if let Some(Value::Object(schemas)) = members.get_mut(name) {
                for (key, schema) in schemas {
                    self.below(&[name, key], schema);
                }
            }
        }
        for name in SCHEMAS {
            match members.get_mut(name) {
                Some(Value::Array(schemas)) => {
                    for (index, schema) in schemas.iter_mut().enumerate() {
                        self.below(&[name, &index.to_string()], schema);
                    }
                }
                Some(schema) => self.below(&[name], schema),
                None => {}
            }
        }
    }

    fn below(&mut self, tokens: &[&str], schema: &mut Value) {
        let length = self.path.len();
        for token in tokens {
            self.path.push('/');
            self.path.push_str(&pointer_token(token));
        }
        self.depth += 1;
        self.schema(schema);
        self.depth -= 1;
        self.path.truncate(length);
    }

    /// Adds a note about a keyword of the current schema, or about the schema itself if `keyword` is empty.
    fn note(&mut self, keyword: &str, what: impl std::fmt::Display) {
        let pointer =
            if keyword.is_empty() { self.path.clone() } else { format!("{}/{}", self.path, pointer_token(keyword)) };
        self.notes.add(&pointer, what);
    }
}
