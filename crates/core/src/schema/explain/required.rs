//! Violations of `anyOf`, `oneOf` and `not` that concern the presence of properties: missing properties, and properties
//! that exclude each other.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Explainer, Kind, MAX_VIOLATIONS, ValidationError, Value, json, wrong_type};

/// Maximum number of characters shown of a name.
const MAX_CHARS: usize = 40;

/// The changes that an object needs to match one branch.
#[derive(Default, PartialEq)]
struct Demand {
    missing: BTreeSet<String>,
    surplus: Vec<Exclusion>,
}

/// Properties that must not all be present.
#[derive(Clone, PartialEq)]
struct Exclusion(Vec<String>);

/// Describes an object that matches no branch, and returns the properties that the branches require. Returns `None` if
/// a branch fails for any other reason than the presence of properties.
pub(super) fn unsatisfied(
    explainer: Explainer<'_>,
    error: &ValidationError<'_>,
    branches: &[Vec<ValidationError<'_>>],
) -> Option<(String, Value)> {
    let at = error.instance_path().as_str();
    let mut demands: Vec<(usize, Demand)> = Vec::new();
    for (index, branch) in branches.iter().enumerate().filter(|(_, branch)| wrong_type(at, branch).is_none()) {
        let demand = demand(at, branch)?;
        if demands.iter().all(|(_, other)| *other != demand) {
            demands.push((index, demand));
        }
    }
    if demands.is_empty() {
        return None;
    }
    let excluded: Vec<usize> =
        demands.iter().filter(|(_, demand)| demand.missing.is_empty()).map(|(index, _)| *index).collect();
    let own = own_properties(explainer, error, &excluded).filter(|own| own.iter().all(|names| !names.is_empty()));
    let message = if let Some(own) = own {
        exclusive(&own)
    } else if excluded.is_empty() && demands.iter().all(|(_, demand)| demand.surplus.is_empty()) {
        // Branches that need more than another branch are not worth suggesting.
        let smaller = |demand: &Demand| {
            demands.iter().any(|(_, other)| other.missing != demand.missing && other.missing.is_subset(&demand.missing))
        };
        let needed = demands.iter().filter(|(_, demand)| !smaller(demand));
        format!("needs {}", alternatives(needed.map(|(_, demand)| &demand.missing)))
    } else {
        demands.iter().take(MAX_VIOLATIONS).map(|(_, demand)| demand.text()).collect::<Vec<_>>().join(", or ")
    };
    Some((message, required(explainer, error, branches.len())))
}

/// Describes an object that matches several branches of a `oneOf`, if the branches require different properties.
pub(super) fn ambiguous(
    explainer: Explainer<'_>,
    error: &ValidationError<'_>,
    branches: &[Vec<ValidationError<'_>>],
) -> Option<String> {
    let matched: Vec<usize> = (0..branches.len()).filter(|index| branches[*index].is_empty()).collect();
    let own = own_properties(explainer, error, &matched)?;
    if own.iter().all(|names| !names.is_empty()) {
        return Some(exclusive(&own));
    }
    // One form is a subset of the others, so the additional properties of the others are too many.
    let more: Vec<&BTreeSet<String>> = own.iter().filter(|names| !names.is_empty()).collect();
    (more.len() + 1 == own.len()).then(|| {
        let more = alternatives(more.into_iter());
        format!("matches more than one of the mutually exclusive forms: omit {more}")
    })
}

/// Describes an object that has properties forbidden by `not`.
pub(super) fn forbidden(schema: &Value) -> Option<String> {
    let exclusions = exclusions(schema)?;
    let (single, several): (Vec<_>, Vec<_>) = exclusions.into_iter().partition(|Exclusion(names)| names.len() == 1);
    let mut texts = Vec::new();
    if !single.is_empty() {
        texts.push(format!("must not have {}", listed(single.iter().flat_map(|Exclusion(names)| names), "or")));
    }
    texts.extend(
        several.iter().map(|Exclusion(names)| {
            format!("{} are mutually exclusive: omit one of them", listed(names.iter(), "and"))
        }),
    );
    Some(joined(&texts, "and"))
}

/// Returns for each branch the properties that it requires, without the properties of all branches; `None` for fewer
/// than two branches.
fn own_properties(
    explainer: Explainer<'_>,
    error: &ValidationError<'_>,
    branches: &[usize],
) -> Option<Vec<BTreeSet<String>>> {
    if branches.len() < 2 {
        return None;
    }
    let path = error.schema_path().as_str();
    let required: Vec<BTreeSet<&str>> =
        branches.iter().map(|index| explainer.graph?.required(&format!("{path}/{index}"))).collect::<Option<_>>()?;
    let common = required.iter().skip(1).fold(required[0].clone(), |common, names| &common & names);
    Some(required.iter().map(|names| names.difference(&common).map(|name| (*name).to_owned()).collect()).collect())
}

fn exclusive(own: &[BTreeSet<String>]) -> String {
    let sides: Vec<String> = own.iter().take(MAX_VIOLATIONS).map(|names| listed(names.iter(), "with")).collect();
    format!("{} are mutually exclusive: give only one of them", joined(&sides, "and"))
}

/// Returns the `required` properties of each branch, for `expected`.
fn required(explainer: Explainer<'_>, error: &ValidationError<'_>, branches: usize) -> Value {
    let path = error.schema_path().as_str();
    let required = (0..branches).filter_map(|index| explainer.graph?.required(&format!("{path}/{index}")));
    required.map(|names| json!({ "required": names })).collect()
}

/// Returns the demands of one branch, if all its errors concern the presence of properties of the object at `at`.
fn demand(at: &str, branch: &[ValidationError<'_>]) -> Option<Demand> {
    let mut demand = Demand::default();
    for fault in branch {
        if fault.instance_path().as_str() != at {
            return None;
        }
        match fault.kind() {
            Kind::Required { property } => {
                demand.missing.insert(property.as_str()?.to_owned());
            }
            Kind::Not { schema } => demand.surplus.extend(exclusions(schema)?),
            _ => return None,
        }
    }
    (!branch.is_empty()).then_some(demand)
}

/// Returns the exclusions of a schema under `not`, if it consists of `required`, or of `anyOf` with such schemas.
fn exclusions(schema: &Value) -> Option<Vec<Exclusion>> {
    let keywords = schema.as_object()?;
    let silent = |keyword: &str| matches!(keyword, "type" | "title" | "description" | "$comment");
    let mut telling = keywords.iter().filter(|(keyword, _)| !silent(keyword));
    let (keyword, value) = telling.next()?;
    if telling.next().is_some() || keywords.get("type").is_some_and(|name| name != "object") {
        return None;
    }
    let items = value.as_array().filter(|items| !items.is_empty())?;
    match keyword.as_str() {
        "required" => {
            let names = items.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
            Some(vec![Exclusion(names)])
        }
        "anyOf" => items.iter().map(exclusions).collect::<Option<Vec<_>>>().map(|found| found.concat()),
        _ => None,
    }
}

impl Demand {
    fn text(&self) -> String {
        let surplus: Vec<String> = self.surplus.iter().map(|Exclusion(names)| listed(names.iter(), "with")).collect();
        match (self.missing.is_empty(), surplus.is_empty()) {
            (true, _) => format!("must not have {}", joined(&surplus, "or")),
            (false, true) => format!("needs {}", listed(self.missing.iter(), "and")),
            (false, false) => {
                format!("needs {} without {}", listed(self.missing.iter(), "and"), joined(&surplus, "or"))
            }
        }
    }
}

/// Joins sets of names, as in "`a` or `b`" and "`a` and `b`, or `c`".
fn alternatives<'a>(sets: impl Iterator<Item = &'a BTreeSet<String>>) -> String {
    let sets: Vec<&BTreeSet<String>> = sets.take(MAX_VIOLATIONS).collect();
    let texts: Vec<String> = sets.iter().map(|names| listed(names.iter(), "and")).collect();
    if sets.iter().all(|names| names.len() == 1) { joined(&texts, "or") } else { texts.join(", or ") }
}

fn listed<'a>(names: impl Iterator<Item = &'a String>, word: &str) -> String {
    let names: Vec<String> =
        names.take(MAX_VIOLATIONS).map(|name| format!("`{}`", json::shorten(name, MAX_CHARS))).collect();
    joined(&names, word)
}

/// Joins texts with commas, and the last two with the word.
fn joined(texts: &[String], word: &str) -> String {
    match texts {
        [] => String::new(),
        [only] => only.clone(),
        [some @ .., last] => format!("{} {word} {last}", some.join(", ")),
    }
}
