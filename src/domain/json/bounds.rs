//! Numeric bounds in schemas beyond 64 bits. They are replaced by the nearest bound that validates the same values.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Number, Value};

use super::{BEYOND_64_BITS, JsonError, LONG_INTEGER, MAX_DEPTH, end_of_string, is_exact, pointer_token};

/// A keyword that bounds a number or a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    keyword: &'static str,
    kind: BoundKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundKind {
    /// A lower bound, which includes the number itself unless it is exclusive.
    Lower {
        is_exclusive: bool,
    },
    Upper {
        is_exclusive: bool,
    },
    /// A bound of a count. No count reaches 64 bits.
    Count,
}

const BOUNDS: [Bound; 12] = {
    const fn count(keyword: &'static str) -> Bound {
        Bound { keyword, kind: BoundKind::Count }
    }
    [
        Bound { keyword: "minimum", kind: BoundKind::Lower { is_exclusive: false } },
        Bound { keyword: "exclusiveMinimum", kind: BoundKind::Lower { is_exclusive: true } },
        Bound { keyword: "maximum", kind: BoundKind::Upper { is_exclusive: false } },
        Bound { keyword: "exclusiveMaximum", kind: BoundKind::Upper { is_exclusive: true } },
        count("minLength"),
        count("maxLength"),
        count("minItems"),
        count("maxItems"),
        count("minContains"),
        count("maxContains"),
        count("minProperties"),
        count("maxProperties"),
    ]
};

impl Bound {
    /// Returns the bound for a keyword, or `None` if the keyword is not a bound.
    #[must_use]
    pub fn of(keyword: &str) -> Option<Self> {
        BOUNDS.iter().find(|bound| bound.keyword == keyword).copied()
    }

    /// Returns the boolean keyword that makes this bound exclusive up to draft 4, and the exclusive bound.
    #[must_use]
    pub fn excluding(self) -> Option<(&'static str, Self)> {
        match self.keyword {
            "minimum" => Some(("exclusiveMinimum", Self { kind: BoundKind::Lower { is_exclusive: true }, ..self })),
            "maximum" => Some(("exclusiveMaximum", Self { kind: BoundKind::Upper { is_exclusive: true }, ..self })),
            _ => None,
        }
    }

    /// Records the replacement of a bound at an unknown path.
    #[must_use]
    pub fn replaced(self, given: &str, taken: &Number) -> ReplacedBound {
        ReplacedBound { pointer: String::new(), keyword: self.keyword, given: given.to_owned(), taken: taken.clone() }
    }

    /// Returns the nearest number that bounds the same values as `integer`, which no 64-bit integer and no double can
    /// represent. Returns `None` if no such number exists.
    #[must_use]
    pub fn nearest(self, integer: &str) -> Option<Number> {
        let (is_negative, digits) = integer.strip_prefix('-').map_or((false, integer), |digits| (true, digits));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let up = match self.kind {
            BoundKind::Count => return (!is_negative).then(|| i64::MAX.into()),
            // No value lies between the two neighbors. So "at least" uses the upper one, and "more than" the lower one.
            BoundKind::Lower { is_exclusive } => !is_exclusive,
            BoundKind::Upper { is_exclusive } => is_exclusive,
        };
        let near: f64 = integer.parse().ok()?;
        let is_above =
            if near.is_infinite() { near > 0.0 } else { compare(&format!("{near:.0}"), integer) == Ordering::Greater };
        let bound = match (up, is_above) {
            (true, true) | (false, false) => near,
            (true, false) => near.next_up(),
            (false, true) => near.next_down(),
        };
        if !bound.is_finite() {
            return None;
        }
        let text = format!("{bound:.0}");
        text.parse::<i64>().ok().map(Number::from).or_else(|| Number::from_f64(bound))
    }
}

/// Compares the texts of two integers without leading zeros.
fn compare(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| match text.strip_prefix('-') {
        Some(digits) => (true, digits.to_owned()),
        None => (false, text.to_owned()),
    };
    let ((one_negative, one), (other_negative, other)) = (parts(one), parts(other));
    let magnitude = one.len().cmp(&other.len()).then_with(|| one.cmp(&other));
    match (one_negative, other_negative) {
        (false, false) => magnitude,
        (true, true) => magnitude.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// A bound that was replaced because it exceeds 64 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedBound {
    /// The path of the bound, as a JSON Pointer (RFC 6901); empty if it is unknown.
    pub pointer: String,
    /// The keyword.
    pub keyword: &'static str,
    /// The number as given.
    pub given: String,
    /// The number that replaces it.
    pub taken: Number,
}

impl ReplacedBound {
    /// Returns the replacement for this schema, which can declare the bound as exclusive. Returns `None` if no such
    /// number exists.
    #[must_use]
    pub fn excluded_in(&self, schema: &Map<String, Value>) -> Option<Self> {
        let excluding = Bound::of(self.keyword)?.excluding();
        match excluding.filter(|(keyword, _)| schema.get(*keyword) == Some(&Value::Bool(true))) {
            Some((_, bound)) => Some(Self { taken: bound.nearest(&self.given)?, ..self.clone() }),
            None => Some(self.clone()),
        }
    }
}

impl fmt::Display for ReplacedBound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = super::shorten(&self.given, 60);
        let place = if self.pointer.is_empty() { self.keyword } else { &self.pointer };
        write!(formatter, "the bound {given} of {place} is beyond 64 bits: {} is used instead", self.taken)
    }
}

