//! Arrays in a small subset: lists with one item schema; a tuple becomes an object with one member per item.

use serde_json::{Map, Value, json};

use super::objects::empty_item;
use super::{Alternative, render};
use crate::schema::lower::conjunction::{Conjunction, Term, is_false};
use crate::schema::lower::lowering::{Lowering, Step, object, put_some};
use crate::schema::lower::shape::Shape;
use crate::schema::lower::{Restore, Target};

/// Maximum number of items of a tuple.
const MAX_TUPLE_ITEMS: usize = 64;

impl<'a> Lowering<'a, '_> {
    /// Lowers an array; `None` if no array is valid.
    pub(super) fn array(&mut self, shape: &mut Shape<'a>) -> Step<Option<Alternative>> {
        let array = &shape.array;
        let (min, max) = (array.min.unwrap_or(0), array.max);
        if max.is_some_and(|max| max < min) {
            return Ok(None);
        }
        if let Some(at) = array.unique.filter(|_| max.is_none_or(|max| max > 1)) {
            self.describe_keyword(shape, at, "uniqueItems");
        }
        if !shape.array.prefix.is_empty() {
            return self.tuple(shape, min, max);
        }
        self.list(&shape.array.items, min, max)
    }

    fn list(&mut self, items: &[Term<'a>], min: u64, mut max: Option<u64>) -> Step<Option<Alternative>> {
        let out = if max == Some(0) { None } else { self.lower_subset(items)? };
        if out.is_none() {
            if min > 0 {
                return Ok(None);
            }
            max = Some(0);
        }
        let (items, back) = render(self.target, out.unwrap_or_else(empty_item));
        let mut schema = object([("type", json!("array")), ("items", items)]);
        put_some(&mut schema, "minItems", Some(min).filter(|min| *min > 0));
        put_some(&mut schema, "maxItems", max);
        Ok(Some(Alternative { schema, back: Restore::array(Vec::new(), back) }))
    }

    fn tuple(&mut self, shape: &Shape<'a>, min: u64, max: Option<u64>) -> Step<Option<Alternative>> {
        let (prefix, items) = (&shape.array.prefix, &shape.array.items);
        let ends = items.iter().any(is_false);
        let prefix_len = prefix.len() as u64;
        let longest = if ends { Some(max.unwrap_or(prefix_len).min(prefix_len)) } else { max };
        if longest.is_some_and(|longest| longest < min) {
            return Ok(None);
        }
        let alike = prefix.windows(2).all(|pair| is_like(&pair[0], &pair[1]));
        let goes_on = longest.is_none_or(|longest| longest > prefix_len);
        if alike && (!goes_on || is_like(&prefix[0], items)) {
            return self.list(&prefix[0], min, longest);
        }
        if goes_on && shape.array.items_given {
            let message = "more items than the listed ones are allowed; narrowed to the listed ones";
            self.lose(shape.at, "items", message, false);
        }
        let length = longest.map_or(prefix_len, |longest| longest.min(prefix_len)).max(min);
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= MAX_TUPLE_ITEMS) else {
            return self.cannot(shape.at, format!("a tuple may have at most {MAX_TUPLE_ITEMS} items"));
        };
        if min < length as u64 {
            self.lose(shape.at, "minItems", "fewer items are allowed; narrowed to exactly the listed ones", false);
        }
        if length == 0 {
            return self.list(&[], 0, Some(0));
        }
        let (mut properties, mut required, mut backs) = (Map::new(), Vec::new(), Vec::new());
        for index in 0..length {
            let Some(out) = self.lower_subset(prefix.get(index).unwrap_or(items))? else {
                // The tuple ends here if it may be shorter.
                if (index as u64) < min {
                    return Ok(None);
                }
                break;
            };
            let name = format!("item_{}", index + 1);
            let (schema, back) = render(self.target, out);
            properties.insert(name.clone(), schema);
            required.push(json!(name));
            backs.push((name, back));
        }
        if backs.is_empty() {
            return self.list(&[], 0, Some(0));
        }
        let mut schema = object([
            ("type", json!("object")),
            ("description", json!("A list, written as an object with one member per item.")),
            ("properties", Value::Object(properties)),
            ("required", Value::Array(required)),
        ]);
        if self.target == Target::OpenAiStrict {
            schema.insert("additionalProperties".to_owned(), json!(false));
        }
        Ok(Some(Alternative { schema, back: Restore::Tuple(backs) }))
    }
}

/// Returns `true` if two conjunctions consist of equal schemas.
fn is_like(one: &Conjunction, other: &Conjunction) -> bool {
    let like = |(one, other): (&Term, &Term)| match (one, other) {
        (Term::Part(one), Term::Part(other)) => one.schema == other.schema && one.mask == other.mask,
        _ => false,
    };
    one.len() == other.len() && one.iter().zip(other).all(like)
}
