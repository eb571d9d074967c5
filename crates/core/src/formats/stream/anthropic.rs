//! Anthropic's Messages: every call is a content block with a start, deltas and a stop.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::Kind;
use super::calls::Calls;
use super::data::{Object, take_object, take_objects, take_text, text};
use super::error::StreamError;

/// Stop reasons that truncate an incomplete block.
const TRUNCATING: [&str; 3] = ["max_tokens", "model_context_window_exceeded", "refusal"];

/// A parser for Anthropic's stream, with the open blocks of the message.
#[derive(Debug, Default)]
pub(super) struct Anthropic {
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    index: Option<u64>,
    call_index: usize,
    /// The input in the start of the block.
    input: Value,
    /// `true` if the block stopped without being complete: the next event shows whether the output was truncated.
    waits: bool,
}

/// The most frequent event.
#[derive(Deserialize)]
struct Frequent<'e> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'e, str>,
    index: Option<u64>,
    #[serde(borrow)]
    delta: Delta<'e>,
}

#[derive(Deserialize)]
struct Delta<'e> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'e, str>,
    #[serde(borrow)]
    partial_json: Option<Cow<'e, str>>,
}

impl Anthropic {
    /// Handles the frequent event without building a value, or returns `false`.
    pub(super) fn frequent(&self, data: &[u8], calls: &mut Calls) -> bool {
        let Ok(Frequent { kind, index, delta }) = serde_json::from_slice(data) else { return false };
        if kind != "content_block_delta" {
            return false;
        }
        match (&*delta.kind, delta.partial_json) {
            ("input_json_delta", Some(text)) => self.more(index, text.into_owned(), calls),
            ("input_json_delta", None) => return false,
            _ => {}
        }
        true
    }

    fn more(&self, index: Option<u64>, text: String, calls: &mut Calls) {
        if let Some(block) = self.blocks.iter().find(|block| block.index == index) {
            calls.delta(block.call_index, text);
        }
    }

    pub(super) fn event(&mut self, mut event: Object, calls: &mut Calls) -> Result<(), StreamError> {
        let index = event.get("index").and_then(Value::as_u64);
        match text(&event, "type") {
            Some("message_start") => {
                // A new message discards the blocks of the previous one.
                self.settle(calls, |_| false);
                if let Some(message) = take_object(&mut event, "message") {
                    self.whole_message(message, calls)?;
                }
            }
            Some("message") => {
                self.whole_message(event, calls)?;
                calls.end();
            }
            Some("content_block_start") => {
                let block = take_object(&mut event, "content_block");
                self.start(index, block.ok_or(StreamError::Misshapen("`content_block`"))?, calls)?;
            }
            Some("content_block_delta") => self.delta(index, event, calls)?,
            Some("content_block_stop") => self.stop(index, calls),
            Some("message_delta") => {
                let delta = take_object(&mut event, "delta").unwrap_or_default();
                if let Some(reason) = text(&delta, "stop_reason") {
                    let is_cut = TRUNCATING.contains(&reason);
                    self.settle(calls, |block| block.waits && !is_cut);
                    calls.mark_end();
                }
            }
            Some("message_stop") => {
                self.settle(calls, |block| block.waits);
                calls.end();
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, index: Option<u64>, mut block: Object, calls: &mut Calls) -> Result<(), StreamError> {
        for known in self.blocks.extract_if(.., |known| known.waits || known.index == index) {
            let is_whole = known.waits;
            known.settle(is_whole, calls);
        }
        let Some(kind) = kind_of(&block) else { return Ok(()) };
        let (id, name) = (take_text(&mut block, "id"), take_text(&mut block, "name").unwrap_or_default());
        let call_index = calls.open(id, name, kind)?;
        let input = take_object(&mut block, "input").unwrap_or_default();
        if !input.is_empty() {
            calls.value(call_index, Value::Object(input.clone()));
        }
        self.blocks.push(Block { index, call_index, input: input.into(), waits: false });
        Ok(())
    }

    fn delta(&self, index: Option<u64>, mut event: Object, calls: &mut Calls) -> Result<(), StreamError> {
        let delta = take_object(&mut event, "delta").filter(|delta| text(delta, "type") == Some("input_json_delta"));
        let Some(mut delta) = delta else { return Ok(()) };
        let Some(Value::String(text)) = delta.remove("partial_json") else {
            return Err(StreamError::Misshapen("`partial_json`"));
        };
        self.more(index, text, calls);
        Ok(())
    }

    fn stop(&mut self, index: Option<u64>, calls: &mut Calls) {
        let Some(at) = self.blocks.iter().position(|block| block.index == index) else { return };
        let block = &mut self.blocks[at];
        let is_given =
            !calls.has_text(block.call_index) && block.input.as_object().is_some_and(|input| !input.is_empty());
        if is_given || calls.is_complete(block.call_index) {
            self.blocks.remove(at).settle(true, calls);
        } else {
            block.waits = true;
        }
    }

    /// Closes the complete blocks and truncates all others.
    fn settle(&mut self, calls: &mut Calls, is_whole: impl Fn(&Block) -> bool) {
        for block in self.blocks.drain(..) {
            let is_whole = is_whole(&block);
            block.settle(is_whole, calls);
        }
    }

    /// Handles a message that was not streamed.
    fn whole_message(&mut self, mut message: Object, calls: &mut Calls) -> Result<(), StreamError> {
        for (block, index) in take_objects(&mut message, "content").zip(0..) {
            self.start(Some(index), block, calls)?;
        }
        let reason = text(&message, "stop_reason");
        let is_cut = reason.is_some_and(|reason| TRUNCATING.contains(&reason));
        self.settle(calls, |_| !is_cut);
        if reason.is_some() {
            calls.mark_end();
        }
        Ok(())
    }
}

impl Block {
    fn settle(self, is_whole: bool, calls: &mut Calls) {
        if is_whole {
            let input = (!calls.has_text(self.call_index)).then_some(self.input);
            calls.close(self.call_index, input);
        } else {
            calls.truncate(self.call_index);
        }
    }
}

fn kind_of(block: &Object) -> Option<Kind> {
    match text(block, "type")? {
        "tool_use" => Some(Kind::Function),
        // `server_tool_use`, `mcp_tool_use`, and future types.
        other if other.ends_with("_tool_use") => Some(Kind::Provider),
        _ => None,
    }
}