/// Parses JSON that contains schemas. `is_schema` returns `true` if the path of an object, from the root, is a schema.
/// Returns the value and the replaced bounds.
///
/// # Errors
/// Returns an error as [`super::parse`] does. An integer beyond 64 bits is an error unless it is a bound of a schema
/// and can be replaced.
pub fn parse_with_schemas(
    bytes: &[u8],
    is_schema: impl Fn(&[String]) -> bool,
) -> Result<(Value, Vec<ReplacedBound>), JsonError> {
    let error = match super::parse(bytes) {
        Ok(value) => return Ok((value, Vec::new())),
        Err(error) if error.reason == BEYOND_64_BITS => error,
        Err(error) => return Err(error),
    };
    let (text, found) = Scanner::of(bytes, is_schema).run();
    if found.is_empty() {
        return Err(error);
    }
    let mut value = super::parse(&text)?;
    let mut replaced = Vec::new();
    for FoundBound { path, bound, given } in found {
        let pointer: String = path.iter().map(|token| format!("/{}", pointer_token(token))).collect();
        let Some(schema) = value.pointer_mut(&pointer).and_then(Value::as_object_mut) else { continue };
        let taken = bound.nearest(&given).ok_or_else(|| error.clone())?;
        let known = ReplacedBound { pointer: format!("{pointer}/{}", bound.keyword), ..bound.replaced(&given, &taken) };
        let kept = known.excluded_in(schema).ok_or_else(|| error.clone())?;
        schema.insert(bound.keyword.to_owned(), kept.taken.clone().into());
        replaced.push(kept);
    }
    Ok((value, replaced))
}

/// Returns `true` if a path from the root of a schema leads to a subschema, and not into data that looks like one.
/// `is_map` returns `true` for keywords whose members have arbitrary names.
#[must_use]
pub fn is_within_schema(path: &[String], is_map: impl Fn(&str) -> bool) -> bool {
    let mut tokens = path.iter();
    while let Some(token) = tokens.next() {
        match token.as_str() {
            "const" | "enum" | "default" | "example" | "examples" => return false,
            map if is_map(map) => drop(tokens.next()),
            _ => {}
        }
    }
    true
}

/// Schema keywords whose members are subschemas with arbitrary names.
pub const SCHEMA_MAPS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

struct FoundBound {
    path: Vec<String>,
    bound: Bound,
    given: String,
}

/// A pass over the raw text that tracks the path of every value.
struct Scanner<'b, F> {
    bytes: &'b [u8],
    is_schema: F,
    /// The index or the last key of each open array or object.
    path: Vec<Token>,
    text: Vec<u8>,
    found: Vec<FoundBound>,
}

enum Token {
    Index(usize),
    /// The key, and whether the next string is a key.
    Key(String, bool),
}

impl<'b, F: Fn(&[String]) -> bool> Scanner<'b, F> {
    fn of(bytes: &'b [u8], is_schema: F) -> Self {
        Self { bytes, is_schema, path: Vec::new(), text: Vec::with_capacity(bytes.len()), found: Vec::new() }
    }

