//! A handwritten serializer for ToolCalls, with the same output as serde. It writes every response, so it copies
//! constant parts and escapes a text that occurs twice only once.

use serde::Serialize;
use uuid::Uuid;

use super::{BatchAnswer, Content, Data, Details, Effective, Pieces, ToolCall};
use crate::domain::{Call, ContentBlock, Limits, Time, json};

/// Initial capacity, large enough for a typical call.
const TYPICAL_BYTES: usize = 2048;

type WriteResult = serde_json::Result<()>;

impl ToolCall<'_> {
    /// Serializes the call as compact JSON, reusing prerendered JSON.
    ///
    /// # Errors
    /// Returns an error if serde cannot serialize a value.
    pub fn to_json(&self) -> serde_json::Result<Pieces> {
        let mut out = Pieces::with_capacity(TYPICAL_BYTES);
        call(&mut out, self)?;
        Ok(out)
    }

    /// Renders the JSON of an ended call in advance. An error is ignored here and returned by the later serialization.
    pub fn prerender(call: &Call) {
        if call.written.get().is_none()
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
        out.extend_from_slice(br#"{"batch_id":"#);
        maybe(&mut out, self.batch_id, id)?;
        out.extend_from_slice(br#","results":["#);
        for (index, result) in self.results.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            call(&mut out, result)?;
        }
        out.push(b']');
        if let Some(messages) = &self.messages {
            out.extend_from_slice(br#","messages":"#);
            value(&mut out, messages)?;
        }
        out.push(b'}');
        Ok(out)
    }
}

fn call(out: &mut Pieces, call: &ToolCall<'_>) -> WriteResult {
    if let Some(json) = call.written {
        out.push_bytes(json);
        return Ok(());
    }
    out.extend_from_slice(br#"{"id":"#);
    id(out, call.id)?;
    out.extend_from_slice(br#","call_id":"#);
    text(out, call.call_id)?;
    out.extend_from_slice(br#","name":"#);
    text(out, call.name)?;
    out.extend_from_slice(br#","title":"#);
    text(out, call.title)?;
    out.extend_from_slice(br#","session":"#);
    maybe(out, call.session, text)?;
    out.extend_from_slice(br#","batch_id":"#);
    maybe(out, call.batch_id, id)?;
    out.extend_from_slice(br#","index":"#);
    value(out, &call.index)?;
    out.extend_from_slice(br#","status":"#);
    value(out, &call.status)?;
    out.extend_from_slice(br#","phase":"#);
    value(out, &call.phase)?;
    out.extend_from_slice(br#","arguments":"#);
    arguments(out, &call.arguments)?;
    out.extend_from_slice(br#","effective_arguments":"#);
    match &call.effective_arguments {
        Some(effective) => arguments(out, effective)?,
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(br#","tip":"#);
    maybe(out, call.tip, text)?;
    out.extend_from_slice(br#","progress":"#);
    value(out, &call.progress)?;
    out.extend_from_slice(br#","output":"#);
    let begins = out.len();
    maybe(out, call.output, text)?;
    let output = begins..out.len();
    out.extend_from_slice(br#","content":"#);
    match (&call.content, call.output) {
        (Content::Whole([ContentBlock::Text(only)]), Some(shown)) if only == shown => {
            out.extend_from_slice(br#"[{"type":"text","text":"#);
            out.extend_from_within(output);
            out.extend_from_slice(b"}]");
        }
        (content, _) => value(out, content)?,
    }
    out.extend_from_slice(br#","structured":"#);
    match &call.structured {
        Some(Data::Text(text)) => out.push_text(text),
        other => value(out, other)?,
    }
    out.extend_from_slice(br#","details":"#);
    maybe(out, call.details.as_ref(), details)?;
    out.extend_from_slice(br#","is_error":"#);
    truth(out, call.is_error);
    out.extend_from_slice(br#","error":"#);
    value(out, &call.error)?;
    out.extend_from_slice(br#","attempts":"#);
    value(out, &call.attempts)?;
    out.extend_from_slice(br#","cached":"#);
    truth(out, call.cached);
    out.extend_from_slice(br#","coerced":"#);
    value(out, call.coerced)?;
    out.extend_from_slice(br#","metadata":"#);
    value(out, call.metadata)?;
    out.extend_from_slice(br#","limits":"#);
    maybe(out, call.limits, limits)?;
    out.extend_from_slice(br#","queued_ms":"#);
    value(out, &call.queued_ms)?;
    out.extend_from_slice(br#","duration_ms":"#);
    value(out, &call.duration_ms)?;
    out.extend_from_slice(br#","created_at":"#);
    time(out, call.created_at)?;
    out.extend_from_slice(br#","started_at":"#);
    maybe(out, call.started_at, time)?;
    out.extend_from_slice(br#","ended_at":"#);
    maybe(out, call.ended_at, time)?;
    out.extend_from_slice(br#","node":"#);
    text(out, call.node)?;
    out.push(b'}');
    Ok(())
}

fn maybe<T>(out: &mut Vec<u8>, member: Option<T>, write: impl FnOnce(&mut Vec<u8>, T) -> WriteResult) -> WriteResult {
    match member {
        Some(member) => write(out, member),
        None => {
            out.extend_from_slice(b"null");
            Ok(())
        }
    }
}

fn value(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> WriteResult {
    serde_json::to_writer(out, value)
}

fn truth(out: &mut Vec<u8>, is: bool) {
    out.extend_from_slice(if is { b"true" } else { b"false" });
}

fn id(out: &mut Vec<u8>, id: Uuid) -> WriteResult {
    out.push(b'"');
    out.extend_from_slice(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
    out.push(b'"');
    Ok(())
}

fn time(out: &mut Vec<u8>, time: Time) -> WriteResult {
    out.push(b'"');
    time.write(out);
    out.push(b'"');
    Ok(())
}

fn text(out: &mut Vec<u8>, text: &str) -> WriteResult {
    json::write_text(out, text);
    Ok(())
}

fn arguments(out: &mut Pieces, arguments: &Effective<'_>) -> WriteResult {
    match arguments {
        Effective::AsGiven(text) => {
            out.push_text(text);
            Ok(())
        }
        other => value(out, other),
    }
}

fn details(out: &mut Vec<u8>, details: &Details<'_>) -> WriteResult {
    let Some((duration_ms, name, is_good)) = details.facts_only() else { return value(out, details) };
    out.extend_from_slice(br#"{"execution_time_ms":"#);
    value(out, &duration_ms)?;
    out.extend_from_slice(br#","tool_name":"#);
    text(out, name)?;
    out.extend_from_slice(br#","success":"#);
    truth(out, is_good);
    out.push(b'}');
    Ok(())
}

fn limits(out: &mut Vec<u8>, limits: Limits) -> WriteResult {
    out.extend_from_slice(br#"{"timeout_ms":"#);
    value(out, &limits.timeout_ms)?;
    if let Some(idle) = limits.idle_timeout_ms {
        out.extend_from_slice(br#","idle_timeout_ms":"#);
        value(out, &idle)?;
    }
    if let Some(queue) = limits.queue_timeout_ms {
        out.extend_from_slice(br#","queue_timeout_ms":"#);
        value(out, &queue)?;
    }
    if let Some(most) = limits.max_concurrency {
        out.extend_from_slice(br#","max_concurrency":"#);
        value(out, &most)?;
    }
    out.extend_from_slice(br#","max_output_bytes":"#);
    value(out, &limits.max_output_bytes)?;
    out.extend_from_slice(br#","max_output_lines":"#);
    value(out, &limits.max_output_lines)?;
    out.extend_from_slice(br#","truncate":"#);
    value(out, &limits.truncate)?;
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::domain::call::Coercion;
    use crate::domain::{Call, Failure, IdGenerator, Outcome};

    fn call(name: &str, outcome: Option<Outcome>) -> Call {
        let mut call = Call::accepted(
            IdGenerator::counted().next(),
            name.into(),
            Some("toolu_\"1\""),
            Arc::new(json!({"city": "北\n京", "n": [1, 2.5, null]})),
            Time(1_234_567_890),
            "node".into(),
        );
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
        assert_eq!((call.written.get(), &now), (None, &serde_json::to_vec(&ToolCall::from(&call)).unwrap().into()));
        ToolCall::prerender(&call);
        assert_eq!((call.written.get(), ToolCall::from(&call).to_json().unwrap().joined()), (Some(&now), now.clone()));
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
