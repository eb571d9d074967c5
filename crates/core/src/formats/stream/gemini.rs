//! Google's `generateContent`: a call is usually one part; Vertex may stream its arguments by path.

mod path;

use serde_json::Value;

use super::Kind;
use super::calls::Calls;
use super::data::{Object, take_object, take_objects, take_text, text};
use super::error::StreamError;
use super::partial;

/// A parser for Gemini's stream, with the call whose arguments are incomplete.
#[derive(Debug, Default)]
pub(super) struct Gemini {
    open: Option<OpenCall>,
}

#[derive(Debug)]
struct OpenCall {
    call_index: usize,
    id: Option<String>,
    name: String,
    arguments: Value,
    /// Approximate size of the arguments, in bytes.
    size: usize,
    /// Size of the arguments when they were last sent.
    shown: usize,
}

impl Gemini {
    pub(super) fn event(&mut self, mut event: Object, calls: &mut Calls) -> Result<(), StreamError> {
        let is_first = |candidate: &Object| candidate.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        let Some(mut candidate) = take_objects(&mut event, "candidates").find(is_first) else {
            if event.contains_key("promptFeedback") {
                calls.mark_end();
            }
            return Ok(());
        };
        let reason = take_text(&mut candidate, "finishReason");
        let is_cut = reason.as_deref() == Some("MAX_TOKENS");
        let mut content = take_object(&mut candidate, "content").unwrap_or_default();
        for part in take_objects(&mut content, "parts") {
            self.part(part, is_cut, calls)?;
        }
        if reason.is_some() {
            if let Some(open) = self.open.take() {
                calls.truncate(open.call_index);
            }
            calls.mark_end();
        }
        Ok(())
    }

    fn part(&mut self, mut part: Object, is_cut: bool, calls: &mut Calls) -> Result<(), StreamError> {
        if let Some(call) = take_object(&mut part, "functionCall") {
            return self.function_call(call, is_cut, calls);
        }
        let (id, name, arguments) = if let Some(mut code) = take_object(&mut part, "executableCode") {
            (take_text(&mut code, "id"), "code_execution".to_owned(), code)
        } else if let Some(mut call) = take_object(&mut part, "toolCall") {
            let name = take_text(&mut call, "toolType").unwrap_or_default().to_lowercase();
            (take_text(&mut call, "id"), name, take_object(&mut call, "args").unwrap_or_default())
        } else {
            return Ok(());
        };
        let call_index = calls.open(id, name, Kind::Provider)?;
        let arguments = arguments.into_iter().filter(|(_, value)| !value.is_null()).collect::<Object>();
        calls.close(call_index, Some(arguments.into()));
        Ok(())
    }

    fn function_call(&mut self, mut call: Object, is_cut: bool, calls: &mut Calls) -> Result<(), StreamError> {
        let goes_on = call.get("willContinue").and_then(Value::as_bool).unwrap_or(false);
        let (id, name) = (take_text(&mut call, "id"), take_text(&mut call, "name"));
        let is_continued = self.open.as_ref().is_some_and(|open| match &name {
            None => true,
            Some(name) if id.is_some() => id == open.id && *name == open.name,
            Some(name) => *name == open.name && call.contains_key("partialArgs"),
        });
        if !is_continued {
            if let Some(open) = self.open.take() {
                calls.truncate(open.call_index);
            }
            let Some(name) = name else { return Ok(()) };
            let call_index = calls.open(id.clone(), name.clone(), Kind::Function)?;
            self.open = Some(OpenCall { call_index, id, name, arguments: Object::new().into(), size: 0, shown: 0 });
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if let Some(arguments) = take_object(&mut call, "args") {
            open.size = crate::domain::json::size_of(&arguments);
            open.arguments = arguments.into();
        }
        for argument in take_objects(&mut call, "partialArgs") {
            let path = text(&argument, "jsonPath").ok_or(StreamError::Misshapen("`jsonPath`"))?;
            open.size += path::set(&mut open.arguments, path, &argument)?;
            if open.size > partial::LIMIT {
                return Err(StreamError::TooLarge);
            }
        }
        if goes_on {
            open.show(calls);
        } else if let Some(open) = self.open.take() {
            if is_cut {
                calls.value(open.call_index, open.arguments);
                calls.truncate(open.call_index);
            } else {
                calls.close(open.call_index, Some(open.arguments));
            }
        }
        Ok(())
    }
}

impl OpenCall {
    /// Sends the arguments so far. Copying a large value is expensive, so it must have grown by a fraction of its size.
    fn show(&mut self, calls: &mut Calls) {
        if self.size > self.shown && self.size - self.shown >= self.shown / 16 {
            self.shown = self.size;
            calls.value(self.call_index, self.arguments.clone());
        }
    }
}
