//! Parses an OpenAPI document in JSON or YAML, within bounds.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{ImportError, ImportPlan, Options, Warning};
use crate::domain::json::{self, Bound, ReplacedBound, SCHEMA_MAPS};
use crate::schema::DOCUMENT_MAPS;

/// Maximum number of warnings about the numbers of a document.
const MAX_WARNINGS: usize = 100;

/// A parsed document, with warnings about replaced values.
#[derive(Debug)]
pub struct Document {
    /// The content of the document.
    pub value: Value,
    /// The differences from the text.
    pub warnings: Vec<String>,
}

impl Document {
    /// Converts the document to tools, as [`super::openapi`] does; the warnings of the document come first.
    ///
    /// # Errors
    /// Returns the errors of [`super::openapi`].
    pub fn import(&self, options: &Options) -> Result<ImportPlan, ImportError> {
        let mut imported = super::openapi(&self.value, options)?;
        let own = self.warnings.iter().map(|message| Warning { operation: None, message: message.clone() });
        imported.warnings = own.chain(std::mem::take(&mut imported.warnings)).collect();
        Ok(imported)
    }
}

/// The maximum size of a document.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum length of the text, in bytes.
    pub bytes: usize,
    /// Maximum number of values, after the expansion of YAML aliases.
    pub nodes: usize,
}

/// Maximum length of a document in bytes; the largest public APIs fit.
const MAX_BYTES: usize = 32 * 1024 * 1024;

impl Bounds {
    /// The bounds for documents from the network.
    pub const SENT: Self = Self { bytes: MAX_BYTES, nodes: 2_000_000 };
    /// The bounds for local files.
    pub const OWN: Self = Self { bytes: MAX_BYTES, nodes: 4_000_000 };
}

/// Characters that may begin or end a value in YAML. Their number bounds the number of values, and the YAML library
/// creates an event for each before values can be counted.
const MARKS: &[u8] = b",[]{}\n-?:&*!";

/// Maximum ratio of such characters to values; above that of ordinary documents.
const MARKS_PER_NODE: usize = 2;

/// Parses a document.
///
/// # Errors
/// Returns an [`ImportError`] if the document is neither JSON nor YAML, or exceeds the bounds.
pub fn parse(bytes: &[u8], bounds: Bounds) -> Result<Value, ImportError> {
    read(bytes, bounds).map(|document| document.value)
}

/// Parses a document, and lists the numeric bounds of its schemas that were replaced because they exceed 64 bits.
///
/// # Errors
/// Returns the errors of [`parse`].
pub fn read(bytes: &[u8], bounds: Bounds) -> Result<Document, ImportError> {
    if bytes.len() > bounds.bytes {
        let message = format!("the document has {} bytes, the maximum is {}", bytes.len(), bounds.bytes);
        return Err(ImportError::new("", message));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // YAML may also begin with a brace, but rarely with a quote after it.
    let inner = text.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    if inner.is_some_and(|inner| inner.starts_with(b"\"") || inner.starts_with(b"}")) {
        return parse_json(text, |_| 0)
            .map_err(|error| ImportError::new("", format!("the document is not valid JSON: {error}")));
    }
    yaml(text, bounds)
}

/// Parses JSON that is or contains a document; `within` returns the number of tokens of a path that lead to the
/// document.
///
/// # Errors
/// Returns the errors of [`json::parse`].
pub fn parse_json(bytes: &[u8], within: impl Fn(&[String]) -> usize) -> Result<Document, json::JsonError> {
    let (value, replaced) =
        json::parse_with_schemas(bytes, |path| json::is_within_schema(&path[within(path)..], is_map))?;
    let warnings = replaced.iter().map(ToString::to_string).take(MAX_WARNINGS).collect();
    Ok(Document { value, warnings })
}

/// Returns `true` if the member of this name maps free names to values.
fn is_map(key: &str) -> bool {
    SCHEMA_MAPS.contains(&key) || DOCUMENT_MAPS.contains(&key)
}

fn yaml(text: &[u8], bounds: Bounds) -> Result<Document, ImportError> {
    let too_much = || ImportError::new("", format!("the document has more than {} values", bounds.nodes));
    let marks = text.iter().filter(|byte| MARKS.contains(byte)).count();
    if marks > bounds.nodes.saturating_mul(MARKS_PER_NODE) {
        return Err(too_much());
    }
    let reading = Reading {
        left: Cell::new(ReadBudget { nodes: bounds.nodes, bytes: bounds.bytes }),
        replaced: RefCell::default(),
    };
    let root = Node { reading: &reading, role: MemberRole::Schema, bound: None };
    let read = root.deserialize(yaml_serde::Deserializer::from_slice(text));
    let left = &reading.left;
    let value = read.map_err(|error| match left.get() {
        ReadBudget { nodes: 0, .. } => too_much(),
        ReadBudget { bytes: 0, .. } => {
            let message = format!("with its aliases expanded, the document has more than {} bytes", bounds.bytes);
            ImportError::new("", message)
        }
        _ => {
            ImportError::new("", format!("the document is not valid YAML: {}", json::shorten(&error.to_string(), 300)))
        }
    })?;
    // A set, because the value of an alias is read once for each use.
    let warnings: BTreeSet<String> = reading.replaced.take().iter().map(ToString::to_string).collect();
    Ok(Document { value, warnings: warnings.into_iter().take(MAX_WARNINGS).collect() })
}

/// The shared state while a document is parsed.
struct Reading {
    left: Cell<ReadBudget>,
    replaced: RefCell<Vec<ReplacedBound>>,
}

/// The meaning of the members of a mapping.
#[derive(Clone, Copy, PartialEq)]
enum MemberRole {
    /// Keywords of a schema, or members of a document object.
    Schema,
    /// Free names.
    Map,
    /// Data without keywords.
    Data,
}

/// The remaining bounds. Each use of an alias (`*x`) costs as much as its value.
#[derive(Clone, Copy)]
struct ReadBudget {
    nodes: usize,
    bytes: usize,
}

/// Deserializes one value.
#[derive(Clone, Copy)]
struct Node<'r> {
    reading: &'r Reading,
    role: MemberRole,
    /// The keyword of the value, if it is a numeric bound.
    bound: Option<Bound>,
}

