//! Checks listed values against the constraints next to the list. Keywords of full JSON Schema are skipped, because
//! they are recorded as losses anyway.

use std::cmp::Ordering;

use serde_json::Value;

use super::compare::{compare, same};
use super::conjunction::{Term, flatten};
use super::shape::{Bound, Shape};
use crate::schema::document::Document;
use crate::schema::types::Types;

const MAX_DEPTH: usize = 32;

pub(super) fn takes<'a>(document: &Document<'a>, conj: &[Term<'a>], value: &Value, depth: usize) -> bool {
    let shape = Shape::of(document, flatten(document, conj));
    let listed = shape.values.as_ref().is_none_or(|values| values.iter().any(|listed| same(listed, value)));
    let some = |branches: &[Vec<Term<'a>>]| branches.iter().any(|branch| takes(document, branch, value, depth + 1));
    depth < MAX_DEPTH
        && !shape.never
        && Types::of(value).meets(shape.kinds)
        && listed
        && shape.groups.iter().all(|group| some(&group.branches))
        && fits(document, &shape, value, depth)
}

/// Returns `true` if a value satisfies the shape's own constraints.
pub(super) fn fits<'a>(document: &Document<'a>, shape: &Shape<'a>, value: &Value, depth: usize) -> bool {
    let within = |size: usize, min: Option<u64>, max: Option<u64>| {
        min.is_none_or(|min| size as u64 >= min) && max.is_none_or(|max| size as u64 <= max)
    };
    match value {
        Value::Number(number) => {
            let inside = |bound: Option<Bound>, side: Ordering| {
                bound.is_none_or(|bound| match compare(number, bound.value) {
                    Ordering::Equal => !bound.exclusive,
                    other => other == side,
                })
            };
            let multiple = |(of, _): &(&Value, _)| match (number.as_f64(), of.as_f64()) {
                (Some(number), Some(of)) if of != 0.0 => (number / of).fract() == 0.0,
                _ => true,
            };
            inside(shape.number.min, Ordering::Greater)
                && inside(shape.number.max, Ordering::Less)
                && shape.number.multiples.iter().all(multiple)
        }
        Value::String(text) => {
            let strings = &shape.string;
            within(text.chars().count(), strings.min, strings.max)
                && strings.patterns.iter().all(|(pattern, _)| document.matches(pattern, text))
                && strings.formats.iter().all(|(format, _)| document.asserts("format", format, text))
        }
        Value::Array(items) => {
            let array = &shape.array;
            let conj = |index: usize| array.prefix.get(index).unwrap_or(&array.items);
            let distinct =
                || items.iter().enumerate().all(|(at, item)| !items[..at].iter().any(|other| same(item, other)));
            within(items.len(), array.min, array.max)
                && (array.unique.is_none() || distinct())
                && items.iter().enumerate().all(|(index, item)| takes(document, conj(index), item, depth + 1))
        }
        Value::Object(members) => {
            let object = &shape.object;
            let member = |(name, value): (&String, &Value)| {
                let mut matched =
                    object.patterns.iter().filter(|(pattern, _)| document.matches(pattern, name)).peekable();
                match object.declared(name) {
                    Some(conj) => takes(document, conj, value, depth + 1),
                    None if matched.peek().is_some() => {
                        matched.all(|(_, conj)| takes(document, conj, value, depth + 1))
                    }
                    None => takes(document, &object.others, value, depth + 1),
                }
            };
            let named = |name: &String| takes(document, &object.names, &Value::String(name.clone()), depth + 1);
            within(members.len(), object.min, object.max)
                && object.required.iter().all(|name| members.contains_key(*name))
                && members.iter().all(member)
                && (object.names.is_empty() || members.keys().all(named))
        }
        _ => true,
    }
}
