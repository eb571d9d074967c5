//! Checks whether a conjunction allows `null`, which depends on only a few keywords.

use serde_json::Value;

use super::conjunction::{Conjunction, Part, Term, flatten};
use crate::schema::document::Document;
use crate::schema::types::Types;

/// Maximum nesting of combinators; deeper ones are assumed to reject `null`.
const MAX_DEPTH: usize = 64;

pub(super) fn is_valid<'a>(document: &Document<'a>, conj: &[Term<'a>]) -> bool {
    all(document, conj, 0)
}

fn all<'a>(document: &Document<'a>, conj: &[Term<'a>], depth: usize) -> bool {
    let flat = flatten(document, conj);
    let some =
        |branches: &std::rc::Rc<[Conjunction<'a>]>| branches.iter().any(|branch| all(document, branch, depth + 1));
    depth < MAX_DEPTH
        && !flat.never
        && flat.any.iter().all(some)
        && flat.parts.iter().all(|part| takes(document, part, depth))
}

fn takes<'a>(document: &Document<'a>, part: &Part<'a>, depth: usize) -> bool {
    let Value::Object(keywords) = part.schema else { return true };
    let inner = |schema: &'a Value| all(document, &[Term::of(schema)], depth + 1);
    let each = |schemas: &'a Value| schemas.as_array().into_iter().flatten();
    keywords.iter().filter(|(keyword, _)| part.counts(keyword)).all(|(keyword, value)| match keyword.as_str() {
        "type" => Types::read(value).meets(crate::schema::types::Types::NULL),
        "enum" => each(value).any(Value::is_null),
        "const" => value.is_null(),
        "anyOf" => each(value).any(inner),
        "oneOf" => each(value).filter(|schema| inner(schema)).count() == 1,
        "not" => !inner(value),
        "if" => {
            let side = if inner(value) { "then" } else { "else" };
            part.schema.get(side).is_none_or(inner)
        }
        _ => true,
    })
}
