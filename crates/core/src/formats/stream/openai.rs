//! OpenAI's Chat Completions, and servers that are nearly compatible. Calls have no end of their own: all calls close
//! at the `finish_reason`.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::calls::Calls;
use super::data::{Object, take_object, take_objects, take_text, text};
use super::error::StreamError;
use super::{Kind, partial};

/// Finish reasons after which the last call may be incomplete.
const TRUNCATING: [&str; 11] = [
    "length",
    "max_tokens",
    "model_length",
    "content_filter",
    "error",
    "insufficient_system_resource",
    "network_error",
    "abort",
    "aborted",
    "cancelled",
    "canceled",
];

/// A parser for Chat Completions, with the calls of the first choice.
#[derive(Debug, Default)]
pub(super) struct Chat {
    calls: Vec<ChatCall>,
    /// Number of events so far.
    now: u64,
}

#[derive(Debug, Default)]
struct ChatCall {
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    kind: Kind,
    /// `None` until the name is known.
    call_index: Option<usize>,
    /// Arguments that arrived before the name.
    held: String,
    /// Arguments that arrived as an object.
    whole: Option<Value>,
    is_finished: bool,
    /// The last event about this call.
    at: u64,
}

/// An entry of `tool_calls`.
struct Entry {
    index: Option<u64>,
    id: Option<String>,
    kind: Kind,
    name: Option<String>,
    arguments: Option<Value>,
}

/// The most frequent event: more arguments of one call, or nothing about calls.
#[derive(Deserialize)]
struct Frequent<'e> {
    #[serde(borrow)]
    choices: [FrequentChoice<'e>; 1],
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct FrequentChoice<'e> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: FrequentDelta<'e>,
    finish_reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct FrequentDelta<'e> {
    #[serde(borrow)]
    tool_calls: Option<[FrequentEntry<'e>; 1]>,
    function_call: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct FrequentEntry<'e> {
    index: u64,
    id: Option<IgnoredAny>,
    #[serde(borrow)]
    function: FrequentFunction<'e>,
}

#[derive(Deserialize)]
struct FrequentFunction<'e> {
    name: Option<IgnoredAny>,
    #[serde(borrow)]
    arguments: Cow<'e, str>,
}

impl Chat {
    /// Handles the frequent event without building a value, or returns `false`.
    pub(super) fn frequent(&mut self, data: &[u8], calls: &mut Calls) -> bool {
        let Ok(Frequent { choices: [choice], error: None }) = serde_json::from_slice(data) else { return false };
        let delta = choice.delta;
        if choice.index != Some(0) || choice.finish_reason.is_some() || delta.function_call.is_some() {
            return false;
        }
        let Some([entry]) = delta.tool_calls else { return true };
        let known = self.calls.iter().rfind(|known| known.index == Some(entry.index) && !known.is_finished);
        let call_index =
            known.and_then(|known| known.call_index).filter(|_| entry.id.is_none() && entry.function.name.is_none());
        if let Some(call_index) = call_index {
            calls.delta(call_index, entry.function.arguments.into_owned());
        }
        call_index.is_some()
    }

    pub(super) fn event(&mut self, mut event: Object, calls: &mut Calls) -> Result<(), StreamError> {
        self.now += 1;
        let is_first = |choice: &Object| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        let Some(mut choice) = take_objects(&mut event, "choices").find(is_first) else { return Ok(()) };
        // Servers that do not stream send a `message`.
        let delta = take_object(&mut choice, "delta").or_else(|| take_object(&mut choice, "message"));
        let mut delta = delta.unwrap_or_default();
        for entry in take_objects(&mut delta, "tool_calls") {
            self.entry(Entry::of(entry), calls)?;
        }
        if let Some(call) = take_object(&mut delta, "function_call") {
            self.entry(Entry::legacy(call), calls)?;
        }
        if let Some(reason) = text(&choice, "finish_reason") {
            self.finish(TRUNCATING.contains(&reason), calls)?;
            calls.mark_end();
        }
        Ok(())
    }

    /// Handles `[DONE]`.
    pub(super) fn done(&mut self, calls: &mut Calls) -> Result<(), StreamError> {
        self.finish(false, calls)?;
        calls.end();
        Ok(())
    }

