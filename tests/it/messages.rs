//! Model messages: each vendor's message is accepted as it is, and the response has the messages that continue the
//! conversation.

mod answered;
mod golden;
mod native;
mod options;
mod refused;

use serde_json::{Value, json};

/// The names of the vendors' formats.
const VENDORS: [&str; 4] = ["openai", "openai-responses", "anthropic", "gemini"];

/// Builds a message of this vendor with one call for each name; the ids are `call_0` and so on.
fn message(vendor: &str, names: &[&str]) -> Value {
    let ids: Vec<String> = (0..names.len()).map(|n| format!("call_{n}")).collect();
    let calls = names.iter().zip(&ids);
    match vendor {
        "openai" => {
            let call =
                |(name, id)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
            json!({"role": "assistant", "content": null, "tool_calls": calls.map(call).collect::<Value>()})
        }
        "openai-responses" => {
            let call = |(name, id)| json!({"type": "function_call", "call_id": id, "name": name, "arguments": "{}"});
            json!({"object": "response", "output": calls.map(call).collect::<Value>()})
        }
        "anthropic" => {
            let call = |(name, id)| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            json!({"role": "assistant", "content": calls.map(call).collect::<Value>()})
        }
        "gemini" => {
            let call = |(name, id)| json!({"functionCall": {"id": id, "name": name, "args": {}}});
            json!({"role": "model", "parts": calls.map(call).collect::<Value>()})
        }
        other => panic!("{other} is no vendor"),
    }
}

/// Returns the id and the value of each result in `messages`.
fn results(vendor: &str, messages: &Value) -> Vec<(String, Value)> {
    let (list, id): (&Value, fn(&Value) -> &Value) = match vendor {
        "openai" => (messages, |one| &one["tool_call_id"]),
        "openai-responses" => (messages, |one| &one["call_id"]),
        "anthropic" => (&messages[0]["content"], |one| &one["tool_use_id"]),
        _ => (&messages[0]["parts"], |one| &one["functionResponse"]["id"]),
    };
    let list = list.as_array().unwrap_or_else(|| panic!("no results in {messages}"));
    list.iter().map(|one| (id(one).as_str().unwrap().to_owned(), one.clone())).collect()
}

/// Returns the call ids of the results.
fn result_ids(vendor: &str, messages: &Value) -> Vec<String> {
    results(vendor, messages).into_iter().map(|(id, _)| id).collect()
}
