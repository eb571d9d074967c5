//! A handwritten serializer for ToolCalls, with the same output as serde. It writes every response, so it copies
//! constant parts, does not copy long texts, and escapes a text that occurs twice only once.

use bytes::Bytes;
use serde::Serialize;

use super::{BatchAnswer, Data, FullOrShort, ToolCall};
use crate::domain::call::CallFormat;
use crate::domain::{Call, ContentBlock, JsonText, Time, json};

/// Initial capacity, large enough for a typical call.
const TYPICAL_BYTES: usize = 2048;
/// Minimum length of a text that becomes a segment of its own, in bytes.
const MIN_SEGMENT_BYTES: usize = 16 * 1024;

type WriteResult = serde_json::Result<()>;

impl ToolCall<'_> {
    /// Serializes the call as compact JSON, reusing prerendered JSON.
    ///
    /// # Errors
    /// Returns an error if serde cannot serialize a value.
    pub fn to_json(&self) -> serde_json::Result<Pieces> {
        let mut out = Pieces::with_capacity(TYPICAL_BYTES);
        out.call(self)?;
        Ok(out)
    }

    /// Renders the JSON of an ended call in advance. An error is ignored here and returned by the later serialization.
    pub fn prerender(call: &Call) {
        if call.written.get(CallFormat::Native).is_none()
            && let Ok(json) = ToolCall::from(call).to_json()
        {
            call.written.keep(json.joined());
        }
    }
}

