//! `anyOf` and `oneOf`: one readable sentence out of what every branch has to complain about.

use super::{Explainer, Kind, ValidationError, Value, shown, type_names, wording};

/// What is wrong, and short names for the forms that are allowed.
pub(super) fn describe(
    explainer: Explainer<'_>,
    error: &ValidationError<'_>,
    branches: &[Vec<ValidationError<'_>>],
) -> (String, Value) {
    let at = error.instance_path().as_str();
    let value = error.instance().as_ref();
    if let Some(types) = only_types(at, branches) {
        return (format!("must be {}, got {}", types.join(" or "), shown::typed(value)), types.into());
    }
    if let Some(options) = only_values(at, branches) {
        return (wording::one_of(&options, value), options.into());
    }
    let forms: Vec<String> = branches.iter().enumerate().map(|(index, _)| form(explainer, error, index)).collect();
    let general = "matches none of the forms that are allowed here".to_owned();
    let message = match nearest_branch(at, branches) {
        None => format!("{general} (got {})", shown::typed(value)),
        Some(index) => {
            let wrong: Vec<String> = branches[index].iter().take(3).map(|fault| inner(explainer, at, fault)).collect();
            format!("{general}; nearest is {}: {}", forms[index], wrong.join("; "))
        }
    };
    (message, forms.into())
}

/// The union of the types, if nothing but the type is wrong with every branch.
fn only_types(at: &str, branches: &[Vec<ValidationError<'_>>]) -> Option<Vec<String>> {
    let mut types: Vec<String> = Vec::new();
    for branch in branches {
        let Some(Kind::Type { kind }) = wrong_type(at, branch).map(ValidationError::kind) else { return None };
        for name in type_names(kind) {
            if !types.contains(&name) {
                types.push(name);
            }
        }
    }
    Some(types)
}

/// The union of the values, if every branch is a list of values.
fn only_values(at: &str, branches: &[Vec<ValidationError<'_>>]) -> Option<Vec<Value>> {
    let mut values = Vec::new();
    for branch in branches {
        let listed = branch.iter().filter(|error| error.instance_path().as_str() == at).find_map(|e| match e.kind() {
            Kind::Enum { options } => options.as_array().cloned(),
            Kind::Constant { expected_value } => Some(vec![expected_value.as_ref().clone()]),
            _ => None,
        });
        values.extend(listed?);
    }
    Some(values)
}

fn wrong_type<'a, 'b>(at: &str, branch: &'a [ValidationError<'b>]) -> Option<&'a ValidationError<'b>> {
    branch.iter().find(|error| error.instance_path().as_str() == at && matches!(error.kind(), Kind::Type { .. }))
}

/// The branch that the value comes nearest to, unless two are equally near. A wrong type counts most, then a wrong
/// constant (which tells the variants of a union apart), then everything else.
fn nearest_branch(at: &str, branches: &[Vec<ValidationError<'_>>]) -> Option<usize> {
    let weigh = |branch: &Vec<ValidationError<'_>>| {
        if wrong_type(at, branch).is_some() {
            return None;
        }
        let weight = |error: &ValidationError<'_>| match error.kind() {
            Kind::Constant { .. } => 100,
            Kind::Enum { .. } => 10,
            Kind::AdditionalProperties { unexpected } => 2 * unexpected.len(),
            _ => 2,
        };
        Some(branch.iter().map(weight).sum::<usize>())
    };
    let mut weights: Vec<(usize, usize)> =
        branches.iter().enumerate().filter_map(|(index, branch)| Some((weigh(branch)?, index))).collect();
    weights.sort_unstable();
    match weights.as_slice() {
        [(_, only)] => Some(*only),
        [(best, index), (second, _), ..] if best < second => Some(*index),
        _ => None,
    }
}

/// What is wrong within a branch, with its place below the value.
fn inner(explainer: Explainer<'_>, at: &str, fault: &ValidationError<'_>) -> String {
    let Some(violation) = explainer.explain(fault).into_iter().next() else { return String::new() };
    match violation.pointer.strip_prefix(at) {
        Some("") | None => violation.message,
        Some(below) => format!("{below}: {}", violation.message),
    }
}

/// A short name for a branch: its title, the name of its definition, or its type.
fn form(explainer: Explainer<'_>, error: &ValidationError<'_>, index: usize) -> String {
    let branch = explainer.keyword_value(error).and_then(|branches| branches.get(index));
    let keyword = |name: &str| branch.and_then(|branch| branch.get(name));
    if let Some(title) = keyword("title").and_then(Value::as_str) {
        return title.to_owned();
    }
    if let Some(name) = keyword("$ref").and_then(Value::as_str).and_then(|to| to.rsplit('/').next()) {
        return name.to_owned();
    }
    match keyword("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => format!("form {}", index + 1),
    }
}
