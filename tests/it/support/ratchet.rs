//! Counts that may only fall, until they are within their targets.

use std::collections::BTreeMap;
use std::{env, fs};

use super::fixture::project_file;

/// Occurrences that are listed of a count that is too high.
const LISTED: usize = 100;

/// A count with its upper bound.
pub struct Figure {
    pub name: String,
    pub count: usize,
    /// The bound that holds once the count has reached it.
    pub target: usize,
    /// What to do instead.
    pub hint: String,
    /// The places of the counted items, as `FILE:LINE: TEXT`.
    pub places: Vec<String>,
}

/// Checks that no figure is above its target, or above the count that `tests/fixtures/NAME.json` keeps for it.
///
/// With `UPDATE_FIXTURES=1`, counts that have fallen are written to the fixture; no count is raised.
pub fn check(name: &str, figures: &[Figure]) {
    let file = project_file(&format!("tests/fixtures/{name}.json"));
    let kept = fs::read_to_string(&file).ok();
    let kept: Option<BTreeMap<String, usize>> = kept.map(|text| serde_json::from_str(&text).unwrap());
    if env::var_os("UPDATE_FIXTURES").is_some_and(|value| value == "1") {
        let text = serde_json::to_string_pretty(&lowered(kept.as_ref(), figures)).unwrap() + "\n";
        fs::write(&file, text).unwrap();
    }
    // A fixture that has just been created holds today's counts.
    let kept = kept.unwrap_or_else(|| lowered(None, figures));
    let failures: Vec<String> = figures.iter().filter_map(|figure| failure(&kept, figure)).collect();
    assert!(failures.is_empty(), "counts that must not rise:\n\n{}", failures.join("\n\n"));
}

/// Returns the counts to keep: those above their targets, and none higher than before.
fn lowered(kept: Option<&BTreeMap<String, usize>>, figures: &[Figure]) -> BTreeMap<String, usize> {
    let count = |figure: &Figure| match kept {
        Some(kept) => figure.count.min(kept.get(&figure.name).copied().unwrap_or(figure.target)),
        None => figure.count,
    };
    let above = figures.iter().filter(|figure| count(figure) > figure.target);
    above.map(|figure| (figure.name.clone(), count(figure))).collect()
}

fn failure(kept: &BTreeMap<String, usize>, figure: &Figure) -> Option<String> {
    let Figure { name, count, target, hint, places } = figure;
    let bound = (*target).max(kept.get(name).copied().unwrap_or(0));
    if *count <= bound {
        return None;
    }
    let mut lines = vec![format!("{name}: {count}, at most {bound} (target {target}). {hint}")];
    lines.extend(places.iter().take(LISTED).map(|place| format!("  {place}")));
    if places.len() > LISTED {
        lines.push(format!("  and {} more", places.len() - LISTED));
    }
    Some(lines.join("\n"))
}

#[test]
fn counts_fall_until_their_target_and_never_rise() {
    let figure = |count| Figure { name: "x".into(), count, target: 2, hint: String::new(), places: Vec::new() };
    let kept = |count| BTreeMap::from([("x".to_owned(), count)]);
    for (before, count, after, fails) in [
        (Some(kept(9)), 10, kept(9), true),
        (Some(kept(9)), 9, kept(9), false),
        (Some(kept(9)), 5, kept(5), false),
        (Some(kept(9)), 2, BTreeMap::new(), false),
        (Some(BTreeMap::new()), 2, BTreeMap::new(), false),
        (Some(BTreeMap::new()), 3, BTreeMap::new(), true),
        (None, 10, kept(10), false),
    ] {
        let next = lowered(before.as_ref(), &[figure(count)]);
        assert_eq!(next, after, "{before:?}, then {count}");
        assert_eq!(
            failure(before.as_ref().unwrap_or(&next), &figure(count)).is_some(),
            fails,
            "{before:?}, then {count}"
        );
    }
}
