//! Restoring: converts arguments from the vendor's schema to the original schema.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use jsonschema::{Draft, Validator};
use serde_json::{Map, Value};

use crate::schema::backtracking;
use crate::schema::types::Types;

/// Converts arguments for the lowered schema to arguments for the original.
#[derive(Debug, Clone)]
pub struct Restorer {
    root: Restore,
    definitions: Arc<Definitions>,
}

/// The targets of references in the lowered schema.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    pub(super) schemas: Map<String, Value>,
    pub(super) backs: Vec<Restore>,
}

/// The conversion of one value.
#[derive(Debug, Clone)]
pub(super) enum Restore {
    Identity,
    /// An object: its declared members, and all other members.
    Object(Vec<Member>, Box<Restore>),
    /// An array: the items of a prefix, and the items after it.
    Array(Vec<Restore>, Box<Restore>),
    /// An object with one member per item, which becomes an array.
    Tuple(Vec<(String, Restore)>),
    /// An array of `{"key", "value"}`, which becomes an object.
    Entries(Box<Restore>),
    /// An object whose named member is an array of entries, which become members of the object itself.
    FromPairs(String, Box<Restore>),
    /// Strings that represent other values.
    Values(Arc<[(String, Value)]>),
    /// The conversion of the branch that accepts the value.
    Any(Arc<[Branch]>),
    /// All conversions in sequence.
    All(Vec<Restore>),
    Definition(usize),
}

/// The conversion of one member of an object.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// The name in the lowered schema.
    pub(super) name: String,
    /// The name in the original, if it differs.
    pub(super) original: Option<String>,
    /// Whether `null` represents an omitted member.
    pub(super) null_is_absent: bool,
    pub(super) back: Restore,
}

/// One of several alternatives.
#[derive(Debug)]
pub(super) struct Branch {
    /// The alternative as plain JSON Schema.
    pub(super) schema: Value,
    pub(super) back: Restore,
    /// The compiled schema; compiled on first use.
    pub(super) validator: OnceLock<Option<Validator>>,
}

/// Maximum number of visited values of one call; arguments are at most 4 MiB.
const STEPS: usize = 4_000_000;
/// Maximum depth; deeper than any JSON that the parser accepts.
const DEPTH: usize = 256;

impl Restorer {
    pub(super) fn new(root: Restore, definitions: Definitions) -> Self {
        let active = root.is_active() || definitions.backs.iter().any(Restore::is_active);
        Self { root: if active { root } else { Restore::Identity }, definitions: Arc::new(definitions) }
    }

    /// Returns `true` if no arguments need a conversion.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        matches!(self.root, Restore::Identity)
    }

    /// Converts arguments; `None` if nothing changes. Accepts any JSON, even if the lowered schema rejects it, and
    /// leaves unknown parts unchanged.
    #[must_use]
    pub fn apply(&self, arguments: &Value) -> Option<Value> {
        let walk = Walk { definitions: &self.definitions, steps: Cell::new(STEPS) };
        walk.value(&self.root, arguments, 0)
    }
}

impl Restore {
    /// Returns `true` if the conversion can change a value, not counting references.
    pub(super) fn is_active(&self) -> bool {
        match self {
            Self::Identity | Self::Definition(_) => false,
            Self::Object(members, others) => others.is_active() || members.iter().any(Member::is_active),
            Self::Array(prefix, rest) => rest.is_active() || prefix.iter().any(Self::is_active),
            Self::Tuple(_) | Self::Entries(_) | Self::FromPairs(..) | Self::Values(_) => true,
            Self::Any(branches) => branches.iter().any(|branch| branch.back.is_active()),
            Self::All(all) => all.iter().any(Self::is_active),
        }
    }

    /// Returns `true` if the conversion never changes a value, including references.
    pub(super) fn is_same(&self) -> bool {
        matches!(self, Self::Identity)
    }

