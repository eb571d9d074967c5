//! `tools/call` and `tools/list` without a session, answered without rmcp.
//!
//! [`FastPath::read`] accepts only requests that are valid in every respect and that get a single JSON message with
//! status 200. rmcp answers all others, from the same bytes. `tests/it/mcp/fast_path.rs` compares both.

use std::sync::Arc;

use axum::http::request::Parts;
use bytes::Bytes;
use rmcp::ErrorData;
use rmcp::model::ClientCapabilities;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Server;
use super::call::{only_of, refused, reply};
use super::cancel::AwaitedCall;
use super::decision::shows_forms;
use crate::access::Access;
use crate::domain::call::{CallFormat, Counted};
use crate::domain::{Call, CallRequest};
use crate::engine::{Submission, Wait};
use crate::formats::mcp::result_members;
use crate::formats::native::Pieces;
use crate::memory::Footprint;

mod envelope;
mod headers;
mod message;

use headers::Era;
use message::{Id, Message, Meta, Method};

/// Answers the most frequent requests without rmcp.
#[derive(Debug)]
pub struct FastPath {
    server: Server,
}

/// A request that the fast path answers.
#[derive(Debug)]
pub struct StatelessRequest {
    access: Access,
    era: Era,
    id: Id,
    operation: Operation,
}

/// A valid operation of a client.
#[derive(Debug)]
enum Operation {
    Call { name: String, arguments: Map<String, Value> },
    List,
}

/// The JSON of a response with status 200.
#[derive(Debug)]
pub struct Answer {
    /// The JSON.
    pub json: Pieces,
    /// The memory that is held until the response was sent.
    pub counted: Counted,
}

impl FastPath {
    /// Creates the fast path of an endpoint.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self { server }
    }

    /// Parses a `POST`, whose body has been read. Returns `None` if rmcp must answer it.
    #[must_use]
    pub fn read(&self, parts: &Parts, body: &Bytes, footprint: &mut Footprint) -> Option<StatelessRequest> {
        let era = headers::era_of(&parts.headers)?;
        let access = parts.extensions.get::<Access>()?;
        let Message { id, method, params } = footprint.parse_as(self.server.0.engine.memory(), body)?;
        let client = abilities_of(era, params.meta)?;
        let name = params.name.as_deref();
        if era == Era::Modern && !(headers::name_request(&parts.headers, method, name) && self.has_no_headers(name)) {
            return None;
        }
        let operation = match (method, params.name, params.arguments) {
            (Method::Call, Some(name), arguments) => {
                let is_plain = !self.may_answer_early(client) || self.is_awaited(access, &name);
                is_plain.then(|| Operation::Call { name, arguments: arguments.unwrap_or_default() })?
            }
            // The list of a restricted client is not kept.
            (Method::List, None, None) if access.allowed().is_none() => Operation::List,
            _ => return None,
        };
        Some(StatelessRequest { access: access.clone(), era, id, operation })
    }

    /// Returns `true` if the client may get a response before its call has ended.
    fn may_answer_early(&self, client: Abilities) -> bool {
        client.has_tasks || client.shows_forms && self.server.0.engine.approvals().allow_self()
    }

    /// Returns `true` if every response to a call of this tool is its result.
    fn is_awaited(&self, access: &Access, name: &str) -> bool {
        let kind = Server::traits_of(access, name);
        !(kind.is_asynchronous || kind.requires_approval || self.server.0.engine.policies().has_any())
    }

    /// Returns `true` if no argument of the tool is repeated in a header. As in rmcp, the caller is not known here.
    fn has_no_headers(&self, name: Option<&str>) -> bool {
        let snapshot = self.server.0.engine.registry().default_catalog().snapshot();
        let entry = name.and_then(|name| snapshot.find(name));
        entry.is_none_or(|tool| !headers::has_annotation(&tool.definition().input_schema))
    }

    /// Answers a request.
    pub async fn answer(
        &self,
        request: StatelessRequest,
        footprint: Footprint,
        traceparent: Option<Arc<str>>,
    ) -> Answer {
        let StatelessRequest { access, era, id, operation } = request;
        let answered = match operation {
            Operation::Call { name, arguments } => {
                let calls = vec![CallRequest {
                    name,
                    arguments: Some(Value::Object(arguments)),
                    over_mcp: true,
                    ..CallRequest::default()
                }];
                let submission = Submission { calls, wait: Wait::Result, traceparent, ..Submission::default() };
                self.call(&access, submission, footprint).await
            }
            // Boxed because a future is as large as its largest branch.
            Operation::List => {
                Box::pin(self.server.first_page(&access)).await.map(|members| (members, Counted::default()))
            }
        };
        match answered {
            Ok((members, counted)) => Answer { json: envelope::result(&id, era, &members), counted },
            Err(error) => Answer { json: envelope::error(&id, &error), counted: Counted::default() },
        }
    }

    async fn call(
        &self,
        access: &Access,
        submission: Submission,
        footprint: Footprint,
    ) -> Result<(Bytes, Counted), ErrorData> {
        let engine = &self.server.0.engine;
        let ids = engine.ids(1);
        let id = ids.first().copied().unwrap_or_default();
        let submitted = engine.submit(access, submission, ids, footprint).await.map_err(refused)?;
        let call = only_of(AwaitedCall::new(submitted, engine.clone(), access.clone(), id).await)?;
        Ok((members_of(access, &call)?, call.counted.clone()))
    }
}

/// Returns the members of the result of a call, which is usually rendered already.
fn members_of(access: &Access, call: &Call) -> Result<Bytes, ErrorData> {
    if let Some(members) = call.written.get(CallFormat::Mcp) {
        return Ok(members.clone());
    }
    if let Some(members) = result_members(call) {
        return Ok(members.into());
    }
    let mut result = reply(access, call)?;
    result.result_type = None;
    let json = serde_json::to_vec(&result);
    let json = json.map_err(|_| ErrorData::internal_error("the result could not be rendered", None))?;
    Ok(Bytes::copy_from_slice(json.get(1..json.len().saturating_sub(1)).unwrap_or_default()))
}

/// The abilities of a client that change responses to calls.
#[derive(Debug, Clone, Copy, Default)]
struct Abilities {
    has_tasks: bool,
    shows_forms: bool,
}

/// Returns the abilities of the client; `None` if the metadata is invalid in this era or means more than that.
fn abilities_of(era: Era, meta: Meta) -> Option<Abilities> {
    match (era, meta) {
        (Era::Legacy, Meta { has_version: false, capabilities: None }) => Some(Abilities::default()),
        (Era::Modern, Meta { has_version: true, capabilities: Some(capabilities) }) => {
            if capabilities.as_object().is_some_and(Map::is_empty) {
                return Some(Abilities::default());
            }
            let client = ClientCapabilities::deserialize(&capabilities).ok()?;
            Some(Abilities { has_tasks: client.supports_tasks(), shows_forms: shows_forms(&client) })
        }
        _ => None,
    }
}
