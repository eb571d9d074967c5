//! The reading side of a model stream: opens calls, forwards their arguments, and closes them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use super::MAX_CALLS;
use super::responder::{ModelCall, ReaderMessage};
use crate::access::Access;
use crate::arguments::stream::{ArgumentStream, ArgumentStreamError, CompleteArguments};
use crate::auth::Credential;
use crate::dispatch::CallOrder;
use crate::domain::call::CallRecord;
use crate::domain::event::EventKind;
use crate::domain::{Call, CallRequest, Failure, Phase, Status, Vendor};
use crate::engine::{PendingCall, Submission, SubmitError};
use crate::events::bus::SubscriptionHandle;
use crate::formats::stream::partial::Partial;
use crate::formats::stream::{Kind, Parser, StreamEvent};
use crate::http::AppState;

/// Maximum size of a stream, in bytes.
const MAX_STREAM_BYTES: usize = 256 << 20;
/// Maximum silence of a stream. It is long because models can think for minutes.
const MAX_SILENCE: Duration = Duration::from_secs(900);

/// The reader of one model stream.
pub(super) struct ModelStreamReader {
    state: AppState,
    access: Access,
    vendor: Option<Vendor>,
    parser: Parser,
    template: Submission,
    call_order: CallOrder,
    growing: SubscriptionHandle,
    streamed: Vec<StreamedCall>,
    /// Complete calls that run only at the end of the stream.
    held: Vec<(usize, Option<Value>)>,
    /// Number of calls so far, without those of the provider.
    calls: u32,
    notes: mpsc::Sender<ReaderMessage>,
    /// The credential of the caller, if it has one. Reading stops when it ends.
    credential: Option<Arc<Credential>>,
}

/// A call in the stream.
enum StreamedCall {
    /// A call for this service whose arguments are still arriving.
    Open(ArgumentStream),
    /// A call that the provider runs.
    Provider { card: Value, text: Partial, value: Option<Value> },
    /// A call that needs nothing more from the stream.
    Done,
}

impl ModelStreamReader {
    pub(super) fn new(
        state: AppState,
        access: Access,
        vendor: Option<Vendor>,
        template: Submission,
        growing: SubscriptionHandle,
        notes: mpsc::Sender<ReaderMessage>,
        credential: Option<Arc<Credential>>,
    ) -> Self {
        let (parser, call_order) = (Parser::new(vendor), CallOrder::new(template.mode));
        Self {
            state,
            access,
            vendor,
            parser,
            template,
            call_order,
            growing,
            streamed: Vec::new(),
            held: Vec::new(),
            calls: 0,
            notes,
            credential,
        }
    }

    /// Reads the stream to its end, then sends [`ReaderMessage::Over`].
    pub(super) async fn run(mut self, body: Body) {
        let mut fault = self.read(body).await.err();
        let mut events = Vec::new();
        self.parser.finish(&mut events);
        self.handle_events(events).await;
        if fault.is_none() && !self.parser.has_ended() {
            fault = Some("the model's stream ended early".to_owned());
        }
        if fault.is_some() {
            // Error texts of a provider may contain secrets: the caller receives them, the log does not.
            tracing::warn!(calls = self.calls, "a model's stream was interrupted");
        }
        for (call_index, arguments) in std::mem::take(&mut self.held) {
            self.close_now(call_index, arguments).await;
        }
        self.finish_provider_calls();
        self.send(ReaderMessage::Over { vendor: self.parser.vendor().or(self.vendor), fault });
    }

