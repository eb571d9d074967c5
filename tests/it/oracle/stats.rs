//! The stats match those recomputed from the stored calls.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{World, is_terminal, text};

pub fn check(world: &World, note: &mut impl FnMut(String)) {
    let Some(tools) = world.stats["tools"].as_array() else { return note(format!("no stats in {}", world.stats)) };
    let mut by_tool: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for call in world.calls.iter().filter(|call| is_terminal(call)) {
        by_tool.entry(text(call, "name")).or_default().push(call);
    }
    for stats in tools {
        let name = text(stats, "tool_name");
        let calls = by_tool.remove(name).unwrap_or_default();
        for (field, expected) in counts(&calls).as_object().unwrap() {
            if stats[field] != *expected {
                note(format!("{field} of {name} is {}, but its stored calls make {expected}", stats[field]));
            }
        }
        for (field, share) in [("p50_duration_ms", 50), ("p95_duration_ms", 95), ("p99_duration_ms", 99)] {
            let exact = percentile(&calls, share);
            if stats[field].as_u64().is_none_or(|found| found.abs_diff(exact) > exact / 100 + 1) {
                note(format!("{field} of {name} is {}, but its stored calls make {exact}", stats[field]));
            }
        }
    }
    for (name, calls) in by_tool {
        note(format!("{name} has {} stored calls and no stats", calls.len()));
    }
}

fn executed<'a>(calls: &[&'a Value]) -> Vec<&'a Value> {
    calls.iter().copied().filter(|call| !call["started_at"].is_null()).collect()
}

fn durations(calls: &[&Value]) -> Vec<u64> {
    let mut durations: Vec<u64> =
        executed(calls).iter().map(|call| call["duration_ms"].as_u64().unwrap_or_default()).collect();
    durations.sort_unstable();
    durations
}

/// Returns the expected stats of one tool.
fn counts(calls: &[&Value]) -> Value {
    let (ran, durations) = (executed(calls), durations(calls));
    let rejected: Vec<&Value> = calls.iter().copied().filter(|call| call["started_at"].is_null()).collect();
    let failures: Vec<&Value> = ran.iter().copied().filter(|call| call["status"] == "ERROR").collect();
    let total: u64 = durations.iter().sum();
    let retries: u64 = calls.iter().map(|call| call["attempts"].as_u64().unwrap_or_default().saturating_sub(1)).sum();
    let count = durations.len() as u64;
    json!({
        "execution_count": count,
        "success_count": count - failures.len() as u64,
        "failure_count": failures.len(),
        "failures_by_code": by_code(&failures),
        "total_duration_ms": total,
        "average_duration_ms": (total + count / 2).checked_div(count).unwrap_or_default(),
        "min_duration_ms": durations.first().copied().unwrap_or_default(),
        "max_duration_ms": durations.last().copied().unwrap_or_default(),
        "retry_count": retries,
        "cache_hit_count": calls.iter().filter(|call| call["cached"] == true).count(),
        "rejected_count": rejected.len(),
        "rejected_by_code": by_code(&rejected),
        "last_called_at": calls.iter().filter_map(|call| call["ended_at"].as_str()).max(),
    })
}

fn by_code(calls: &[&Value]) -> BTreeMap<String, u64> {
    let mut codes = BTreeMap::new();
    for call in calls {
        *codes.entry(text(&call["error"], "code").to_owned()).or_default() += 1;
    }
    codes
}

/// Returns the smallest duration that `share` percent of the calls do not exceed (nearest rank).
fn percentile(calls: &[&Value], share: usize) -> u64 {
    let durations = durations(calls);
    let rank = (durations.len() * share).div_ceil(100);
    rank.checked_sub(1).map_or(0, |index| durations[index])
}
