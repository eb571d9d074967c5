//! `anyOf`, `oneOf` and `not` that are about which properties are present: the names that are missing, and the names
//! that exclude each other.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Explainer, Kind, MAX_VIOLATIONS, ValidationError, Value, json, wrong_type};

/// Characters of a name that are shown.
const MAX_CHARS: usize = 40;

/// What an object lacks for one branch, and what it has too much for it.
#[derive(Default, PartialEq)]
struct Demand {
    missing: BTreeSet<String>,
    surplus: Vec<Exclusion>,
}

/// Properties that must not all be present.
#[derive(Clone, PartialEq)]
struct Exclusion(Vec<String>);

/// A message for an object that satisfies no branch, and what the branches require; `None` if something else than
/// the presence of properties is wrong with one of them.
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
        // A branch that needs another branch's properties and further ones is no shorter way.
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

/// A message for an object that satisfies several branches of a `oneOf`, if they require different properties.
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
    // One form is part of the others: what they have on top of it is too much.
    let more: Vec<&BTreeSet<String>> = own.iter().filter(|names| !names.is_empty()).collect();
    (more.len() + 1 == own.len()).then(|| {
        let more = alternatives(more.into_iter());
        format!("matches more than one of the forms that exclude each other: leave out {more}")
    })
}

/// A message for an object that has what `not` forbids.
pub(super) fn forbidden(schema: &Value) -> Option<String> {
    let exclusions = exclusions(schema)?;
    let (single, several): (Vec<_>, Vec<_>) = exclusions.into_iter().partition(|Exclusion(names)| names.len() == 1);
    let mut texts = Vec::new();
    if !single.is_empty() {
        texts.push(format!("must not have {}", listed(single.iter().flat_map(|Exclusion(names)| names), "or")));
    }
    texts.extend(several.iter().map(|Exclusion(names)| format!("{} exclude each other", listed(names.iter(), "and"))));
    Some(joined(&texts, "and"))
}

/// Properties that each of the branches requires and not all of them require; `None` for fewer than two branches.
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
        branches.iter().map(|index| explainer.required(&format!("{path}/{index}"))).collect::<Option<_>>()?;
    let common = required.iter().skip(1).fold(required[0].clone(), |common, names| &common & names);
    Some(required.iter().map(|names| names.difference(&common).map(|name| (*name).to_owned()).collect()).collect())
}

fn exclusive(own: &[BTreeSet<String>]) -> String {
    let sides: Vec<String> = own.iter().take(MAX_VIOLATIONS).map(|names| listed(names.iter(), "with")).collect();
    format!("{} exclude each other", joined(&sides, "and"))
}

/// What `required` says in each branch, for `expected`.
fn required(explainer: Explainer<'_>, error: &ValidationError<'_>, branches: usize) -> Value {
    let path = error.schema_path().as_str();
    let required = (0..branches).filter_map(|index| explainer.required(&format!("{path}/{index}")));
    required.map(|names| json!({ "required": names })).collect()
}

/// What one branch demands, if its faults are only about which properties the object at `at` has.
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

/// What a schema under `not` forbids, if it only says `required`, or `anyOf` such schemas.
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

/// `a` or `b`; `a` and `b`, or `c`.
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

/// Commas, and the word before the last.
fn joined(texts: &[String], word: &str) -> String {
    match texts {
        [] => String::new(),
        [only] => only.clone(),
        [some @ .., last] => format!("{} {word} {last}", some.join(", ")),
    }
}
