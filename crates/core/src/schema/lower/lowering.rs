//! The state of one lowering: its bounds, its losses, and the definitions of recursive schemas.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::conjunction::{FlatConjunction, Key, Term, flatten};
use super::names::Aliases;
use super::restore::{Definitions, Restorer};
use super::shape::Shape;
use super::{Loss, LoweredSchema, Restore, Target, Unlowerable, limits};
use crate::domain::json;
use crate::schema::document::Document;

/// Maximum number of subschemas in the result.
const MAX_NODES: usize = 10_000;
/// Approximate maximum of bytes in descriptions and enums.
const MAX_BYTES: usize = 1 << 20;
/// Maximum nesting of subschemas; each level costs stack. Arguments are at most 128 levels deep.
const MAX_DEPTH: usize = 64;
/// Maximum number of recorded losses.
const MAX_LOSSES: usize = 1_000;

/// The unrolling of recursive schemas for a vendor that does not support references.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unrolling {
    pub(super) times: usize,
    /// Maximum number of subschemas in the result if the schema is recursive.
    pub(super) nodes: usize,
}

/// In the order of attempts: less depth allows more subschemas, because a huge tree helps no model.
pub(super) const UNROLLED: [Unrolling; 4] = [
    Unrolling { times: 3, nodes: 60 },
    Unrolling { times: 2, nodes: 150 },
    Unrolling { times: 1, nodes: 600 },
    Unrolling { times: 0, nodes: MAX_NODES },
];

/// The reason why a lowering stopped.
pub(super) enum LowerError {
    /// The result is too large; if `recursive` is `true`, less unrolling may help.
    TooLarge {
        recursive: bool,
    },
    Cannot(Unlowerable),
}

pub(super) type Step<T> = Result<T, LowerError>;

pub(super) struct Lowering<'a, 'd> {
    pub(super) document: &'d Document<'a>,
    pub(super) target: Target,
    pub(super) aliases: Aliases,
    /// The current subschema, which is reported for conjunctions without a subschema of their own.
    pub(super) here: &'a Value,
    losses: Vec<Loss>,
    lost: HashSet<(String, String)>,
    nodes: usize,
    bytes: usize,
    depth: usize,
    unrolled: Unrolling,
    /// Whether a subschema contains itself.
    recursive: bool,
    /// Conjunctions that are being lowered and were reached by reference.
    open: Vec<Key>,
    known: HashMap<Key, usize>,
    definitions: Vec<Definition>,
}

struct Definition {
    name: String,
    /// Whether anything refers to it; otherwise it is dropped.
    used: bool,
    schema: Value,
    back: Restore,
}

/// The result of entering a conjunction.
pub(super) enum Visit<'a> {
    /// A shape to lower, and the index of the definition that it may become.
    Shape(Box<Shape<'a>>, Option<usize>),
    /// A reference to a definition that is complete or being lowered.
    Known(Value, Restore),
    /// The end of unrolled recursion.
    Truncated,
}

