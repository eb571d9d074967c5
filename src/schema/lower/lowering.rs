//! One lowering while it is going on: its bounds, its losses, and the definitions that lead back into themselves.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::conjunction::{FlatConjunction, Key, Part, Term, flatten};
use super::document::{Document, Location};
use super::names::Aliases;
use super::restore::{Definitions, Restorer};
use super::shape::Shape;
use super::{Loss, Lowered, Restore, Target, Unlowerable, limits};
use crate::domain::json;

/// Subschemas written out.
const MAX_NODES: usize = 10_000;
/// Bytes of descriptions and enums, roughly.
const MAX_BYTES: usize = 1 << 20;
/// Subschemas within one another; arguments are at most 128 levels deep, and each level costs stack.
const MAX_DEPTH: usize = 64;
/// Losses that are listed.
const MAX_LOSSES: usize = 1_000;

/// How often a schema may stand within itself where references are not taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unrolled {
    pub(super) times: usize,
    /// Subschemas that may be written out so.
    pub(super) nodes: usize,
}

/// In the order in which they are tried: nobody is served by a tree of thousands.
pub(super) const UNROLLED: [Unrolled; 4] = [
    Unrolled { times: 3, nodes: 60 },
    Unrolled { times: 2, nodes: 150 },
    Unrolled { times: 1, nodes: 600 },
    Unrolled { times: 0, nodes: MAX_NODES },
];

/// Why lowering ends early.
pub(super) enum LowerError {
    /// Perhaps not if what stands within itself (is there anything?) ends earlier.
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
    /// The subschema in hand: where a subschema stands that is not written in the document.
    pub(super) here: Location,
    losses: Vec<Loss>,
    lost: HashSet<(String, String)>,
    nodes: usize,
    bytes: usize,
    depth: usize,
    unrolled: Unrolled,
    /// Whether something stands within itself.
    recursive: bool,
    /// Conjunctions that references led to and that are being lowered.
    open: Vec<Key>,
    known: HashMap<Key, usize>,
    definitions: Vec<Definition>,
}

struct Definition {
    name: String,
    /// Whether anything refers to it; only then it is one.
    used: bool,
    schema: Value,
    back: Restore,
}

/// What a conjunction turns out to be when it is entered.
pub(super) enum Visit<'a> {
    /// Lower it; with the definition that it may become.
    Shape(Box<Shape<'a>>, Option<usize>),
    /// It is being lowered already, or has become a definition.
    Known(Value, Restore),
    /// Recursion ends here.
    Truncated,
}

impl<'a, 'd> Lowering<'a, 'd> {
    pub(super) fn new(document: &'d Document<'a>, target: Target, unrolled: Unrolled) -> Self {
        Self {
            document,
            target,
            aliases: Aliases::of(document.root, target),
            here: Document::ROOT,
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

    pub(super) fn run(mut self) -> Step<Lowered> {
        let root = vec![Term::Part(Part::new(self.document.root, Document::ROOT))];
        let flat = flatten(self.document, &root);
        let mut shape = Shape::of(self.document, flat);
        self.fold_root(&mut shape)?;
        let (mut schema, back) = match self.target {
            Target::OpenAi | Target::Anthropic => self.light_root(shape)?,
            Target::OpenAiStrict | Target::Gemini => self.narrow_root(shape)?,
        };
        let mut definitions = Definitions::default();
        for definition in self.definitions {
            if definition.used {
                definitions.schemas.insert(definition.name.clone(), definition.schema);
            }
            definitions.backs.push((definition.name, definition.back));
        }
        if !definitions.schemas.is_empty() {
            schema.insert("$defs".to_owned(), Value::Object(definitions.schemas.clone()));
        }
        let schema = Value::Object(schema);
        if self.target == Target::OpenAiStrict {
            limits::strict(&schema).map_err(LowerError::Cannot)?;
        }
        Ok(Lowered { schema, losses: self.losses, restorer: Restorer::new(back, definitions) })
    }

    /// Tells the model, and whoever asks for losses, that a property has another name here.
    pub(super) fn rename(&mut self, at: Location, name: &str, alias: &str, schema: &mut Value) {
        if alias == name {
            return;
        }
        let told = format!("Its own name is `{}`.", json::shorten(name, 200));
        self.lose(at, "properties", format!("`{}` is called `{alias}`", json::shorten(name, 200)), false);
        // Alternatives stand alone: it is said in the first.
        let told_in = match schema.get("anyOf").is_some() {
            true => schema.pointer_mut("/anyOf/0"),
            false => Some(schema),
        };
        if let Some(Value::Object(keywords)) = told_in {
            let text = match keywords.get("description").and_then(Value::as_str) {
                Some(text) if !text.is_empty() => format!("{text} {told}"),
                _ => told,
            };
            keywords.insert("description".to_owned(), text.into());
        }
    }

    /// Names a loss, once per place and keyword.
    pub(super) fn lose(&mut self, at: Location, keyword: &str, message: impl Into<String>, widens: bool) {
        let pointer = self.document.pointer(at);
        if self.losses.len() < MAX_LOSSES && self.lost.insert((pointer.clone(), keyword.to_owned())) {
            self.losses.push(Loss { pointer, keyword: keyword.to_owned(), message: message.into(), widens });
        }
    }

    pub(super) fn cannot<T>(&self, at: Location, message: impl Into<String>) -> Step<T> {
        Err(LowerError::Cannot(Unlowerable { pointer: self.document.pointer(at), message: message.into() }))
    }

    /// Counts text that is written out.
    pub(super) fn spend(&mut self, bytes: usize) -> Step<()> {
        self.bytes += bytes;
        if self.bytes > MAX_BYTES { Err(LowerError::TooLarge { recursive: self.recursive }) } else { Ok(()) }
    }

    /// The shape of a conjunction, counted against the bounds. [`leave`](Self::leave) follows, or
    /// [`close`](Self::close) where it may become a definition.
    pub(super) fn enter(&mut self, conj: &[Term<'a>]) -> Step<Visit<'a>> {
        self.nodes += 1;
        self.depth += 1;
        let most = if self.recursive { self.unrolled.nodes } else { MAX_NODES };
        if self.nodes > most || self.depth > MAX_DEPTH {
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

    /// Leaves what references led to. Whether something refers back to it, so that it must be defined.
    pub(super) fn close(&mut self, index: usize) -> bool {
        self.depth -= 1;
        let key = self.open.pop();
        let used = self.definitions.get(index).is_some_and(|definition| definition.used);
        if !used {
            // Written out wherever it is referred to.
            self.known.remove(&key.unwrap_or_default());
        }
        used
    }

    /// Makes a definition, and the reference to it.
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

/// Members in the order in which they are given.
pub(super) fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
