//! Results that workers post: at most one counts, and it is the stored result. Late ones are ignored.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Evidence, text};

/// A result that a worker has posted, with the first complete response.
#[derive(Debug, Clone)]
pub struct PostedResult {
    /// The number of its run.
    pub number: usize,
    /// The id of its call.
    pub id: String,
    pub status: u16,
    pub is_ignored: bool,
    /// Whether the result was sent only once. Otherwise an earlier request may have been received.
    pub is_first: bool,
}

/// The receipt of a posted result.
#[derive(Debug, Clone)]
pub struct Receipt {
    /// The id of its call.
    pub id: String,
    /// The result as text.
    pub result: String,
    pub is_ignored: bool,
}

impl Receipt {
    /// Returns the violations of the rule that each receipt is true: the result is that of its call, unless it was ignored.
    pub fn violations(receipts: &[Self], calls: &[Value]) -> Vec<String> {
        let violation = |receipt: &Self| {
            let Some(call) = calls.iter().find(|call| text(call, "id") == receipt.id) else {
                return Some(format!("{receipt:?} is of no call that is stored"));
            };
            let is_of_call = call["status"] == "SUCCESS" && call["output"] == receipt.result;
            match (receipt.is_ignored, is_of_call) {
                (false, false) => {
                    Some(format!("a receipt says that a result counts, but it does not: {receipt:?} of {call}"))
                }
                (true, true) => {
                    Some(format!("a receipt says that a result was ignored, but it counts: {receipt:?} of {call}"))
                }
                (true, false) | (false, true) => None,
            }
        };
        receipts.iter().filter_map(violation).collect()
    }
}

pub fn check(evidence: &Evidence, note: &mut impl FnMut(String)) {
    Receipt::violations(&evidence.receipts, &evidence.world.calls).into_iter().for_each(&mut *note);
    let calls: BTreeMap<&str, &Value> = evidence.world.calls.iter().map(|call| (text(call, "id"), call)).collect();
    for posted in &evidence.posted {
        let Some(call) = calls.get(posted.id.as_str()) else {
            note(format!("{posted:?} is of no call that is stored"));
            continue;
        };
        if posted.status != 200 {
            note(format!("a result got an unexpected response: {posted:?} of {call}"));
        } else if !posted.is_ignored && !is_of(call, posted) {
            note(format!("a result was acknowledged, but is not the stored one: {posted:?} of {call}"));
        } else if posted.is_ignored && posted.is_first && is_of(call, posted) {
            note(format!("a result was ignored, but is the stored one: {posted:?} of {call}"));
        }
    }
}

/// Returns `true` if the call has ended with the result of this run.
fn is_of(call: &Value, posted: &PostedResult) -> bool {
    call["status"] == "SUCCESS" && call["output"] == format!("run {}", posted.number)
}