    /// Creates the conversion of an object; drops members that are converted like undeclared ones.
    pub(super) fn object(mut members: Vec<Member>, others: Self) -> Self {
        if others.is_same() {
            members.retain(|member| member.original.is_some() || member.null_is_absent || !member.back.is_same());
        }
        if members.is_empty() && others.is_same() { Self::Identity } else { Self::Object(members, Box::new(others)) }
    }

    pub(super) fn array(prefix: Vec<Self>, rest: Self) -> Self {
        let is_same = rest.is_same() && prefix.iter().all(Self::is_same);
        if is_same { Self::Identity } else { Self::Array(prefix, Box::new(rest)) }
    }

    pub(super) fn all(mut all: Vec<Self>) -> Self {
        all.retain(|back| !back.is_same());
        match (all.pop(), all.is_empty()) {
            (None, _) => Self::Identity,
            (Some(only), true) => only,
            (Some(last), false) => {
                all.push(last);
                Self::All(all)
            }
        }
    }
}

impl Member {
    /// Creates a member that is never omitted.
    pub(super) fn new(original: &str, name: &str, back: Restore) -> Self {
        let original = (original != name).then(|| original.to_owned());
        Self { name: name.to_owned(), original, null_is_absent: false, back }
    }

    fn is_active(&self) -> bool {
        self.original.is_some() || self.null_is_absent || self.back.is_active()
    }
}

struct Walk<'a> {
    definitions: &'a Definitions,
    steps: Cell<usize>,
}

