//! Calls in the native format: a single call or a batch.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::options::{CallOptions, check_length};
use super::{HttpResult, Problem};
use crate::domain::{CallRequest, json};
use crate::formats::stream::partial;

/// Maximum length of a name or call id, in characters (docs/reference/contract.md, section 1).
const MAX_ID_CHARS: usize = 512;

/// Parses the calls of a batch of at most `max` calls.
pub(super) fn batch(calls: Value, max: usize) -> HttpResult<Vec<CallRequest>> {
    let Value::Array(items) = calls else {
        return Err(Problem::field("/calls", format!("must be an array, not {}", json::type_name(&calls))));
    };
    if items.is_empty() {
        return Err(Problem::field("/calls", format!("must have 1 to {max} calls, not 0")));
    }
    if items.len() > max {
        return Err(Problem::batch_too_large("/calls", max, items.len()));
    }
    let mut seen = HashSet::new();
    let mut requests = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let pointer = format!("/calls/{index}");
        let Value::Object(mut item) = item else {
            return Err(Problem::field(pointer, format!("must be an object, not {}", json::type_name(&item))));
        };
        let mut request = call(&mut item, &pointer)?;
        let options = CallOptions::read(item, &pointer)?;
        (request.limits, request.retry, request.priority) = (options.limits, options.retry, options.priority);
        if let Some(id) = &request.call_id
            && !seen.insert(id.clone())
        {
            return Err(Problem::field(format!("{pointer}/id"), "is the id of another call of this batch"));
        }
        requests.push(request);
    }
    Ok(requests)
}

/// Parses a call and removes its members from the object. Other members stay.
pub(super) fn call(item: &mut Map<String, Value>, pointer: &str) -> HttpResult<CallRequest> {
    let text = |value: Option<Value>, member: &str| match value {
        Some(Value::String(text)) => Ok(Some(text)),
        None | Some(Value::Null) => Ok(None),
        Some(other) => {
            let message = format!("must be a string, not {}", json::type_name(&other));
            Err(Problem::field(format!("{pointer}{member}"), message))
        }
    };
    let Some(name) = text(item.shift_remove("name"), "/name")? else {
        let hint = if pointer.is_empty() {
            "; send one call with `name`, several in `calls`, or a model's message"
        } else {
            ""
        };
        return Err(Problem::field(format!("{pointer}/name"), format!("is missing{hint}")));
    };
    check_length(&name, MAX_ID_CHARS, || format!("{pointer}/name"))?;
    let call_id = text(item.shift_remove("id"), "/id")?.filter(|id| !id.is_empty());
    if let Some(id) = &call_id {
        check_length(id, MAX_ID_CHARS, || format!("{pointer}/id"))?;
    }
    let arguments = item.shift_remove("arguments");
    Ok(CallRequest { name, call_id, arguments, ..CallRequest::default() })
}

/// Marks the only call of a request as one with streamed arguments.
pub(super) fn open(requests: &mut [CallRequest], is_batch: bool) -> HttpResult<()> {
    let [request] = requests else { return Err(Problem::field("/partial", "requires exactly one call")) };
    if is_batch {
        return Err(Problem::field("/partial", "requires a single call in the native format, without `format`"));
    }
    if let Some(given) = request.arguments.as_ref().filter(|given| !given.is_string() && !given.is_null()) {
        let message = format!(
            "must be a string with the beginning of the JSON text if `partial` is set, not {}",
            json::type_name(given)
        );
        return Err(Problem::field("/arguments", message));
    }
    if request.arguments.as_ref().and_then(Value::as_str).is_some_and(|text| text.len() > partial::LIMIT) {
        return Err(Problem::arguments_too_large(partial::LIMIT));
    }
    request.streamed = true;
    Ok(())
}
