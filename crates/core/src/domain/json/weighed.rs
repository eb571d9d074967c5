//! Parsing with a count of the memory that the values use. Many small values use dozens of times the size of their
//! text.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{JsonError, check_depth_and_integers, may_hold_long_integer, parse_with};

/// A value and the approximate memory that it uses.
#[derive(Debug, PartialEq)]
pub struct WeighedValue {
    /// The value.
    pub value: Value,
    /// The heap memory of its parts, in bytes.
    pub weight: usize,
}

/// An error returned by [`parse_weighed`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeighedError {
    /// The text is not valid JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// `has_memory` rejected the memory of the values.
    #[error("not enough memory for the values")]
    TooHeavy,
}

/// The step in which memory is requested, in bytes. A value that uses less is parsed without a request.
pub const STEP: usize = 64 * 1024;

/// Memory of an array element.
const ELEMENT: usize = size_of::<Value>();
/// Memory of an object member: hash, name and value.
const MEMBER: usize = size_of::<usize>() + size_of::<String>() + size_of::<Value>();
/// Memory of the index of an object for each slot of a member.
const SLOT: usize = 10;
/// Memory of the smallest index.
const MIN_INDEX_BYTES: usize = 64;
/// Number of slots in the smallest index.
const MIN_SLOTS: usize = 3;

/// Parses a JSON document as [`super::parse`] does. Before the values use more memory than the next multiple of
/// [`STEP`], `has_memory` is called with the new total. If it returns `false`, parsing stops.
///
/// # Errors
/// Returns an error as [`super::parse`] does, or if `has_memory` returns `false`.
pub fn parse_weighed(bytes: &[u8], mut has_memory: impl FnMut(usize) -> bool) -> Result<WeighedValue, WeighedError> {
    let mut scale = Scale { weight: 0, covered: STEP, is_over: false, has_memory: &mut has_memory };
    let parsed = parse_with(bytes, &mut scale);
    let Scale { weight, is_over, .. } = scale;
    match parsed {
        Ok(value) => Ok(WeighedValue { value, weight }),
        Err(_) if is_over => Err(WeighedError::TooHeavy),
        Err(error) => Err(error.into()),
    }
}

/// A document of known structure, which is parsed without a value of the whole.
pub trait DeserializeWeighed: Sized {
    /// Deserializes the document. `scale` is the seed of the values in it.
    ///
    /// # Errors
    /// Returns an error if the document has another structure.
    fn deserialize_weighed<'de, D: Deserializer<'de>>(deserializer: D, scale: &mut Scale<'_>)
    -> Result<Self, D::Error>;
}

/// Parses a document of known structure, with the memory of its values in bytes. Returns `None` if the text has another
/// structure, is one that [`parse_weighed`] rejects, or is nested as deeply as is allowed.
pub fn parse_weighed_as<T: DeserializeWeighed>(
    bytes: &[u8],
    mut has_memory: impl FnMut(usize) -> bool,
) -> Option<(T, usize)> {
    if may_hold_long_integer(bytes) {
        check_depth_and_integers(bytes).ok()?;
    }
    let mut deserializer = serde_json::Deserializer::from_str(std::str::from_utf8(bytes).ok()?);
    let mut scale = Scale { weight: 0, covered: STEP, is_over: false, has_memory: &mut has_memory };
    let parsed = T::deserialize_weighed(&mut deserializer, &mut scale).ok()?;
    deserializer.end().ok()?;
    Some((parsed, scale.weight))
}

/// The memory counter of a parse, and the seed of its values.
pub struct Scale<'a> {
    weight: usize,
    covered: usize,
    is_over: bool,
    has_memory: &'a mut dyn FnMut(usize) -> bool,
}

impl Scale<'_> {
    /// Resets the counter for another parse of the same text.
    pub(super) fn reset(&mut self) {
        self.weight = 0;
    }

    fn add<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.weight += bytes;
        if self.weight <= self.covered { Ok(()) } else { self.request() }
    }

    #[cold]
    fn request<E: Error>(&mut self) -> Result<(), E> {
        let covered = self.weight.next_multiple_of(STEP);
        self.is_over = !(self.has_memory)(covered);
        if self.is_over {
            return Err(E::custom("too heavy"));
        }
        self.covered = covered;
        Ok(())
    }

    /// Returns `true` if the document is large enough to release unused capacity.
    fn is_large(&self) -> bool {
        self.weight > STEP
    }
}