    /// Returns the text with zeros in place of the bounds, and the bounds. Syntax errors are left to the parser.
    fn run(mut self) -> (Vec<u8>, Vec<FoundBound>) {
        let (mut at, mut copied) = (0, 0);
        while at < self.bytes.len() {
            let start = at;
            match self.bytes[at] {
                b'"' => {
                    at = end_of_string(self.bytes, at + 1).min(self.bytes.len() - 1);
                    if let Some(Token::Key(key, is_key @ true)) = self.path.last_mut() {
                        *key = serde_json::from_slice(&self.bytes[start..=at]).unwrap_or_default();
                        *is_key = false;
                    }
                }
                b'[' => self.path.push(Token::Index(0)),
                b'{' => self.path.push(Token::Key(String::new(), true)),
                b']' | b'}' => drop(self.path.pop()),
                b',' => match self.path.last_mut() {
                    Some(Token::Index(index)) => *index += 1,
                    Some(Token::Key(_, is_key)) => *is_key = true,
                    None => {}
                },
                b'0'..=b'9' | b'-' => {
                    while at + 1 < self.bytes.len()
                        && matches!(self.bytes[at + 1], b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')
                    {
                        at += 1;
                    }
                    let token = &self.bytes[start..=at];
                    if token.len() >= LONG_INTEGER && !is_exact(token) && self.record(token) {
                        self.text.extend_from_slice(&self.bytes[copied..start]);
                        self.text.push(b'0');
                        copied = at + 1;
                    }
                }
                _ => {}
            }
            if self.path.len() > MAX_DEPTH {
                break;
            }
            at += 1;
        }
        self.text.extend_from_slice(&self.bytes[copied..]);
        (self.text, self.found)
    }

    /// Records a bound. Returns `false` if the number is not a bound of a schema.
    fn record(&mut self, token: &[u8]) -> bool {
        let Some((Token::Key(keyword, _), around)) = self.path.split_last() else { return false };
        let (Some(bound), Ok(given)) = (Bound::of(keyword), std::str::from_utf8(token)) else { return false };
        let path: Vec<String> = around
            .iter()
            .map(|token| match token {
                Token::Index(index) => index.to_string(),
                Token::Key(key, _) => key.clone(),
            })
            .collect();
        if bound.nearest(given).is_none() || !(self.is_schema)(&path) {
            return false;
        }
        self.found.push(FoundBound { path, bound, given: given.to_owned() });
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nearest(keyword: &str, integer: &str) -> Option<String> {
        Bound::of(keyword).unwrap().nearest(integer).map(|number| number.to_string())
    }

    #[test]
    fn bound_is_replaced_by_the_nearest_equivalent() {
        for (keyword, given, taken) in [
            ("minimum", "-9223372036854776000", "-9223372036854775808"),
            ("exclusiveMinimum", "-9223372036854776000", "-9.223372036854778e+18"),
            ("maximum", "-9223372036854776000", "-9.223372036854778e+18"),
            ("exclusiveMaximum", "-9223372036854776000", "-9223372036854775808"),
            ("minimum", "18446744073709551617", "1.8446744073709556e+19"),
            ("maximum", "18446744073709551617", "1.8446744073709552e+19"),
            ("exclusiveMinimum", "18446744073709551617", "1.8446744073709552e+19"),
            ("exclusiveMaximum", "18446744073709551617", "1.8446744073709556e+19"),
            ("maxLength", "99999999999999999999", "9223372036854775807"),
        ] {
            assert_eq!(nearest(keyword, given).as_deref(), Some(taken), "{keyword} {given}");
        }
        let huge = "9".repeat(400);
        assert_eq!(nearest("maximum", &huge).as_deref(), Some("1.7976931348623157e+308"));
        assert_eq!(nearest("minimum", &format!("-{huge}")).as_deref(), Some("-1.7976931348623157e+308"));
        for (keyword, given) in
            [("minimum", huge.as_str()), ("exclusiveMaximum", &huge), ("maxItems", "-99999999999999999999")]
        {
            assert_eq!(nearest(keyword, given), None, "{keyword}");
        }
    }

    #[test]
    fn only_bounds_of_schemas_are_replaced() {
        let read = |text: &str| {
            parse_with_schemas(text.as_bytes(), |path| {
                path.first().is_some_and(|token| token == "s")
                    && is_within_schema(&path[1..], |key| SCHEMA_MAPS.contains(&key))
            })
        };
        let long = "-9223372036854776000";
        let (value, replaced) = read(&format!(
            "{{\"a\":[1,{{\"x\":2}}],\"s\":{{\"allOf\":[true,{{\"properties\":{{\"default\":{{\"m\\u0061ximum\":5,\"minimum\":{long}}}}}}}]}}}}"
        ))
        .unwrap();
        assert_eq!(value["s"]["allOf"][1]["properties"]["default"]["minimum"], json!(i64::MIN));
        assert_eq!(replaced[0].pointer, "/s/allOf/1/properties/default/minimum");
        assert_eq!(
            replaced[0].to_string(),
            "the bound -9223372036854776000 of /s/allOf/1/properties/default/minimum is beyond 64 bits: \
             -9223372036854775808 is used instead"
        );
        let (value, _) = read(&format!("{{\"s\":{{\"minimum\":{long},\"exclusiveMinimum\":true}}}}")).unwrap();
        assert_eq!(value["s"]["minimum"].to_string(), "-9.223372036854778e+18");
        for text in [
            format!("{{\"minimum\":{long}}}"),
            format!("{{\"t\":{{\"minimum\":{long}}}}}"),
            format!("{{\"s\":{{\"default\":{{\"minimum\":{long}}}}}}}"),
            format!("{{\"s\":{{\"const\":{long}}}}}"),
            format!("{{\"s\":{{\"multipleOf\":{long}}}}}"),
            format!("{{\"s\":{{\"minimum\":[{long}]}}}}"),
            format!("{{\"s\":{{\"minimum\":{long},\"enum\":[{long}]}}}}"),
            format!("{{\"s\":{{\"minimum\":1{}}}}}", "0".repeat(400)),
        ] {
            assert_eq!(read(&text).unwrap_err().reason, BEYOND_64_BITS, "{text}");
        }
        assert!(read(&format!("{{\"s\":{{\"minimum\":{long}")).is_err());
    }
}
