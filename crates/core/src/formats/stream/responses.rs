//! OpenAI's Responses: every call is an output item, which is added, filled and done.

mod item;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use self::item::Item;
use super::calls::Calls;
use super::data::{Object, error_message, take_object, take_objects, take_text, text};
use super::error::StreamError;

/// A parser for Responses, with the items that are calls.
#[derive(Debug, Default)]
pub(super) struct Responses {
    items: Vec<Item>,
    /// `true` if custom calls belong to the provider: the request had tools, but no custom tool.
    customs_are_provided: bool,
}

/// Events with more arguments of a call.
const DELTAS: [&str; 3] = [
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
    "response.mcp_call_arguments.delta",
];

/// The most frequent event.
#[derive(Deserialize)]
struct Frequent<'e> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'e, str>,
    output_index: Option<u64>,
    #[serde(borrow)]
    item_id: Option<Cow<'e, str>>,
    #[serde(borrow)]
    delta: Cow<'e, str>,
}

/// Returns `true` if an event adds to an item that is not a call. Only its type is read.
pub(super) fn is_foreign(data: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Typed<'e> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'e, str>,
    }
    let Ok(Typed { kind }) = serde_json::from_slice(data) else { return false };
    kind.starts_with("response.")
        && (kind.ends_with(".delta") || kind.ends_with("_text.done"))
        && !kind.contains("call")
}

impl Responses {
    /// Handles the frequent event without building a value, or returns `false`.
    pub(super) fn frequent(&mut self, data: &[u8], calls: &mut Calls) -> bool {
        let Ok(Frequent { kind, output_index, item_id, delta }) = serde_json::from_slice(data) else { return false };
        if DELTAS.contains(&&*kind)
            && let Some(item) = self.find(item_id.as_deref(), output_index)
        {
            calls.delta(item.call_index, delta.into_owned());
        }
        kind.starts_with("response.") && kind.ends_with(".delta")
    }

    pub(super) fn event(&mut self, mut event: Object, calls: &mut Calls) -> Result<(), StreamError> {
        let Some(kind) = take_text(&mut event, "type") else {
            // Servers that do not stream send a complete response.
            return if text(&event, "object") == Some("response") { self.end(event, calls) } else { Ok(()) };
        };
        match kind.as_str() {
            "response.created" | "response.in_progress" => {
                let mut response = take_object(&mut event, "response").unwrap_or_default();
                let tools: Vec<Object> = take_objects(&mut response, "tools").collect();
                let is_custom = |tool: &Object| text(tool, "type") == Some("custom");
                self.customs_are_provided = !tools.is_empty() && !tools.iter().any(is_custom);
            }
            "response.output_item.added" => {
                self.close_waiting(calls);
                let index = index_of(&event);
                if let Some(item) = take_object(&mut event, "item") {
                    self.announce(index, item, calls)?;
                }
            }
            kind if DELTAS.contains(&kind) => {
                let Some(item) = self.find(text(&event, "item_id"), index_of(&event)) else { return Ok(()) };
                let Some(Value::String(text)) = event.remove("delta") else {
                    return Err(StreamError::Misshapen("`delta`"));
                };
                calls.delta(item.call_index, text);
            }
            "response.function_call_arguments.done"
            | "response.custom_tool_call_input.done"
            | "response.mcp_call_arguments.done" => {
                let arguments = event.remove("arguments").or_else(|| event.remove("input"));
                if let Some(item) = self.find(text(&event, "item_id"), index_of(&event)) {
                    item.set_arguments(arguments);
                }
            }
            "response.output_item.done" => {
                let index = index_of(&event);
                if let Some(item) = take_object(&mut event, "item") {
                    self.item_done(index, item, calls)?;
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.done"
            | "response.cancelled"
            | "response.failed" => {
                let mut response = take_object(&mut event, "response").unwrap_or_default();
                if text(&response, "status").is_none() {
                    let status = kind.trim_start_matches("response.").replace("done", "completed");
                    response.insert("status".to_owned(), status.into());
                }
                self.end(response, calls)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds an item.
    fn announce(&mut self, index: Option<u64>, item: Object, calls: &mut Calls) -> Result<Option<usize>, StreamError> {
        let Some(item) = Item::open(index, item, self.customs_are_provided, calls)? else { return Ok(None) };
        self.items.push(item);
        Ok(Some(self.items.len() - 1))
    }

    /// Finds the item of a delta. Some servers send a new `item_id` every time, others a wrong index.
    fn find(&mut self, id: Option<&str>, index: Option<u64>) -> Option<&mut Item> {
        let at = self.items.iter().rposition(|item| id.is_some() && item.item_id.as_deref() == id);
        let at = at.or_else(|| self.items.iter().rposition(|item| index.is_some() && item.index == index))?;
        self.items.get_mut(at)
    }

    fn item_done(&mut self, index: Option<u64>, item: Object, calls: &mut Calls) -> Result<(), StreamError> {
        self.close_waiting(calls);
        let at = match self.known(index, &item) {
            Some(at) => Some(at),
            None => self.announce(index, item.clone(), calls)?,
        };
        if let Some(known) = at.and_then(|at| self.items.get_mut(at)) {
            known.done(item, calls);
        }
        Ok(())
    }

    /// Finds the known item that this one repeats or completes.
    fn known(&self, index: Option<u64>, item: &Object) -> Option<usize> {
        let likeness = |at: &usize| self.items[*at].likeness(index, item);
        (0..self.items.len()).max_by_key(likeness).filter(|at| likeness(at) > 0)
    }

    /// Closes waiting items: the output continues, so it was not truncated within them.
    fn close_waiting(&self, calls: &mut Calls) {
        for item in self.items.iter().filter(|item| item.waits) {
            calls.close(item.call_index, item.last.clone());
        }
    }

    /// Ends the response. Its `output` repeats all items, or is empty.
    fn end(&mut self, mut response: Object, calls: &mut Calls) -> Result<(), StreamError> {
        let status = text(&response, "status").unwrap_or("completed");
        if status == "failed" {
            let error = response.get("error").filter(|error| !error.is_null());
            return Err(StreamError::Provider(error.map_or_else(|| "the response failed".to_owned(), error_message)));
        }
        // Some servers report a truncated response as completed.
        let is_whole = status == "completed" && response.get("incomplete_details").is_none_or(Value::is_null);
        if is_whole {
            self.close_waiting(calls);
            for (item, index) in take_objects(&mut response, "output").zip(0..) {
                self.item_done(Some(index), item, calls)?;
            }
            self.close_waiting(calls);
            for item in &self.items {
                calls.close(item.call_index, item.last.clone());
            }
        } else {
            for (mut item, index) in take_objects(&mut response, "output").zip(0..) {
                if self.known(Some(index), &item).is_none() {
                    item.insert("status".to_owned(), "incomplete".into());
                    self.item_done(Some(index), item, calls)?;
                }
            }
            calls.truncate_all();
        }
        calls.end();
        Ok(())
    }
}

fn index_of(event: &Object) -> Option<u64> {
    event.get("output_index").and_then(Value::as_u64)
}