impl<'a, 'd> Lowering<'a, 'd> {
    pub(super) fn new(document: &'d Document<'a>, target: Target, unrolled: Unrolling) -> Self {
        Self {
            document,
            target,
            aliases: Aliases::of(document.root, target),
            here: document.root,
            losses: Vec::new(),
            lost: HashSet::new(),
            nodes: 0,
            bytes: 0,
            depth: 0,
            unrolled,
            recursive: false,
            open: Vec::new(),
            known: HashMap::new(),
            definitions: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Step<LoweredSchema> {
        let root = vec![Term::of(self.document.root)];
        let flat = flatten(self.document, &root);
        let mut shape = Shape::of(self.document, flat);
        self.fold_root(&mut shape)?;
        let (mut schema, back) = match self.target {
            Target::OpenAi | Target::Anthropic => self.full_root(shape)?,
            Target::OpenAiStrict | Target::Gemini => self.subset_root(shape)?,
        };
        let mut definitions = Definitions::default();
        for definition in self.definitions {
            if definition.used {
                definitions.schemas.insert(definition.name, definition.schema);
            }
            definitions.backs.push(definition.back);
        }
        if !definitions.schemas.is_empty() {
            schema.insert("$defs".to_owned(), Value::Object(definitions.schemas.clone()));
        }
        let schema = Value::Object(schema);
        if self.target == Target::OpenAiStrict {
            limits::strict(&schema).map_err(LowerError::Cannot)?;
        }
        Ok(LoweredSchema { schema, losses: self.losses, restorer: Restorer::new(back, definitions) })
    }

    /// Records the alias of a property in its description and as a loss.
    pub(super) fn rename(&mut self, at: &'a Value, name: &str, alias: &str, schema: &mut Value) {
        if alias == name {
            return;
        }
        let original = format!("Original name: `{}`.", json::shorten(name, 200));
        self.lose(at, "properties", format!("`{}` is renamed to `{alias}`", json::shorten(name, 200)), false);
        // A schema with alternatives has no description: the first alternative gets it.
        let described = match schema.get("anyOf").is_some() {
            true => schema.pointer_mut("/anyOf/0"),
            false => Some(schema),
        };
        if let Some(Value::Object(keywords)) = described {
            let text = match keywords.get("description").and_then(Value::as_str) {
                Some(text) if !text.is_empty() => format!("{text} {original}"),
                _ => original,
            };
            keywords.insert("description".to_owned(), text.into());
        }
    }

    /// Records a loss, once per location and keyword.
    pub(super) fn lose(&mut self, at: &'a Value, keyword: &str, message: impl Into<String>, widens: bool) {
        let pointer = self.document.pointer(at);
        if self.losses.len() < MAX_LOSSES && self.lost.insert((pointer.clone(), keyword.to_owned())) {
            self.losses.push(Loss { pointer, keyword: keyword.to_owned(), message: message.into(), widens });
        }
    }

    pub(super) fn cannot<T>(&self, at: &'a Value, message: impl Into<String>) -> Step<T> {
        Err(LowerError::Cannot(Unlowerable { pointer: self.document.pointer(at), message: message.into() }))
    }

    /// Counts written text against the limit.
    pub(super) fn spend(&mut self, bytes: usize) -> Step<()> {
        self.bytes += bytes;
        if self.bytes > MAX_BYTES { Err(LowerError::TooLarge { recursive: self.recursive }) } else { Ok(()) }
    }

    /// Enters a conjunction, counts it against the bounds and returns its shape. The caller then calls
    /// [`leave`](Self::leave), or [`close`](Self::close) if the shape may become a definition.
    pub(super) fn enter(&mut self, conj: &[Term<'a>]) -> Step<Visit<'a>> {
        self.nodes += 1;
        self.depth += 1;
        let max_nodes = if self.recursive { self.unrolled.nodes } else { MAX_NODES };
        if self.nodes > max_nodes || self.depth > MAX_DEPTH {
            return Err(LowerError::TooLarge { recursive: self.recursive });
        }
        let flat: FlatConjunction = flatten(self.document, conj);
        let at = flat.at.unwrap_or(self.here);
        let mut definition = None;
        if let Some(name) = flat.via {
            let key = flat.key();
            if self.target == Target::Gemini {
                let around = self.open.iter().filter(|open| **open == key).count();
                self.recursive |= around > 0;
                if around > self.unrolled.times {
                    self.depth -= 1;
                    return Ok(Visit::Truncated);
                }
                self.open.push(key);
                definition = Some(usize::MAX);
            } else if let Some(index) = self.known.get(&key) {
                let index = *index;
                self.depth -= 1;
                if !self.definitions[index].used {
                    self.definitions[index].name = self.definition_name(name);
                    self.definitions[index].used = true;
                }
                return Ok(Visit::Known(self.reference(index), Restore::Definition(index)));
            } else {
                let index = self.definitions.len();
                let new = Definition { name: String::new(), used: false, schema: Value::Null, back: Restore::Identity };
                self.definitions.push(new);
                self.known.insert(key.clone(), index);
                self.open.push(key);
                definition = Some(index);
            }
        }
        let mut shape = Box::new(Shape::of(self.document, flat));
        shape.at = at;
        Ok(Visit::Shape(shape, definition))
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Leaves a conjunction that was reached by reference. Returns `true` if something refers to it and it needs a
    /// definition.
    pub(super) fn close(&mut self, index: usize) -> bool {
        self.depth -= 1;
        let key = self.open.pop();
        let used = self.definitions.get(index).is_some_and(|definition| definition.used);
        if !used {
            // It is expanded at each reference.
            self.known.remove(&key.unwrap_or_default());
        }
        used
    }

    /// Stores a definition and returns a reference to it.
    pub(super) fn define(&mut self, index: usize, schema: Value, back: Restore) -> (Value, Restore) {
        if let Some(definition) = self.definitions.get_mut(index) {
            (definition.schema, definition.back) = (schema, back);
        }
        (self.reference(index), Restore::Definition(index))
    }

    fn reference(&self, index: usize) -> Value {
        json!({ "$ref": format!("#/$defs/{}", self.definitions[index].name) })
    }

    fn definition_name(&self, token: &str) -> String {
        let plain: String =
            token.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').take(40).collect();
        let plain = if plain.is_empty() { "node".to_owned() } else { plain };
        let taken = |name: &str| self.definitions.iter().any(|definition| definition.name == name);
        let numbered = (2..).map(|number| format!("{plain}_{number}"));
        let name = std::iter::once(plain.clone()).chain(numbered).find(|name| !taken(name));
        name.unwrap_or(plain)
    }
}

/// Adds a keyword that has a value.
pub(super) fn put_some(schema: &mut Map<String, Value>, keyword: &str, value: Option<u64>) {
    schema.extend(value.map(|value| (keyword.to_owned(), value.into())));
}

/// Builds an object with its members in the given order.
pub(super) fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
