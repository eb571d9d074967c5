//! Strings, numbers and listed values in a small subset.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Map, Number, Value, json};

use super::{Alternative, LoweredNode};
use crate::schema::lower::compare::compare;
use crate::schema::lower::lowering::{Lowering, Step, object, put_some};
use crate::schema::lower::shape::{Bound, Shape};
use crate::schema::lower::{Restore, Target, describe, valid};
use crate::schema::patterns::needs_backtracking;
use crate::schema::types::{Types, is_whole};

/// Formats that strict schemas support.
const STRICT: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
/// Formats of numbers.
const NUMERIC: [&str; 4] = ["int32", "int64", "float", "double"];
/// Maximum length that is expressed as a pattern; longer ones make the pattern too large.
const MAX_COUNTED: u64 = 500;

impl<'a> Lowering<'a, '_> {
    pub(super) fn string(&mut self, shape: &mut Shape<'a>) -> Option<Alternative> {
        let (min, max) = (shape.string.min.filter(|min| *min > 0), shape.string.max);
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            return None;
        }
        let mut schema = object([("type", json!("string"))]);
        let mut patterns = shape.string.patterns.clone();
        patterns.dedup_by_key(|(pattern, _)| *pattern);
        // Vendors refuse patterns that need backtracking.
        let (plain, foreign): (Vec<_>, Vec<_>) =
            patterns.into_iter().partition(|(pattern, _)| !needs_backtracking(pattern));
        schema.extend(plain.first().map(|(pattern, _)| ("pattern".to_owned(), json!(pattern))));
        for (_, at) in plain.iter().skip(1).chain(&foreign) {
            self.describe_keyword(shape, at, "pattern");
        }
        if self.target == Target::Gemini {
            put_some(&mut schema, "minLength", min);
            put_some(&mut schema, "maxLength", max);
        } else if min.is_some() || max.is_some() {
            self.length(shape, &mut schema, min, max);
        }
        self.formats(shape, &mut schema);
        for (keyword, value) in std::mem::take(&mut shape.string.content) {
            shape.notes.constraints.push(format!("{keyword}: {}.", value.as_str().unwrap_or_default()));
        }
        Some(Alternative::same(schema))
    }

    /// Writes a length as a pattern, unless another pattern is given.
    fn length(&mut self, shape: &mut Shape<'a>, schema: &mut Map<String, Value>, min: Option<u64>, max: Option<u64>) {
        let counted = min.max(max).is_none_or(|longest| longest <= MAX_COUNTED);
        if counted && !schema.contains_key("pattern") {
            let max = max.map_or_else(String::new, |max| max.to_string());
            schema.insert("pattern".to_owned(), json!(format!("^[\\s\\S]{{{},{max}}}$", min.unwrap_or(0))));
            return;
        }
        for (keyword, value, how) in [("minLength", min, "At least"), ("maxLength", max, "At most")] {
            if let Some(value) = value {
                self.describe_loss(shape, shape.at, keyword, format!("{how} {value} characters."));
            }
        }
    }

    fn formats(&mut self, shape: &mut Shape<'a>, schema: &mut Map<String, Value>) {
        for (format, at) in std::mem::take(&mut shape.string.formats) {
            let known = match self.target {
                Target::OpenAiStrict => STRICT.contains(&format),
                _ => format == "date-time",
            };
            if known && schema.get("format").is_none_or(|other| other == format) {
                schema.insert("format".to_owned(), json!(format));
            } else if !NUMERIC.contains(&format) {
                self.describe_keyword(shape, at, "format");
            }
        }
    }

    pub(super) fn number(&mut self, shape: &mut Shape<'a>, mut integer: bool) -> Option<Alternative> {
        let mut multiple: Option<&Number> = None;
        for (value, at) in shape.number.multiples.clone() {
            let Value::Number(number) = value else { continue };
            // A multiple of an integer is an integer.
            let whole = is_whole(number);
            integer |= whole;
            let every = integer && compare(number, &Number::from(1)) == Ordering::Equal;
            if every || multiple.is_some_and(|known| compare(known, number) == Ordering::Equal) {
                continue;
            }
            if self.target == Target::OpenAiStrict && multiple.is_none() {
                multiple = Some(number);
            } else {
                self.describe_keyword(shape, at, "multipleOf");
            }
        }
        let mut schema = object([("type", json!(if integer { "integer" } else { "number" }))]);
        for format in shape.string.formats.iter().map(|(format, _)| *format) {
            let fits = if integer { ["int32", "int64"] } else { ["float", "double"] };
            if self.target == Target::Gemini && fits.contains(&format) {
                schema.insert("format".to_owned(), json!(format));
            }
        }
        let (min, max) = (shape.number.min, shape.number.max);
        let bounds = [("minimum", "exclusiveMinimum", min), ("maximum", "exclusiveMaximum", max)];
        for (keyword, exclusive, bound) in bounds {
            let Some(bound) = bound else { continue };
            let lower = keyword == "minimum";
            let (value, is_exclusive) =
                if integer { whole_bound(bound, lower) } else { (bound.value.clone(), bound.exclusive) };
            if !is_exclusive {
                schema.insert(keyword.to_owned(), Value::Number(value));
            } else if self.target == Target::OpenAiStrict {
                schema.insert(exclusive.to_owned(), Value::Number(value));
            } else {
                let text = format!("Must be {} than {value}.", if lower { "greater" } else { "less" });
                schema.insert(keyword.to_owned(), Value::Number(value));
                self.describe_loss(shape, bound.at, exclusive, text);
            }
        }
        schema.extend(multiple.map(|multiple| ("multipleOf".to_owned(), Value::Number(multiple.clone()))));
        let empty = min.zip(max).is_some_and(|(min, max)| match compare(min.value, max.value) {
            Ordering::Greater => true,
            Ordering::Equal => min.exclusive || max.exclusive,
            Ordering::Less => false,
        });
        let end = |keyword: &str| schema.get(keyword).and_then(Value::as_number);
        let crossed = end("minimum").zip(end("maximum")).is_some_and(|(min, max)| compare(min, max).is_gt());
        (!empty && !crossed).then_some(Alternative::same(schema))
    }

    /// Lowers listed values: strings unchanged, numbers and booleans as enums if the vendor supports that, all others
    /// as text.
    pub(super) fn listed(&mut self, shape: &mut Shape<'a>, out: &mut LoweredNode) -> Step<()> {
        let values = std::mem::take(&mut shape.values).unwrap_or_default();
        let strict = self.target == Target::OpenAiStrict;
        let mut kinds: [Vec<&Value>; 4] = Default::default();
        for value in values {
            if !Types::of(value).meets(shape.kinds) || !valid::fits(self.document, shape, value, 0) {
                continue;
            }
            self.spend(value.as_str().map_or(8, str::len))?;
            match value {
                Value::Null => out.null = true,
                Value::String(_) => kinds[0].push(value),
                Value::Number(_) => kinds[1].push(value),
                Value::Bool(_) => kinds[2].push(value),
                _ => kinds[3].push(value),
            }
        }
        if kinds[2].len() == 2 {
            out.alternatives.push(Alternative::of_type("boolean"));
            kinds[2].clear();
        }
        let kept = if strict { 3 } else { 0 };
        for (values, kind) in kinds[..kept].iter().zip(["string", "number", "boolean"]) {
            let whole = values.iter().all(|value| matches!(value, Value::Number(number) if is_whole(number)));
            let kind = if whole { "integer" } else { kind };
            if !values.is_empty() {
                let values = values.iter().map(|value| (*value).clone()).collect();
                out.alternatives.push(Alternative::same(object([("type", json!(kind)), ("enum", values)])));
            }
        }
        self.as_text(shape, &kinds[kept..].concat(), out);
        Ok(())
    }

    /// Adds an enum of strings that are or represent the values.
    fn as_text(&mut self, shape: &Shape<'a>, values: &[&Value], out: &mut LoweredNode) {
        let (mut texts, mut meant): (Vec<Value>, Vec<(String, Value)>) = (Vec::new(), Vec::new());
        let mut other = false;
        for value in values {
            let text = match value {
                // Gemini rejects an empty string in an enum.
                Value::String(text) if text.is_empty() => "(empty)".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if texts.iter().any(|known| *known == text) {
                let message = format!("{} cannot be distinguished from another value", describe::value(value));
                self.lose(shape.at, "enum", message, false);
                continue;
            }
            other |= value.as_str() != Some(&text);
            texts.push(json!(text));
            meant.push((text, (*value).clone()));
        }
        if !texts.is_empty() {
            let schema = object([("type", json!("string")), ("enum", Value::Array(texts))]);
            let back = if other { Restore::Values(Arc::from(meant)) } else { Restore::Identity };
            out.alternatives.push(Alternative { schema, back });
        }
    }
}

/// Returns a bound of integers, inclusive if that is exact.
fn whole_bound(bound: Bound, lower: bool) -> (Number, bool) {
    let step = match (bound.exclusive, lower) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => -1,
    };
    if let Some(value) = bound.value.as_i64() {
        return value.checked_add(step).map_or((bound.value.clone(), bound.exclusive), |value| (value.into(), false));
    }
    let Some(double) = bound.value.as_f64().filter(|double| double.abs() < 9e15) else {
        return (bound.value.clone(), bound.exclusive);
    };
    #[allow(clippy::cast_possible_truncation)]
    let whole = if double.fract() == 0.0 {
        double as i64 + step
    } else if lower {
        double.ceil() as i64
    } else {
        double.floor() as i64
    };
    (whole.into(), false)
}