impl Walk<'_> {
    /// Converts a value; `None` if it does not change.
    fn value(&self, back: &Restore, value: &Value, depth: usize) -> Option<Value> {
        if back.is_same() || depth > DEPTH {
            return None;
        }
        self.steps.set(self.steps.get().checked_sub(1)?);
        match (back, value) {
            (Restore::Object(members, others), Value::Object(object)) => self.object(members, others, object, depth),
            // The model may use the original's shape: then only the members are converted.
            (Restore::Entries(inner), Value::Object(object)) => self.object(&[], inner, object, depth),
            (Restore::Entries(inner), Value::Array(items)) => self.entries(inner, items, depth).map(Value::Object),
            (Restore::FromPairs(name, inner), Value::Object(object)) => self.spread(name, inner, object, depth),
            (Restore::Array(prefix, rest), Value::Array(items)) => {
                self.array(items, depth, |index| prefix.get(index).unwrap_or(rest))
            }
            (Restore::Tuple(items_in_order), Value::Array(items)) => {
                self.array(items, depth, |index| items_in_order.get(index).map_or(&Restore::Identity, |(_, back)| back))
            }
            (Restore::Tuple(items_in_order), Value::Object(object)) => self.tuple(items_in_order, object, depth),
            (Restore::Values(values), Value::String(text)) => {
                values.iter().find(|(name, _)| name == text).map(|(_, value)| value.clone())
            }
            (Restore::Any(branches), value) => self.value(self.branch(branches, value)?, value, depth + 1),
            (Restore::All(all), value) => {
                let mut new: Option<Value> = None;
                for back in all {
                    new = self.value(back, new.as_ref().unwrap_or(value), depth + 1).or(new);
                }
                new
            }
            (Restore::Definition(index), value) => self.value(self.definitions.backs.get(*index)?, value, depth + 1),
            _ => None,
        }
    }

    fn object(&self, members: &[Member], others: &Restore, object: &Map<String, Value>, depth: usize) -> Option<Value> {
        let (mut new, mut changed) = (Map::with_capacity(object.len()), false);
        for (name, value) in object {
            // The search is short, because both lists are in the same order.
            let member = members.iter().find(|member| member.name == *name);
            // The model may use the original name.
            let member = member.or_else(|| members.iter().find(|member| member.original.as_ref() == Some(name)));
            if value.is_null() && member.is_some_and(|member| member.null_is_absent) {
                changed = true;
                continue;
            }
            let below = self.value(member.map_or(others, |member| &member.back), value, depth + 1);
            let original = member.and_then(|member| member.original.as_ref()).unwrap_or(name);
            changed |= below.is_some() || original != name;
            new.insert(original.clone(), below.unwrap_or_else(|| value.clone()));
        }
        changed.then_some(Value::Object(new))
    }

    fn array<'b>(&self, items: &[Value], depth: usize, back: impl Fn(usize) -> &'b Restore) -> Option<Value> {
        let mut new: Option<Vec<Value>> = None;
        for (index, item) in items.iter().enumerate() {
            if let Some(better) = self.value(back(index), item, depth + 1) {
                new.get_or_insert_with(|| items.to_vec())[index] = better;
            }
        }
        new.map(Value::Array)
    }

    /// Converts entries to an object; `None` if any item is not an entry.
    fn entries(&self, inner: &Restore, items: &[Value], depth: usize) -> Option<Map<String, Value>> {
        let mut object = Map::with_capacity(items.len());
        for item in items {
            let entry = item.as_object().filter(|entry| entry.len() == 2)?;
            let (key, value) = (entry.get("key")?.as_str()?, entry.get("value")?);
            let value = self.value(inner, value, depth + 1).unwrap_or_else(|| value.clone());
            object.insert(key.to_owned(), value);
        }
        Some(object)
    }

    fn spread(&self, name: &str, inner: &Restore, object: &Map<String, Value>, depth: usize) -> Option<Value> {
        let items = object.get(name)?.as_array()?;
        let mut new = object.clone();
        new.shift_remove(name);
        for (key, value) in self.entries(inner, items, depth)? {
            new.insert(key, value);
        }
        Some(Value::Object(new))
    }

    fn tuple(&self, items_in_order: &[(String, Restore)], object: &Map<String, Value>, depth: usize) -> Option<Value> {
        if object.len() > items_in_order.len() {
            return None;
        }
        let given = items_in_order.iter().take(object.len());
        let items = given.map(|(name, back)| {
            let value = object.get(name)?;
            Some(self.value(back, value, depth + 1).unwrap_or_else(|| value.clone()))
        });
        items.collect::<Option<Vec<Value>>>().map(Value::Array)
    }

    /// Returns the branch that accepts the value, or else the most similar branch.
    fn branch<'b>(&self, branches: &'b [Branch], value: &Value) -> Option<&'b Restore> {
        let taken = branches.iter().find(|branch| self.takes(branch, value));
        let like = || {
            let scores =
                branches.iter().enumerate().map(|(index, branch)| (self.likeness(&branch.schema, value), index));
            // Of equal scores, the first branch counts.
            let best = scores.max_by_key(|(score, index)| (*score, std::cmp::Reverse(*index)))?;
            (best.0 > 0).then(|| &branches[best.1])
        };
        taken.or_else(like).map(|branch| &branch.back)
    }

    fn takes(&self, branch: &Branch, value: &Value) -> bool {
        let validator = branch.validator.get_or_init(|| {
            let mut schema = branch.schema.clone();
            if let (Value::Object(schema), false) = (&mut schema, self.definitions.schemas.is_empty()) {
                schema.insert("$defs".to_owned(), Value::Object(self.definitions.schemas.clone()));
            }
            super::super::part_validator(Draft::Draft202012, &schema)
        });
        validator.as_ref().is_some_and(|validator| backtracking::bounded(true, || validator.is_valid(value)))
    }

    /// Scores the similarity of a value to a schema; 0 means that they do not match at all.
    fn likeness(&self, schema: &Value, value: &Value) -> usize {
        let referred = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/"));
        let schema = referred.and_then(|name| self.definitions.schemas.get(name)).unwrap_or(schema);
        if !Types::read(schema.get("type").unwrap_or(&Value::Null)).meets(Types::of(value)) {
            return 0;
        }
        let (Value::Object(object), Some(Value::Object(properties))) = (value, schema.get("properties")) else {
            return 1;
        };
        let mut score = 1;
        for (name, property) in properties {
            let Some(member) = object.get(name) else { continue };
            let listed = property.get("enum").and_then(Value::as_array);
            if listed.is_some_and(|listed| !listed.contains(member)) {
                return 0;
            }
            score += 1 + usize::from(listed.is_some());
        }
        score
    }
}