    async fn read(&mut self, mut body: Body) -> Result<(), String> {
        let mut length = 0;
        let (closing, credential) = (self.state.closing.clone(), self.credential.clone());
        let mut ended = std::pin::pin!(async {
            match &credential {
                Some(credential) => credential.ended().await,
                None => std::future::pending().await,
            }
        });
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = closing.cancelled() => return Err("the service is shutting down".to_owned()),
                () = &mut ended => return Err("the API key or the token has expired or was revoked".to_owned()),
                () = tokio::time::sleep(MAX_SILENCE) => return Err("the model's stream was silent for too long".to_owned()),
            };
            let Some(frame) = frame else { return Ok(()) };
            let Ok(frame) = frame else { return Err("the request body ended early".to_owned()) };
            let Ok(bytes) = frame.into_data() else { continue };
            length += bytes.len();
            if length > MAX_STREAM_BYTES {
                return Err(format!("the model's stream is longer than {MAX_STREAM_BYTES} bytes"));
            }
            self.feed(&bytes).await?;
        }
    }

    async fn feed(&mut self, bytes: &Bytes) -> Result<(), String> {
        let mut events = Vec::new();
        let pushed = self.parser.push(bytes, &mut events);
        self.handle_events(events).await;
        for call in &self.streamed {
            if let StreamedCall::Open(draft) = call {
                draft.keep_alive();
            }
        }
        pushed.map_err(|broken| broken.to_string())
    }

    async fn handle_events(&mut self, events: Vec<StreamEvent>) {
        for event in events {
            match event {
                StreamEvent::Opened { call_index, id, name, kind } => {
                    let opened = match kind {
                        Kind::Provider => self.show_provider_call(id, name),
                        kind => self.open(id, name, kind).await,
                    };
                    while self.streamed.len() <= call_index {
                        self.streamed.push(StreamedCall::Done);
                    }
                    self.streamed[call_index] = opened;
                }
                StreamEvent::Delta { call_index, text } => self.push_arguments(call_index, &text),
                StreamEvent::Value { call_index, arguments } => match self.streamed.get_mut(call_index) {
                    Some(StreamedCall::Open(draft)) => draft.replace(arguments),
                    Some(StreamedCall::Provider { value, .. }) => *value = Some(arguments),
                    _ => {}
                },
                StreamEvent::Closed { call_index, arguments } => self.close(call_index, arguments).await,
                StreamEvent::Truncated { call_index } => {
                    if let Some(StreamedCall::Open(draft)) = self.streamed.get(call_index) {
                        draft.cut_off("the model's output ended within them");
                    }
                    self.finish_call(call_index);
                }
                StreamEvent::Ended => {}
            }
        }
    }

    /// Accepts a call whose arguments have yet to arrive.
    async fn open(&mut self, call_id: Option<String>, name: String, kind: Kind) -> StreamedCall {
        let shown = ModelCall { id: call_id.clone(), name: name.clone(), kind };
        let id = self.state.engine.new_id();
        let index = self.calls;
        self.calls += 1;
        let vendor = self.parser.vendor().or(self.vendor);
        let request = CallRequest {
            name: name.clone(),
            call_id: call_id.clone(),
            index: Some(index),
            vendor,
            streamed: true,
            ..CallRequest::default()
        };
        self.growing.add(id);
        let failure = match self.accept(id, request).await {
            Ok((draft, pending, guards)) => {
                self.send(ReaderMessage::Opened { shown, pending, guards });
                return draft.map_or(StreamedCall::Done, StreamedCall::Open);
            }
            Err(failure) => failure,
        };
        let call_id = call_id.unwrap_or_else(|| id.to_string());
        let (clock, node) = (&self.state.clock, self.state.engine.node().clone());
        let mut call = Call::from(CallRecord {
            tenant: self.access.tenant().clone(),
            batch_id: self.template.batch_id,
            index,
            ..CallRecord::accepted(id, name.into(), Some(&call_id), Arc::default(), clock.moment(), node)
        });
        // Settling a waiting call cannot fail.
        let _ = call.settle(failure.into(), clock.moment());
        self.send(ReaderMessage::Refused { shown, call: Arc::new(call) });
        StreamedCall::Done
    }

    async fn accept(
        &self,
        id: uuid::Uuid,
        request: CallRequest,
    ) -> Result<(Option<ArgumentStream>, Vec<PendingCall>, Vec<DropGuard>), Failure> {
        if self.calls as usize > MAX_CALLS {
            return Err(Failure::overloaded(&format!("A stream can have at most {MAX_CALLS} calls")));
        }
        let submission = Submission { calls: vec![request], ..self.template.clone() };
        let submitted = self.state.engine.submit_now(&self.access, submission, &[id], 0);
        let mut submitted = submitted.map_err(|refusal| match refusal {
            SubmitError::ShuttingDown => Failure::shutting_down(),
            _ => Failure::overloaded("Too many calls are in flight; the call was not run"),
        })?;
        let accepted = submitted.accepted().await;
        accepted.map_err(|_| Failure::overloaded("The call could not be recorded in time and was not run"))?;
        let (pending, guards) = submitted.detach();
        Ok((self.state.engine.draft(self.access.tenant(), id), pending, guards))
    }

    /// Shows a card for a call that the provider runs.
    fn show_provider_call(&mut self, call_id: Option<String>, name: String) -> StreamedCall {
        let card = json!({
            "id": null, "call_id": call_id, "name": name, "title": name, "batch_id": self.template.batch_id,
            "executed_by": "provider",
        });
        let mut data = card.clone();
        data["arguments"] = Value::Null;
        data["at"] = json!(self.state.clock.now());
        self.send(ReaderMessage::Card { event: EventKind::ToolCall, data: data.to_string() });
        StreamedCall::Provider { card, text: Partial::default(), value: None }
    }

    fn push_arguments(&mut self, call_index: usize, piece: &str) {
        let refused = match self.streamed.get_mut(call_index) {
            Some(StreamedCall::Open(draft)) => {
                let refused = draft.push(None, piece).err();
                match refused {
                    Some(ArgumentStreamError::TooLong) => draft.cut_off("they are longer than 1 MiB"),
                    Some(ArgumentStreamError::MemoryExhausted) => draft.cut_off("too many calls are in flight"),
                    _ => {}
                }
                refused.is_some()
            }
            Some(StreamedCall::Provider { text, .. }) => text.push(piece).is_err(),
            _ => false,
        };
        if refused {
            self.finish_call(call_index);
        }
    }

    async fn close(&mut self, call_index: usize, arguments: Option<Value>) {
        match self.streamed.get(call_index) {
            Some(StreamedCall::Open(draft)) if draft.is_last() => self.held.push((call_index, arguments)),
            _ => self.close_now(call_index, arguments).await,
        }
    }

    async fn close_now(&mut self, call_index: usize, arguments: Option<Value>) {
        match self.streamed.get_mut(call_index) {
            Some(StreamedCall::Open(draft)) => {
                let ticket = match draft.is_asynchronous() {
                    true => None,
                    false => self.call_order.enqueue(draft.is_concurrency_safe()).await,
                };
                // The call may have been cancelled meanwhile; completing it then has no effect.
                let _ = draft.complete(CompleteArguments { arguments, ticket, recorded: None });
                self.finish_call(call_index);
            }
            Some(StreamedCall::Provider { card, text, value }) => {
                let params = arguments.filter(Value::is_object).or_else(|| value.take());
                card["params"] = params.or_else(|| text.readable().map(Value::Object)).unwrap_or_else(|| json!({}));
                let status = provider_status(card, Status::Doing, Phase::External);
                self.send(status);
            }
            _ => {}
        }
    }

    fn finish_call(&mut self, call_index: usize) {
        if let Some(call) = self.streamed.get_mut(call_index) {
            *call = StreamedCall::Done;
        }
    }

    /// Marks the provider's calls as done: they have run by the end of the stream.
    fn finish_provider_calls(&mut self) {
        for call in std::mem::take(&mut self.streamed) {
            if let StreamedCall::Provider { card, .. } = call
                && self.parser.has_ended()
            {
                self.send(provider_status(&card, Status::Success, Phase::Done));
            }
        }
    }

    /// Sends a message without waiting: the channel has room for every message of a stream. The receiver may be gone.
    fn send(&self, note: ReaderMessage) {
        let _ = self.notes.try_send(note);
    }
}

fn provider_status(card: &Value, status: Status, phase: Phase) -> ReaderMessage {
    let mut data = card.clone();
    (data["status"], data["phase"]) = (json!(status), json!(phase));
    ReaderMessage::Card { event: EventKind::Status, data: data.to_string() }
}
