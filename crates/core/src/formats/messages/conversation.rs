//! The conversation of a session in a vendor's format: calls and results, batch by batch.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Continuation, ids};
use crate::domain::{Call, Phase, Vendor, json as json_text};

/// Returns the messages of these calls, which must be in the order of their acceptance. The calls of a batch are
/// together, and each batch is answered before the next one starts. Every call has one result; a pending call has a
/// note instead. Calls with incomplete arguments are skipped. Ids are unique: if the model reused an id, the later call
/// has the service's id. `name_of` returns the name of a call's tool for the vendor's models.
#[must_use]
pub fn conversation<'a>(vendor: Vendor, calls: &'a [Call], name_of: impl Fn(&'a Call) -> String) -> Value {
    let mut taken = HashSet::new();
    let mut messages = Vec::new();
    for batch in group_by_batch(calls) {
        let mut continuation = Continuation::new(vendor);
        let mut requests = Vec::with_capacity(batch.len());
        for call in &batch {
            let (id, name) = (unique_id(vendor, call, &mut taken), name_of(call));
            continuation.push(Some(&id), &name, super::Kind::Function);
            requests.push(request(vendor, &id, &name, call));
        }
        match vendor {
            Vendor::OpenAi => messages.push(json!({ "role": "assistant", "content": null, "tool_calls": requests })),
            Vendor::OpenAiResponses => messages.extend(requests),
            Vendor::Anthropic => messages.push(json!({ "role": "assistant", "content": requests })),
            Vendor::Gemini => messages.push(json!({ "role": "model", "parts": requests })),
        }
        if let Value::Array(results) = continuation.messages(&batch) {
            messages.extend(results);
        }
    }
    Value::Array(messages)
}

/// Groups calls by batch, in the order of the first call of each batch.
fn group_by_batch(calls: &[Call]) -> Vec<Vec<&Call>> {
    let mut batches: Vec<Vec<&Call>> = Vec::new();
    let mut indexes = HashMap::new();
    for call in calls.iter().filter(|call| call.phase != Phase::Arguments) {
        let next = batches.len();
        let index = call.batch_id.map_or(next, |batch| *indexes.entry(batch).or_insert(next));
        if index == next {
            batches.push(Vec::new());
        }
        batches[index].push(call);
    }
    batches.iter_mut().for_each(|batch| batch.sort_by_key(|call| (call.index, call.id)));
    batches
}

/// Returns the call's id if the vendor accepts it and it is unused, or another id.
fn unique_id(vendor: Vendor, call: &Call, taken: &mut HashSet<String>) -> String {
    let first = ids::accepted(vendor, &call.call_id);
    let others = (0_u32..).map(|n| match n {
        0 => call.id.to_string(),
        n => ids::accepted(vendor, &format!("{}-{n}", call.id)),
    });
    let free = std::iter::once(first).chain(others).find(|id| !id.is_empty() && !taken.contains(id));
    let id = free.unwrap_or_else(|| call.id.to_string());
    taken.insert(id.clone());
    id
}

fn request(vendor: Vendor, id: &str, name: &str, call: &Call) -> Value {
    let arguments = Value::Object(arguments(&call.arguments));
    match vendor {
        Vendor::OpenAi => json!({
            "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() },
        }),
        Vendor::OpenAiResponses => json!({
            "type": "function_call", "call_id": id, "name": name, "arguments": arguments.to_string(),
        }),
        Vendor::Anthropic => json!({ "type": "tool_use", "id": id, "name": name, "input": arguments }),
        Vendor::Gemini => json!({ "functionCall": { "id": id, "name": name, "args": arguments } }),
    }
}

