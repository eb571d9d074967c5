//! Coercion: converts arguments of the wrong type where the schema shows the intended type.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::accept::Budget;
use super::graph::{Graph, NodeId, ROOT};
use super::types::Types;
use crate::domain::call::Coercion;
use crate::domain::json;

/// Maximum number of zeros after the significant digits of an integer; a 64-bit integer has at most 20 digits.
const MAX_ZEROS: usize = 20;
/// Maximum number of subschemas visited while coercing one small instance.
const STEPS: u32 = 300_000;

/// Coerces all values that can be coerced; `None` if nothing changes. The result may still be invalid.
pub(super) fn coerce(graph: &Graph, instance: &Value) -> Option<(Value, Vec<Coercion>)> {
    let mut coercer =
        Coercer { graph, budget: Budget::for_value(STEPS, instance), coerced: Vec::new(), path: Vec::new() };
    let converted = coercer.value(ROOT, instance)?;
    Some((converted, coercer.coerced))
}

struct Coercer<'a> {
    graph: &'a Graph,
    budget: Budget,
    coerced: Vec<Coercion>,
    /// Escaped tokens of the pointer to the current value.
    path: Vec<String>,
}

impl Coercer<'_> {
    /// Returns a coerced value, or `None` if the subschema accepts the value or coercion fails.
    fn value(&mut self, id: NodeId, value: &Value) -> Option<Value> {
        if self.graph.accepts(id, value, &mut self.budget) || self.budget.is_spent() {
            return None;
        }
        let converted = if self.budget.enter() { self.invalid(id, value) } else { None };
        self.budget.leave();
        converted
    }

    /// Coerces a value that the subschema rejects.
    fn invalid(&mut self, id: NodeId, value: &Value) -> Option<Value> {
        let parts = self.parts(id, value);
        let converted = match value {
            // A string at the root is not coerced: the arguments have been parsed before.
            Value::String(text) if !self.path.is_empty() => self.string(id, text, &parts),
            Value::Object(object) => self.object(object, &parts).map(Value::Object),
            Value::Array(items) => self.array(items, &parts),
            _ => None,
        };
        self.branches(&parts, converted.as_ref().unwrap_or(value)).or(converted)
    }

    /// Returns the subschema and all subschemas that apply to the same value in any case: references, `allOf`, and
    /// `then` or `else`.
    fn parts(&mut self, id: NodeId, value: &Value) -> Vec<NodeId> {
        let (mut parts, mut seen, mut waiting) = (Vec::new(), HashSet::new(), vec![id]);
        while let Some(part) = waiting.pop() {
            if seen.insert(part) {
                parts.push(part);
                waiting.extend(self.graph.conditional(part, value, &mut self.budget));
                waiting.extend(self.graph.nodes[part].all.iter().rev());
            }
        }
        parts
    }

    /// Converts a string to the type that the schema requires.
    fn string(&mut self, id: NodeId, text: &str, parts: &[NodeId]) -> Option<Value> {
        let nodes = parts.iter().map(|part| &self.graph.nodes[*part]);
        let wanted = nodes.filter_map(|node| node.types.or(node.listed_types)).reduce(Types::intersect)?;
        if wanted.meets(Types::STRING) {
            return None;
        }
        let meant = read(text, wanted)?;
        let listed = self.coerced.len();
        self.note(json::type_name(&Value::String(String::new())), json::type_name(&meant));
        let meant = self.value(id, &meant).unwrap_or(meant);
        // A parsed object or array is kept even if it is invalid: its violations help the model more than those of its
        // text.
        if meant.is_object() || meant.is_array() || self.graph.accepts(id, &meant, &mut self.budget) {
            return Some(meant);
        }
        self.coerced.truncate(listed);
        None
    }

    fn object(&mut self, object: &Map<String, Value>, parts: &[NodeId]) -> Option<Map<String, Value>> {
        let mut converted: Option<Map<String, Value>> = None;
        for (name, given) in object {
            let below: Vec<NodeId> = parts.iter().flat_map(|part| self.graph.of_property(*part, name)).collect();
            if below.is_empty() {
                continue;
            }
            self.path.push(json::pointer_token(name));
            if given.is_null() && self.is_absent(name, parts, &below) {
                self.note("null", "absent");
                converted.get_or_insert_with(|| object.clone()).shift_remove(name);
            } else if let Some(better) = self.through(&below, given) {
                converted.get_or_insert_with(|| object.clone()).insert(name.clone(), better);
            }
            self.path.pop();
        }
        converted
    }

    /// Returns `true` if a `null` represents an omitted optional property that is declared.
    fn is_absent(&mut self, name: &str, parts: &[NodeId], below: &[NodeId]) -> bool {
        let mut nodes = parts.iter().map(|part| &self.graph.nodes[*part]);
        let required = nodes.clone().any(|node| node.required.iter().any(|required| required == name));
        let declared = nodes.any(|node| node.properties.contains_key(name));
        declared && !required && !below.iter().all(|id| self.graph.accepts(*id, &Value::Null, &mut self.budget))
    }

    fn array(&mut self, items: &[Value], parts: &[NodeId]) -> Option<Value> {
        let mut converted: Option<Vec<Value>> = None;
        for (index, given) in items.iter().enumerate() {
            let below: Vec<NodeId> = parts.iter().filter_map(|part| self.graph.of_element(*part, index)).collect();
            if below.is_empty() {
                continue;
            }
            self.path.push(index.to_string());
            if let Some(better) = self.through(&below, given) {
                converted.get_or_insert_with(|| items.to_vec())[index] = better;
            }
            self.path.pop();
        }
        converted.map(Value::Array)
    }

    /// Coerces a value for several subschemas in sequence.
    fn through(&mut self, ids: &[NodeId], given: &Value) -> Option<Value> {
        let mut better: Option<Value> = None;
        for id in ids {
            better = self.value(*id, better.as_ref().unwrap_or(given)).or(better);
        }
        better
    }

    /// Coerces a value for `anyOf` and `oneOf`: the first branch that accepts its coerced value is used.
    fn branches(&mut self, parts: &[NodeId], given: &Value) -> Option<Value> {
        let mut better: Option<Value> = None;
        for part in parts {
            let node = &self.graph.nodes[*part];
            for (branches, exclusive) in [(&node.any, false), (&node.one, true)] {
                let current = better.as_ref().unwrap_or(given);
                if self.holds(*part, exclusive, current) {
                    continue;
                }
                let found = branches.iter().find_map(|branch| {
                    let listed = self.coerced.len();
                    let tried = self.value(*branch, current);
                    let tried = tried.filter(|tried| {
                        self.graph.accepts(*branch, tried, &mut self.budget) && self.holds(*part, exclusive, tried)
                    });
                    if tried.is_none() {
                        self.coerced.truncate(listed);
                    }
                    tried
                });
                better = found.or(better);
            }
        }
        better
    }

    fn holds(&mut self, part: NodeId, exclusive: bool, value: &Value) -> bool {
        if exclusive {
            self.graph.accepts_one(part, value, &mut self.budget)
        } else {
            self.graph.accepts_any(part, value, &mut self.budget)
        }
    }

    fn note(&mut self, from: &str, to: &str) {
        let pointer = self.path.iter().fold(String::new(), |pointer, token| pointer + "/" + token);
        self.coerced.push(Coercion { pointer, from: from.to_owned(), to: to.to_owned() });
    }
}