impl<'de> DeserializeSeed<'de> for &mut Scale<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Scale<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.add(text_weight(value))?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(&mut *self)? {
            self.add(ELEMENT)?;
            items.push(item);
        }
        if self.is_large() {
            items.shrink_to_fit();
        }
        self.add((items.capacity() - items.len()) * ELEMENT)?;
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        // In large documents, small objects are allocated with their exact capacity.
        let mut few: Vec<(String, Value)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            self.add(text_weight(&name) + MEMBER + SLOT)?;
            let value = map.next_value_seed(&mut *self)?;
            let is_few = members.is_empty() && few.len() < MIN_SLOTS && self.is_large();
            if is_few {
                few.push((name, value));
                continue;
            }
            members.extend(few.drain(..));
            members.insert(name, value);
        }
        if !few.is_empty() {
            members = Map::with_capacity(few.len());
            members.extend(few);
            self.add(MIN_INDEX_BYTES)?;
        } else if !members.is_empty() {
            self.add(MIN_INDEX_BYTES + spare(members.len()) * (MEMBER + SLOT))?;
        }
        Ok(Value::Object(members))
    }
}

fn text_weight(text: &str) -> usize {
    text.len().next_multiple_of(16)
}

/// Returns the approximate number of unused slots in an object that has grown to this size.
fn spare(members: usize) -> usize {
    let capacity = if members <= MIN_SLOTS { MIN_SLOTS } else { (members * 8 / 7).next_power_of_two() / 8 * 7 };
    capacity.saturating_sub(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighed(text: &str) -> WeighedValue {
        parse_weighed(text.as_bytes(), |_| true).unwrap()
    }

    #[test]
    fn values_are_the_same_as_without_counting() {
        let long = format!("[{}0]", r#"{"a":[1,{}],"b":{"c":null,"c":2}},["x",[[]]],-1,1.5e3,"#.repeat(2000));
        for text in ["null", "{}", r#"{"a":1,"b":[true,"x\n"],"a":2}"#, "18446744073709551615", "-0.0", &long] {
            assert_eq!(weighed(text).value, super::super::parse(text.as_bytes()).unwrap(), "{text:.60}");
        }
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert_eq!(weighed(&deep).value, super::super::parse(deep.as_bytes()).unwrap());
        for text in ["", "{", "[1,]", "nul", "1e400", "123456789012345678901234567890", &format!("[{deep}]")] {
            let refused = parse_weighed(text.as_bytes(), |_| true).unwrap_err();
            assert_eq!(refused, WeighedError::Json(super::super::parse(text.as_bytes()).unwrap_err()), "{text:.60}");
        }
    }

    #[test]
    fn known_structure_is_parsed_with_the_same_checks() {
        struct Any(Value);
        impl DeserializeWeighed for Any {
            fn deserialize_weighed<'de, D: Deserializer<'de>>(
                deserializer: D,
                scale: &mut Scale<'_>,
            ) -> Result<Self, D::Error> {
                scale.deserialize(deserializer).map(Self)
            }
        }
        let parsed = |text: &str| parse_weighed_as::<Any>(text.as_bytes(), |_| true).map(|(Any(value), _)| value);
        let long = format!("[{}0]", "[],".repeat(100_000));
        for text in [r#"{"a":[1,-0.0,"x\n"]}"#, "18446744073709551615", &long] {
            assert_eq!(parsed(text), super::super::parse(text.as_bytes()).ok(), "{text:.60}");
        }
        let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
        for text in ["", "{}x", "1e400", "123456789012345678901234567890", &deep] {
            assert_eq!(parsed(text), None, "{text:.60}");
        }
        assert!(parse_weighed_as::<Any>(b"\"\xff\"", |_| true).is_none());
        assert!(parse_weighed_as::<Any>(long.as_bytes(), |_| false).is_none());
    }

    #[test]
    fn weight_counts_small_values_and_bytes_of_strings() {
        let text = weighed(&format!("\"{}\"", "x".repeat(1_000_000)));
        assert!((1_000_000..1_001_000).contains(&text.weight), "{}", text.weight);
        let small = weighed(&format!("[{}0]", "0,".repeat(99_999)));
        assert!((100_000 * ELEMENT..101_000 * ELEMENT).contains(&small.weight), "{}", small.weight);
        let objects = weighed(&format!("[{}0]", "{\"\":0},".repeat(10_000)));
        assert!(objects.weight >= 10_000 * (ELEMENT + MEMBER + MIN_INDEX_BYTES), "{}", objects.weight);
    }

    #[test]
    fn parsing_stops_when_the_memory_budget_is_exceeded() {
        let mut totals = Vec::new();
        let text = format!("[{}0]", "[],".repeat(100_000));
        let refused = parse_weighed(text.as_bytes(), |weight| {
            totals.push(weight);
            weight < 1_000_000
        });
        assert_eq!(refused, Err(WeighedError::TooHeavy));
        assert_eq!((totals[0], totals.last().unwrap() / STEP), (2 * STEP, 1_000_000_usize.div_ceil(STEP)));
        let mut is_called = false;
        let small = parse_weighed(br#"{"a":[1,2,3]}"#, |_| {
            is_called = true;
            false
        });
        assert!(small.is_ok() && !is_called);
    }
}
