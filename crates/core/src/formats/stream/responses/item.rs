//! An output item that is a call, of a client tool or of one of the provider's built-in tools.

use serde_json::Value;

use super::{Calls, Object, StreamError, take_text, text};
use crate::formats::stream::Kind;
use crate::formats::stream::scan::Scan;

/// A call among the output items.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) index: Option<u64>,
    pub(super) item_id: Option<String>,
    pub(super) call_index: usize,
    /// The final arguments, if known.
    pub(super) last: Option<Value>,
    /// `true` if the item is done without being complete: the next event shows whether the output was truncated.
    pub(super) waits: bool,
    call_id: Option<String>,
    /// The `type` of the item.
    what: String,
    name: String,
    kind: Kind,
}

impl Item {
    /// Opens a call for an item; returns `None` if the item is not a call.
    pub(super) fn open(
        index: Option<u64>,
        mut item: Object,
        customs_are_provided: bool,
        calls: &mut Calls,
    ) -> Result<Option<Self>, StreamError> {
        let Some(what) = take_text(&mut item, "type") else { return Ok(None) };
        let kind = match what.as_str() {
            "function_call" => Kind::Function,
            "custom_tool_call" if customs_are_provided => Kind::Provider,
            "custom_tool_call" => Kind::Custom,
            other if other.ends_with("_call") => Kind::Provider,
            _ => return Ok(None),
        };
        let (item_id, call_id) = (take_text(&mut item, "id"), take_text(&mut item, "call_id"));
        let name = take_text(&mut item, "name").unwrap_or_else(|| what.trim_end_matches("_call").to_owned());
        let call_index = calls.open(call_id.clone().or_else(|| item_id.clone()), name.clone(), kind)?;
        Ok(Some(Self { index, item_id, call_index, last: None, waits: false, call_id, what, name, kind }))
    }

    /// Returns how likely the given item is this one; 0 means that it is not. Some servers change one of the ids of an
    /// item, or give the same index to several items.
    pub(super) fn likeness(&self, index: Option<u64>, item: &Object) -> u8 {
        let same = |ours: &Option<String>, key: &str| ours.is_some() && ours.as_deref() == text(item, key);
        if same(&self.call_id, "call_id") {
            return 3;
        }
        if same(&self.item_id, "id") {
            return 2;
        }
        let has_other_id = self.call_id.is_some() && text(item, "call_id").is_some();
        let is_alike =
            text(item, "type") == Some(&self.what) && text(item, "name").is_none_or(|name| name == self.name);
        u8::from(index.is_some() && self.index == index && is_alike && !has_other_id)
    }

    /// Stores the final arguments; an empty text is ignored.
    pub(super) fn set_arguments(&mut self, arguments: Option<Value>) {
        if let Some(value @ (Value::String(_) | Value::Object(_))) = arguments
            && value.as_str() != Some("")
        {
            self.last = Some(value);
        }
    }

    /// Handles the end of the item.
    pub(super) fn done(&mut self, mut item: Object, calls: &mut Calls) {
        let status = take_text(&mut item, "status");
        if self.kind == Kind::Provider {
            return calls.close(self.call_index, Some(provided(item)));
        }
        self.set_arguments(item.remove("arguments").or_else(|| item.remove("input")));
        match status.as_deref() {
            Some("incomplete" | "failed" | "cancelled") => calls.truncate(self.call_index),
            Some("completed") => calls.close(self.call_index, self.last.clone()),
            _ if self.kind == Kind::Custom || self.is_complete(calls) => {
                calls.close(self.call_index, self.last.clone())
            }
            _ => self.waits = true,
        }
    }

    fn is_complete(&self, calls: &Calls) -> bool {
        match &self.last {
            Some(Value::String(text)) => {
                let mut scan = Scan::default();
                scan.push(text);
                scan.is_complete()
            }
            Some(_) => true,
            None => calls.is_complete(self.call_index),
        }
    }
}

/// Returns the arguments of a built-in tool, as far as the item has them.
fn provided(mut item: Object) -> Value {
    let mut taken = |key: &str| item.remove(key).filter(|value| !value.is_null());
    if let Some(whole) = ["arguments", "input", "action", "operation"].into_iter().find_map(&mut taken) {
        return whole;
    }
    let parts = ["queries", "code", "container_id"].into_iter().filter_map(|key| Some((key.to_owned(), taken(key)?)));
    Value::Object(parts.collect())
}
