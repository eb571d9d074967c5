//! Numeric bounds in schemas beyond 64 bits. They are replaced by the nearest bound that validates the same values.

use std::fmt;
use std::ops::Range;

use serde_json::{Map, Number, Value};

use super::{BEYOND_64_BITS, JsonError, RawToken, pointer_token, scan};

/// A keyword that bounds a number or a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    keyword: &'static str,
    neighbor: Neighbor,
}

/// The neighbor of a number that replaces it as a bound. No value lies between the two neighbors, so "at least" uses
/// the upper one, and "more than" the lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Neighbor {
    Upper,
    Lower,
    /// The largest count, because no count reaches 64 bits.
    Largest,
}

const BOUNDS: [Bound; 12] = {
    const fn bound(keyword: &'static str, neighbor: Neighbor) -> Bound {
        Bound { keyword, neighbor }
    }
    [
        bound("minimum", Neighbor::Upper),
        bound("exclusiveMinimum", Neighbor::Lower),
        bound("maximum", Neighbor::Lower),
        bound("exclusiveMaximum", Neighbor::Upper),
        bound("minLength", Neighbor::Largest),
        bound("maxLength", Neighbor::Largest),
        bound("minItems", Neighbor::Largest),
        bound("maxItems", Neighbor::Largest),
        bound("minContains", Neighbor::Largest),
        bound("maxContains", Neighbor::Largest),
        bound("minProperties", Neighbor::Largest),
        bound("maxProperties", Neighbor::Largest),
    ]
};

impl Bound {
    /// Returns the bound for a keyword, or `None` if the keyword is not a bound.
    #[must_use]
    pub fn of(keyword: &str) -> Option<Self> {
        BOUNDS.iter().find(|bound| bound.keyword == keyword).copied()
    }

    /// Returns the bound of the boolean keyword that makes this bound exclusive up to draft 4.
    fn excluding(self) -> Option<Self> {
        match self.keyword {
            "minimum" => Self::of("exclusiveMinimum"),
            "maximum" => Self::of("exclusiveMaximum"),
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
        let near: f64 = integer.parse().ok()?;
        let rounded = format!("{:.0}", near.abs());
        let is_larger = near.is_infinite() || (rounded.len(), rounded.as_str()) > (digits.len(), digits);
        let is_equal = rounded == digits;
        let is_above = is_larger != is_negative && !is_equal;
        let bound = match (self.neighbor, is_above) {
            (Neighbor::Largest, _) => return (!is_negative).then(|| i64::MAX.into()),
            (Neighbor::Upper, true) | (Neighbor::Lower, false) => near,
            (Neighbor::Upper, false) => near.next_up(),
            (Neighbor::Lower, true) => near.next_down(),
        };
        if !bound.is_finite() {
            return None;
        }
        let text = format!("{bound:.0}");
        text.parse::<i64>().ok().map(Number::from).or_else(|| Number::from_f64(bound))
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
        match excluding.filter(|bound| schema.get(bound.keyword) == Some(&Value::Bool(true))) {
            Some(bound) => Some(Self { taken: bound.nearest(&self.given)?, ..self.clone() }),
            None => Some(self.clone()),
        }
    }
}

impl fmt::Display for ReplacedBound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = super::shorten(&self.given, 60);
        let location = if self.pointer.is_empty() { self.keyword } else { &self.pointer };
        write!(formatter, "the bound {given} of {location} is beyond 64 bits: {} is used instead", self.taken)
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
    let (mut text, mut found) = (bytes.to_vec(), Vec::new());
    // The parser below reports a text that is nested too deeply.
    let _ = scan(bytes, |path, integer| {
        if let Some(bound) = found_bound(bytes, path, integer.clone(), &is_schema) {
            text[integer.clone()].fill(b' ');
            text[integer.start] = b'0';
            found.push(bound);
        }
        Ok(())
    });
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

/// Returns the bound of a schema that the integer at this path is.
fn found_bound(
    bytes: &[u8],
    path: &[RawToken],
    integer: Range<usize>,
    is_schema: impl Fn(&[String]) -> bool,
) -> Option<FoundBound> {
    let name = |raw: &Range<usize>| serde_json::from_slice::<String>(&bytes[raw.clone()]).unwrap_or_default();
    let (RawToken::Key(keyword, _), around) = path.split_last()? else { return None };
    let bound = Bound::of(&name(keyword))?;
    let given = std::str::from_utf8(&bytes[integer]).ok()?;
    let tokens = around.iter().map(|token| match token {
        RawToken::Index(index) => index.to_string(),
        RawToken::Key(key, _) => name(key),
    });
    let path: Vec<String> = tokens.collect();
    let is_bound = bound.nearest(given).is_some() && is_schema(&path);
    is_bound.then(|| FoundBound { path, bound, given: given.to_owned() })
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