/// Parses a string as one of the wanted types.
fn read(text: &str, wanted: Types) -> Option<Value> {
    let trimmed = text.trim();
    if wanted.meets(Types::BOOLEAN) {
        for boolean in [true, false] {
            if trimmed.eq_ignore_ascii_case(if boolean { "true" } else { "false" }) {
                return Some(Value::Bool(boolean));
            }
        }
    }
    let fits = match trimmed.as_bytes().first()? {
        b'{' => wanted.meets(Types::OBJECT),
        b'[' => wanted.meets(Types::ARRAY),
        b'-' | b'0'..=b'9' => wanted.meets(Types::NUMBER),
        _ => false,
    };
    if !fits {
        return None;
    }
    let value = json::parse(trimmed.as_bytes()).ok()?;
    if value.is_f64() && !wanted.meets(Types::FRACTION) && trimmed.contains(['.', 'e', 'E']) {
        return integer(trimmed);
    }
    Some(value)
}

/// Returns the exact integer value of a JSON number with a point or an exponent, such as `5.0` or `5e0`; `None` if it
/// is not a 64-bit integer.
fn integer(number: &str) -> Option<Value> {
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_end_matches('0');
    if significant.trim_start_matches('0').is_empty() {
        return Some(0.into());
    }
    let point = i64::try_from(whole.len()).ok()?.checked_add(exponent.parse().ok()?)?;
    let zeros = usize::try_from(point).ok()?.checked_sub(significant.len()).filter(|zeros| *zeros <= MAX_ZEROS)?;
    let text = format!("{sign}{significant}{}", "0".repeat(zeros));
    text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn declared(name: &str) -> Types {
        crate::schema::types::declared("", Some(&json!(name))).unwrap().unwrap()
    }

    fn integer_of(text: &str) -> Option<Value> {
        read(text, declared("integer"))
    }

    #[test]
    fn number_without_fraction_becomes_exact_integer() {
        for (text, integer) in [
            ("5.0", json!(5)),
            ("5e0", json!(5)),
            (" -5.00 ", json!(-5)),
            ("1.5e1", json!(15)),
            ("5E+2", json!(500)),
            ("500e-2", json!(5)),
            ("-0.0", json!(0)),
            ("9007199254740993.0", json!(9_007_199_254_740_993_i64)),
            ("18446744073709551615.0", json!(u64::MAX)),
            ("-9223372036854775808e0", json!(i64::MIN)),
        ] {
            assert_eq!(integer_of(text), Some(integer), "{text}");
        }
        for none in ["5.5", "5e-1", "1e20", "1e300", "1e-300", "1e99999999999999999999", "18446744073709551616.0"] {
            assert_eq!(integer_of(none), None, "{none}");
        }
        assert_eq!(read("5.0", declared("number")), Some(json!(5.0)));
    }

    proptest! {
        #[test]
        fn every_notation_of_an_integer_is_coerced_exactly(integer: i64, zeros in 0..5_usize, shift in 0..30_usize) {
            let text = integer.to_string();
            let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
            let padded = format!("{}{digits}", "0".repeat(shift));
            let (whole, fraction) = padded.split_at(padded.len() - shift.min(digits.len()));
            let whole = whole.trim_start_matches('0');
            let whole = if whole.is_empty() { "0" } else { whole };
            let exponent = shift.min(digits.len());
            let written = format!("{sign}{whole}.{fraction}{}e{exponent}", "0".repeat(zeros + 1));
            prop_assert_eq!(integer_of(&written), Some(json!(integer)), "{}", written);
        }
    }
}