impl BatchAnswer<'_> {
    /// Serializes the response as compact JSON.
    ///
    /// # Errors
    /// Returns an error if serde cannot serialize a value.
    pub fn to_json(&self) -> serde_json::Result<Pieces> {
        let mut out = Pieces::with_capacity(TYPICAL_BYTES * self.results.len().max(1));
        out.value(br#"{"batch_id":"#, &self.batch_id)?;
        out.raw(br#","results":["#);
        for (index, result) in self.results.iter().enumerate() {
            if index > 0 {
                out.raw(b",");
            }
            out.call(result)?;
        }
        out.raw(b"]");
        if let Some(messages) = &self.messages {
            out.value(br#","messages":"#, messages)?;
        }
        out.raw(b"}");
        Ok(out)
    }
}

/// JSON in segments: existing long texts become segments of their own and are not copied.
#[derive(Debug, Default)]
pub struct Pieces {
    done: Vec<Bytes>,
    last: Vec<u8>,
}

impl Pieces {
    /// Creates segments from JSON in `part` between two others. A long `part` is not copied.
    #[must_use]
    pub fn around(before: &[u8], part: &Bytes, after: &[u8]) -> Self {
        let is_copied = part.len() < MIN_SEGMENT_BYTES;
        let mut all = Self::with_capacity(before.len() + after.len() + if is_copied { part.len() } else { 0 });
        all.raw(before);
        all.existing(part, || part.clone());
        all.raw(after);
        all
    }

    fn with_capacity(bytes: usize) -> Self {
        Self { done: Vec::new(), last: Vec::with_capacity(bytes) }
    }

    /// Returns all segments in order.
    #[must_use]
    pub fn into_pieces(self) -> Vec<Bytes> {
        let Self { mut done, last } = self;
        if done.is_empty() || !last.is_empty() {
            done.push(last.into());
        }
        done
    }

    /// Returns all segments, joined.
    #[must_use]
    pub fn joined(self) -> Bytes {
        match self.done.is_empty() {
            true => self.last.into(),
            false => self.into_pieces().concat().into(),
        }
    }

    fn call(&mut self, call: &ToolCall<'_>) -> WriteResult {
        if let Some(json) = call.written {
            self.existing(json, || json.clone());
            return Ok(());
        }
        self.value(br#"{"id":"#, &call.id)?;
        self.text(br#","call_id":"#, Some(call.call_id));
        self.text(br#","name":"#, Some(call.name));
        self.text(br#","title":"#, Some(call.title));
        self.text(br#","session":"#, call.session);
        self.value(br#","batch_id":"#, &call.batch_id)?;
        self.value(br#","index":"#, &call.index)?;
        self.value(br#","status":"#, &call.status)?;
        self.value(br#","phase":"#, &call.phase)?;
        self.data(br#","arguments":"#, Some(&call.arguments))?;
        self.data(br#","effective_arguments":"#, call.effective_arguments.as_ref())?;
        self.text(br#","tip":"#, call.tip);
        self.value(br#","progress":"#, &call.progress)?;
        self.output(call)?;
        self.data(br#","structured":"#, call.structured.as_ref())?;
        self.value(br#","details":"#, &call.details)?;
        self.value(br#","is_error":"#, &call.is_error)?;
        self.value(br#","error":"#, &call.error)?;
        self.value(br#","attempts":"#, &call.attempts)?;
        self.value(br#","cached":"#, &call.cached)?;
        self.value(br#","coerced":"#, call.coerced)?;
        self.value(br#","metadata":"#, call.metadata)?;
        if let Some(approval) = call.approval {
            self.value(br#","approval":"#, approval)?;
        }
        self.value(br#","limits":"#, &call.limits)?;
        self.value(br#","queued_ms":"#, &call.queued_ms)?;
        self.value(br#","duration_ms":"#, &call.duration_ms)?;
        self.time(br#","created_at":"#, Some(call.created_at));
        self.time(br#","started_at":"#, call.started_at);
        self.time(br#","ended_at":"#, call.ended_at);
        self.text(br#","node":"#, Some(call.node));
        self.raw(b"}");
        Ok(())
    }

    /// Writes the output and the content, which is usually one block with the same text.
    fn output(&mut self, call: &ToolCall<'_>) -> WriteResult {
        self.raw(br#","output":"#);
        let begin = self.last.len();
        self.text(b"", call.output);
        let output = begin..self.last.len();
        match (&call.content, call.output) {
            (FullOrShort::Full([ContentBlock::Text(only)]), Some(shown)) if only == shown => {
                self.raw(br#","content":[{"type":"text","text":"#);
                self.last.extend_from_within(output);
                self.raw(b"}]");
                Ok(())
            }
            (content, _) => self.value(br#","content":"#, content),
        }
    }

    #[inline]
    fn data(&mut self, name: &[u8], data: Option<&Data<'_>>) -> WriteResult {
        let Some(Data::Text(text)) = data else { return self.value(name, &data) };
        self.raw(name);
        self.existing(text.get().as_bytes(), || Bytes::from_owner(JsonText::clone(text)));
        Ok(())
    }

    /// Writes existing JSON. `shared` returns it without copying.
    fn existing(&mut self, json: &[u8], shared: impl FnOnce() -> Bytes) {
        if json.len() < MIN_SEGMENT_BYTES {
            return self.raw(json);
        }
        if !self.last.is_empty() {
            self.done.push(std::mem::take(&mut self.last).into());
        }
        self.done.push(shared());
    }

    #[inline]
    fn value(&mut self, name: &[u8], value: &(impl Serialize + ?Sized)) -> WriteResult {
        self.raw(name);
        serde_json::to_writer(&mut self.last, value)
    }

    #[inline]
    fn text(&mut self, name: &[u8], text: Option<&str>) {
        self.raw(name);
        match text {
            Some(text) => json::write_text(&mut self.last, text),
            None => self.raw(b"null"),
        }
    }

    #[inline]
    fn time(&mut self, name: &[u8], time: Option<Time>) {
        self.raw(name);
        let Some(time) = time else { return self.raw(b"null") };
        self.raw(b"\"");
        time.write(&mut self.last);
        self.raw(b"\"");
    }

    #[inline]
    fn raw(&mut self, json: &[u8]) {
        self.last.extend_from_slice(json);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use uuid::Uuid;

    use super::*;
    use crate::domain::call::CallRecord;
    use crate::domain::call::Coercion;
    use crate::domain::{Call, Failure, IdGenerator, Limits, Outcome};

    fn call(name: &str, outcome: Option<Outcome>) -> Call {
        let mut call = Call::from(CallRecord::accepted(
            IdGenerator::counted().next(),
            name.into(),
            Some("toolu_\"1\""),
            Arc::new(json!({"city": "北\n京", "n": [1, 2.5, null]})),
            Time(1_234_567_890),
            "node".into(),
        ));
        if let Some(outcome) = outcome {
            call.start(Time(1_234_667_890)).unwrap();
            call.settle(outcome, Time(1_234_767_890)).unwrap();
        }
        call
    }

    fn same(call: &Call) {
        for shown in [ToolCall::from(call), ToolCall::short(call)] {
            assert_eq!(shown.to_json().unwrap().joined(), serde_json::to_string(&shown).unwrap());
        }
        let answer = |messages| BatchAnswer {
            batch_id: call.batch_id,
            results: vec![ToolCall::from(call), ToolCall::from(call)],
            messages,
        };
        for answer in [answer(None), answer(Some(json!([{"role": "tool"}])))] {
            assert_eq!(answer.to_json().unwrap().joined(), serde_json::to_vec(&answer).unwrap());
        }
    }

    #[test]
    fn output_equals_serde() {
        same(&call("echo", None));
        same(&call("echo", Some(Outcome::text("plain"))));
        same(&call("echo", Some(Outcome::text("with \"quotes\" \\ and \u{0}\u{1f}\n"))));
        same(&call("echo", Some(Outcome::data(Arc::new(json!({"a": "b", "c": [1]}))))));
        same(&call("e\"cho", Some(Failure::execution("e\"cho", "it broke").into())));
        let mut two = Outcome::text("one");
        two.content.push(ContentBlock::Image { data: "AA==".into(), mime_type: "image/png".into() });
        two.details.insert("own".into(), json!({"success": 1}));
        same(&call("echo", Some(two)));
    }

    #[test]
    fn long_texts_are_not_copied() {
        let mut record = call("echo", None).into_record();
        record.arguments = Arc::new(json!({"text": "x".repeat(100_000)}));
        record.arguments_text = crate::domain::JsonText::of(&record.arguments);
        record.effective_arguments = Some(record.arguments.clone());
        let mut call = Call::from(record);
        call.start(Time(1)).unwrap();
        let outcome = Outcome::data_as(call.arguments.clone(), call.arguments_text.clone());
        call.settle(outcome.truncated(&crate::domain::limits::Bounds::default(), call.id), Time(2)).unwrap();
        same(&call);
        let pieces = ToolCall::from(&call).to_json().unwrap().into_pieces();
        let text = call.arguments_text.get().as_bytes();
        assert_eq!(pieces.iter().filter(|piece| std::ptr::eq(&***piece, text)).count(), 3);
    }

    #[test]
    fn prerendered_json_equals_fresh_json() {
        let call = call("echo", Some(Outcome::text("plain")));
        let now = ToolCall::from(&call).to_json().unwrap().joined();
        assert_eq!(
            (call.written.get(CallFormat::Native), &now),
            (None, &serde_json::to_vec(&ToolCall::from(&call)).unwrap().into())
        );
        ToolCall::prerender(&call);
        assert_eq!(
            (call.written.get(CallFormat::Native), ToolCall::from(&call).to_json().unwrap().joined()),
            (Some(&now), now.clone())
        );
        // As a call, as an event, and in a batch.
        same(&call);
    }

    #[test]
    fn rare_members_are_written() {
        let mut rare = call("echo", None).into_record();
        rare.session = Some("a \"session\"".into());
        rare.batch_id = Some(Uuid::nil());
        rare.tip = Some("tip".into());
        rare.effective_arguments = Some(Arc::new(json!({"city": "Bern"})));
        rare.coerced = vec![Coercion { pointer: "/n".into(), from: "string".into(), to: "integer".into() }];
        rare.metadata.insert("k".into(), json!("v"));
        rare.limits = Some(Limits {
            timeout_ms: 1,
            idle_timeout_ms: Some(2),
            queue_timeout_ms: Some(3),
            max_concurrency: Some(4),
            max_output_bytes: 5,
            max_output_lines: 6,
            truncate: crate::domain::limits::Truncate::default(),
        });
        same(&rare.clone().into());
        rare.limits = rare.limits.map(|limits| Limits { idle_timeout_ms: None, max_concurrency: None, ..limits });
        same(&rare.into());
    }
}