impl Node<'_> {
    /// Returns the deserializer for the value of a member.
    fn below(self, key: &str) -> Self {
        let is_map = self.role == MemberRole::Schema && is_map(key);
        let role = match (self.role, key) {
            (MemberRole::Data, _) | (MemberRole::Schema, "const" | "enum" | "default" | "example" | "examples") => {
                MemberRole::Data
            }
            (MemberRole::Schema, _) if is_map => MemberRole::Map,
            (MemberRole::Schema | MemberRole::Map, _) => MemberRole::Schema,
        };
        let bound = if self.role == MemberRole::Schema { Bound::of(key) } else { None };
        Self { role, bound, ..self }
    }

    /// Replaces an integer beyond 64 bits, if it is the value of a numeric bound; otherwise fails.
    fn long<E: Error>(self, integer: &str) -> Result<Value, E> {
        let beyond = || E::custom(format!("the integer {integer} is beyond 64 bits"));
        let bound = self.bound.ok_or_else(beyond)?;
        let taken = bound.nearest(integer).ok_or_else(beyond)?;
        self.reading.replaced.borrow_mut().push(bound.replaced(integer, &taken));
        self.number(taken)
    }

    fn charge<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.reading.left.get();
        let (nodes, bytes) = (left.nodes.saturating_sub(1), left.bytes.saturating_sub(bytes));
        self.reading.left.set(ReadBudget { nodes, bytes });
        if nodes == 0 || bytes == 0 { Err(E::custom("too much")) } else { Ok(()) }
    }

    fn text<E: Error>(self, text: &str) -> Result<Value, E> {
        self.charge(text.len())?;
        Ok(Value::String(text.to_owned()))
    }

    fn number<E: Error>(self, number: impl Into<Number>) -> Result<Value, E> {
        self.charge(0)?;
        Ok(Value::Number(number.into()))
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.charge(0)?;
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.charge(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.number(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.number(value)
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        self.long(&value.to_string())
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        self.long(&value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom(format!("{value} is not a JSON number")))?;
        self.number(number)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.text(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.charge(0)?;
        let mut array = Vec::new();
        // An element of an array is never a numeric bound itself; the elements of a list of schemas are schemas.
        let role = if self.role == MemberRole::Map { MemberRole::Schema } else { self.role };
        while let Some(item) = items.next_element_seed(Self { role, bound: None, ..self })? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        self.charge(0)?;
        let (mut object, mut merged, mut replaced) = (Map::new(), Vec::new(), Vec::new());
        while let Some(key) = members.next_key_seed(Self { bound: None, ..self })? {
            let key = key_of(key).map_err(A::Error::custom)?;
            // A merge key is not a name: its value contains members of this mapping.
            let below = if key == "<<" { Self { bound: None, ..self } } else { self.below(&key) };
            let known = self.reading.replaced.borrow().len();
            let value = members.next_value_seed(below)?;
            if below.bound.is_some() {
                replaced.extend(self.reading.replaced.borrow_mut().drain(known..));
            }
            match key {
                // YAML's merge key: the mapping's own members take precedence.
                key if key == "<<" && (value.is_object() || value.is_array()) => merged.push(value),
                key => drop(object.insert(key, value)),
            }
        }
        for value in merged {
            let all = if let Value::Array(all) = value { all } else { vec![value] };
            for (key, value) in
                all.into_iter().filter_map(|one| if let Value::Object(one) = one { Some(one) } else { None }).flatten()
            {
                object.entry(key).or_insert(value);
            }
        }
        for bound in replaced {
            let kept = bound
                .excluded_in(&object)
                .ok_or_else(|| A::Error::custom(format!("the integer {} is beyond 64 bits", bound.given)))?;
            object.insert(kept.keyword.to_owned(), kept.taken.clone().into());
            self.reading.replaced.borrow_mut().push(kept);
        }
        Ok(Value::Object(object))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Value, A::Error> {
        Err(A::Error::custom("tags (!name) are not supported in OpenAPI documents"))
    }
}

/// Converts a key to a string: status codes of responses are often written as numbers.
fn key_of(key: Value) -> Result<String, &'static str> {
    match key {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Null => Ok("null".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("a key must be a string"),
    }
}

#[cfg(test)]
mod tests;
