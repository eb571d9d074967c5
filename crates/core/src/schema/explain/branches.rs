//! Violations of `anyOf` and `oneOf`: one readable sentence from the errors of all branches.

use super::{Explainer, Kind, ValidationError, Value, display, required, wording, wrong_type};

const NO_FORM: &str = "matches none of the allowed forms";

/// Returns the message, and short names of the allowed forms.
pub(super) fn describe(
    explainer: Explainer<'_>,
    error: &ValidationError<'_>,
    branches: &[Vec<ValidationError<'_>>],
) -> (String, Value) {
    let at = error.instance_path().as_str();
    let value = error.instance().as_ref();
    if let Some(types) = only_types(explainer, at, branches) {
        return (wording::of_type(&types, value), types.into());
    }
    if let Some(options) = only_values(at, branches.iter()) {
        return (wording::one_of(&options, value), options.into());
    }
    if let Some((message, required)) = required::unsatisfied(explainer, error, branches) {
        return (message, required);
    }
    let forms: Vec<String> = branches.iter().enumerate().map(|(index, _)| form(explainer, error, index)).collect();
    if let Some(wrong) = wrong_tag(at, branches).filter(|_| branches.len() > 1) {
        return (format!("{NO_FORM}: {wrong}"), forms.into());
    }
    let message = match nearest_branch(at, branches) {
        None => format!("{NO_FORM} (got {})", display::typed(value)),
        Some(index) => {
            let wrong: Vec<String> = branches[index].iter().take(3).map(|fault| inner(explainer, at, fault)).collect();
            format!("{NO_FORM}; nearest is {}: {}", forms[index], wrong.join("; "))
        }
    };
    (message, forms.into())
}

/// Returns the union of the types, if every branch rejects only the type of the value.
fn only_types(explainer: Explainer<'_>, at: &str, branches: &[Vec<ValidationError<'_>>]) -> Option<Vec<String>> {
    let mut types: Vec<String> = Vec::new();
    for branch in branches {
        let error = wrong_type(at, branch)?;
        let Kind::Type { kind } = error.kind() else { return None };
        for name in explainer.type_names(error, kind) {
            if !types.contains(&name) {
                types.push(name);
            }
        }
    }
    Some(types)
}

/// Returns the union of the values, if every branch lists values for the location `at`.
fn only_values<'b>(at: &str, branches: impl Iterator<Item = &'b Vec<ValidationError<'b>>>) -> Option<Vec<Value>> {
    let mut values = Vec::new();
    for branch in branches {
        let listed = branch.iter().filter(|error| error.instance_path().as_str() == at).find_map(listed_values);
        values.extend(listed?);
    }
    Some(values)
}

fn listed_values(error: &ValidationError<'_>) -> Option<Vec<Value>> {
    match error.kind() {
        Kind::Enum { options } => options.as_array().cloned(),
        Kind::Constant { expected_value } => Some(vec![expected_value.as_ref().clone()]),
        _ => None,
    }
}

/// Describes the error in the property that discriminates the variants of a union, if no variant matches.
fn wrong_tag(at: &str, branches: &[Vec<ValidationError<'_>>]) -> Option<String> {
    let variants = || branches.iter().filter(|branch| wrong_type(at, branch).is_none());
    let mut tags = variants().next()?.iter().filter(|error| listed_values(error).is_some());
    tags.find_map(|tag| {
        let pointer = tag.instance_path().as_str();
        let values = only_values(pointer, variants())?;
        Some(format!("{}: {}", pointer.strip_prefix(at)?, wording::one_of(&values, tag.instance())))
    })
}

/// Returns the branch that is closest to the value, unless two are equally close. A wrong type rules a branch out. A
/// wrong constant, which usually discriminates the variants of a union, weighs most.
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

/// Describes an error within a branch, with its location below the value.
fn inner(explainer: Explainer<'_>, at: &str, fault: &ValidationError<'_>) -> String {
    let Some(violation) = explainer.explain(fault).into_iter().next() else { return String::new() };
    let below = violation.pointer.strip_prefix(at).unwrap_or_default();
    // For nested forms, only the error in the innermost form is useful.
    let nested = violation.message.strip_prefix(NO_FORM).and_then(|rest| rest.split_once(": ")).map(|(_, wrong)| wrong);
    match nested.filter(|wrong| !wrong.contains("; ")).unwrap_or(&violation.message) {
        wrong if wrong.starts_with('/') => format!("{below}{wrong}"),
        wrong if below.is_empty() => wrong.to_owned(),
        wrong => format!("{below}: {wrong}"),
    }
}

/// Returns a short name for a branch: its title, the name of its definition, or its type.
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
