//! Detects `oneOf` branches that exclude each other, so that `anyOf` is equivalent.

use serde_json::Value;

use super::compare::same;
use super::conjunction::{Conjunction, Term, flatten};
use super::lowering::Lowering;
use super::shape::Shape;
use crate::schema::types::Types;

const MAX_DEPTH: usize = 4;

impl<'a> Lowering<'a, '_> {
    /// Returns `true` if no value can match two branches, provided that objects are closed.
    pub(super) fn are_exclusive(&self, branches: &[Conjunction<'a>]) -> bool {
        // The comparison is quadratic.
        branches.len() <= 64
            && branches.iter().enumerate().all(|(index, one)| {
                let others = branches.iter().enumerate().filter(|(other, _)| *other != index);
                others.into_iter().all(|(_, other)| self.excludes(one, other, 0))
            })
    }

    /// Returns `true` if no value that is built for `from` is valid for `other`; `false` if this is not obvious.
    fn excludes(&self, from: &[Term<'a>], other: &[Term<'a>], depth: usize) -> bool {
        let shape = |conj: &[Term<'a>]| Shape::of(self.document, flatten(self.document, conj));
        let (mut from, mut other) = (shape(from), shape(other));
        if depth > MAX_DEPTH {
            return false;
        }
        if from.never || other.never || !implied_kinds(&from).meets(other.kinds) {
            return true;
        }
        if let Some(group) = from.groups.pop() {
            let other = self.without_groups(&other);
            return self.with_each_branch(&from, &group, 0).iter().all(|from| self.excludes(from, &other, depth + 1));
        }
        if let Some(group) = other.groups.pop() {
            let from = self.without_groups(&from);
            return self.with_each_branch(&other, &group, 0).iter().all(|other| self.excludes(&from, other, depth + 1));
        }
        if let Some(values) = &from.values {
            let taken = |value: &&Value| {
                let listed = other.values.as_ref().is_none_or(|values| values.iter().any(|other| same(other, value)));
                listed && Types::of(value).meets(other.kinds)
            };
            return !values.iter().any(taken);
        }
        if implied_kinds(&from).intersect(other.kinds) != Types::OBJECT {
            return false;
        }
        let closed = !from.object.properties.is_empty() || from.is_closed();
        let lacks =
            |name: &&str| closed && from.object.declared(name).is_none() && !from.object.required.contains(name);
        if other.object.required.iter().any(lacks) {
            return true;
        }
        from.object.required.iter().any(|name| match (from.object.declared(name), other.object.declared(name)) {
            (Some(one), Some(there)) => self.excludes(one, there, depth + 1),
            (_, None) => other.is_closed(),
            _ => false,
        })
    }

    /// Returns the shape's parts again, with its remaining groups.
    fn without_groups(&self, shape: &Shape<'a>) -> Conjunction<'a> {
        let parts = shape.parts.iter().map(|part| Term::Part(*part));
        let made = shape.groups.iter().filter(|group| group.part.is_none());
        parts.chain(made.map(|group| Term::Any(group.branches.clone().into()))).collect()
    }
}

/// Returns the types of the values that are built for a shape.
fn implied_kinds(shape: &Shape) -> Types {
    if shape.groups.is_empty() { shape.implied_kinds().unwrap_or(shape.kinds) } else { shape.kinds }
}