    fn entry(&mut self, entry: Entry, calls: &mut Calls) -> Result<(), StreamError> {
        let known = match self.find(&entry) {
            Some(at) if self.is_same(&self.calls[at], &entry, calls) => at,
            Some(_) | None if entry.is_empty() => return Ok(()),
            _ => {
                self.calls.push(ChatCall { index: entry.index, kind: entry.kind, ..ChatCall::default() });
                self.calls.len() - 1
            }
        };
        let known = &mut self.calls[known];
        if known.is_finished {
            return Ok(());
        }
        known.at = self.now;
        if known.id.is_none() {
            known.id = entry.id;
        }
        if let (None, Some(name)) = (known.call_index, entry.name) {
            (known.kind, known.name) = (entry.kind, Some(name.clone()));
            let call_index = calls.open(known.id.clone(), name, known.kind)?;
            calls.delta(call_index, std::mem::take(&mut known.held));
            known.call_index = Some(call_index);
        }
        match (entry.arguments, known.call_index) {
            (None | Some(Value::Null), _) => {}
            (Some(Value::String(text)), Some(call_index)) => calls.delta(call_index, text),
            (Some(Value::String(text)), None) => {
                if known.held.len() + text.len() > partial::LIMIT {
                    return Err(StreamError::TooLarge);
                }
                known.held.push_str(&text);
            }
            (Some(value @ Value::Object(_)), call_index) => {
                if let Some(call_index) = call_index {
                    calls.value(call_index, value.clone());
                }
                known.whole = Some(value);
            }
            (Some(_), _) => return Err(StreamError::Misshapen("`arguments`")),
        }
        Ok(())
    }

    /// Finds the call to which an entry probably belongs.
    fn find(&self, entry: &Entry) -> Option<usize> {
        let last = |is: &dyn Fn(&ChatCall) -> bool| self.calls.iter().rposition(is);
        match (entry.kind, entry.index, &entry.id) {
            (Kind::Legacy, ..) => last(&|known| known.kind == Kind::Legacy),
            (_, Some(index), _) => last(&|known| known.index == Some(index)),
            (_, None, Some(id)) => last(&|known| known.id.as_ref() == Some(id)),
            (_, None, None) => self.calls.len().checked_sub(1),
        }
    }

    /// Returns `true` if the entry belongs to the call. Some servers give the same index to several calls, with or
    /// without ids, and repeat the id and name of the same call.
    fn is_same(&self, known: &ChatCall, entry: &Entry, calls: &Calls) -> bool {
        let has_other_id = matches!((&entry.id, &known.id), (Some(new), Some(old)) if new != old);
        let has_same_id = entry.id.is_some() && entry.id == known.id;
        let is_complete =
            known.whole.is_some() || known.call_index.is_some_and(|call_index| calls.is_complete(call_index));
        if has_other_id {
            return entry.name.is_none() && !is_complete;
        }
        if has_same_id || entry.name.is_none() {
            return true;
        }
        if entry.index.is_none() && known.name.is_some() && entry.name != known.name {
            return false;
        }
        // One event has at most one entry per call, and no object follows a complete object.
        let begins = entry.arguments.as_ref().is_some_and(|arguments| match arguments {
            Value::String(text) => text.trim_start().starts_with('{'),
            other => other.is_object(),
        });
        !known.is_finished && known.at != self.now && !(is_complete && begins)
    }

    fn finish(&mut self, is_cut: bool, calls: &mut Calls) -> Result<(), StreamError> {
        for known in self.calls.iter_mut().filter(|known| !known.is_finished) {
            known.is_finished = true;
            let call_index = match known.call_index {
                Some(call_index) => call_index,
                // Without a name the tool is unknown, but the id needs a result.
                None if known.id.is_some() => calls.open(known.id.clone(), String::new(), known.kind)?,
                None => continue,
            };
            if is_cut {
                calls.truncate(call_index);
            } else {
                calls.close(call_index, known.whole.take());
            }
        }
        Ok(())
    }
}

impl Entry {
    fn of(mut entry: Object) -> Self {
        let index = entry.get("index").and_then(Value::as_u64);
        let id = take_text(&mut entry, "id");
        if let Some(mut custom) = take_object(&mut entry, "custom") {
            let (name, arguments) = (take_text(&mut custom, "name"), custom.remove("input"));
            return Self { index, id, kind: Kind::Custom, name, arguments };
        }
        let function = take_object(&mut entry, "function").unwrap_or_default();
        Self { index, id, kind: Kind::Function, ..Self::legacy(function) }
    }

    fn legacy(mut call: Object) -> Self {
        let (name, arguments) = (take_text(&mut call, "name"), call.remove("arguments"));
        Self { index: None, id: None, kind: Kind::Legacy, name, arguments }
    }

    /// Returns `true` if the entry cannot start a call.
    fn is_empty(&self) -> bool {
        let has_arguments = self.arguments.as_ref().is_some_and(|given| !given.is_null() && given != "");
        self.id.is_none() && self.name.is_none() && !has_arguments
    }
}