/// Returns the arguments as an object, which every vendor requires. Other values are wrapped in an object.
fn arguments(given: &Arc<Value>) -> Map<String, Value> {
    let parsed = match &**given {
        Value::String(text) if text.trim().is_empty() => Value::Null,
        Value::String(text) => json_text::parse(text.as_bytes()).unwrap_or_else(|_| text.as_str().into()),
        other => other.clone(),
    };
    match parsed {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        _ => Map::from_iter([("arguments".to_owned(), Value::clone(given))]),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::call::CallRecord;
    use crate::domain::{Failure, Outcome, Time};

    const VENDORS: [Vendor; 4] = [Vendor::OpenAi, Vendor::OpenAiResponses, Vendor::Anthropic, Vendor::Gemini];

    fn call(n: u128, id: &str, arguments: Value) -> Call {
        Call::from(CallRecord::accepted(
            Uuid::from_u128(n),
            "t".into(),
            Some(id),
            Arc::new(arguments),
            Time(0),
            "n".into(),
        ))
    }

    fn ended(mut call: Call) -> Call {
        call.settle(Failure::cancelled().into(), Time(1)).unwrap();
        call
    }

    /// Returns the ids of calls and of results, each in order.
    fn ids(vendor: Vendor, messages: &Value) -> (Vec<String>, Vec<String>) {
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        for message in messages.as_array().unwrap() {
            let parts = |name: &str| message[name].as_array().cloned().unwrap_or_default();
            match vendor {
                Vendor::OpenAi => {
                    calls.extend(parts("tool_calls").iter().map(|call| text(&call["id"])));
                    results.extend(message.get("tool_call_id").map(text));
                }
                Vendor::OpenAiResponses => match message["type"].as_str().unwrap() {
                    "function_call" => calls.push(text(&message["call_id"])),
                    _ => results.push(text(&message["call_id"])),
                },
                Vendor::Anthropic => {
                    calls.extend(parts("content").iter().filter_map(|block| block.get("id").map(text)));
                    results.extend(parts("content").iter().filter_map(|block| block.get("tool_use_id").map(text)));
                }
                Vendor::Gemini => {
                    calls.extend(parts("parts").iter().filter_map(|part| part["functionCall"].get("id").map(text)));
                    results
                        .extend(parts("parts").iter().filter_map(|part| part["functionResponse"].get("id").map(text)));
                }
            }
        }
        (calls, results)
    }

    #[test]
    fn each_call_has_one_result_and_a_unique_id() {
        let ours = Uuid::from_u128(3).to_string();
        let calls: Vec<Call> =
            [call(1, "call_0", json!({})), call(2, "call_0", json!({})), call(3, "call_0", json!({}))]
                .into_iter()
                .chain([call(4, &ours, json!({})), call(5, "a b/ü", json!({}))])
                .map(ended)
                .collect();
        for vendor in VENDORS {
            let (request_ids, answered) = ids(vendor, &conversation(vendor, &calls, |call| call.name.to_string()));
            assert_eq!((request_ids.len(), &request_ids), (5, &answered), "{vendor:?}");
            assert_eq!(request_ids.iter().collect::<HashSet<_>>().len(), 5, "{request_ids:?}");
        }
    }

    #[test]
    fn batch_is_one_message_in_order() {
        let batch = Uuid::from_u128(9);
        let of_batch = |n, id, index| {
            let record = ended(call(n, id, json!({}))).into_record();
            Call::from(CallRecord { batch_id: Some(batch), index, ..record })
        };
        let calls = [of_batch(1, "b", 1), ended(call(2, "alone", json!({}))), of_batch(3, "a", 0)];
        let messages = conversation(Vendor::OpenAi, &calls, |call| call.name.to_string());
        let roles: Vec<&str> = messages.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["assistant", "tool", "tool", "assistant", "tool"]);
        assert_eq!(ids(Vendor::OpenAi, &messages).1, ["a", "b", "alone"]);
    }

    #[test]
    fn pending_call_has_a_note_and_incomplete_call_is_skipped() {
        let mut open = call(2, "open", json!(""));
        open.await_arguments();
        let calls = [call(1, "going", json!("")), open];
        for vendor in VENDORS {
            let messages = conversation(vendor, &calls, |call| call.name.to_string());
            assert_eq!(ids(vendor, &messages), (vec!["going".to_owned()], vec!["going".to_owned()]));
            assert!(messages.to_string().contains("runs in the background"), "{messages}");
        }
    }

    #[test]
    fn arguments_are_always_an_object() {
        let given =
            [json!("{\"a\": 1}"), json!({"a": 1}), json!(" "), json!(null), json!("{\"a"), json!([1]), json!("[1]")];
        let shown = given.map(|given| Value::Object(arguments(&Arc::new(given))));
        let expected = [
            json!({"a": 1}),
            json!({"a": 1}),
            json!({}),
            json!({}),
            json!({"arguments": "{\"a"}),
            json!({"arguments": [1]}),
            json!({"arguments": "[1]"}),
        ];
        assert_eq!(shown, expected);
        let mut good = call(1, "x", json!({}));
        good.start(Time(0)).unwrap();
        good.settle(Outcome::text("fine"), Time(1)).unwrap();
        assert_eq!(
            conversation(Vendor::Anthropic, &[good], |_| "t".to_owned())[1]["content"][0]["is_error"],
            json!(false)
        );
    }
}
