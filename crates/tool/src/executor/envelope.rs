//! The description of a run that HTTP tools and programs receive as JSON.

use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Invocation;
use toolpost_core::domain::Agent;

/// The members of a run that every external tool receives.
#[derive(Serialize)]
pub struct Envelope<'a> {
    id: Uuid,
    call_id: &'a str,
    name: &'a str,
    arguments: &'a Value,
    context: &'a Map<String, Value>,
    agent: Option<&'a Agent>,
    attempt: u32,
    deadline_ms: u64,
}

impl<'a> Envelope<'a> {
    /// Describes a run that must end within `deadline_ms` milliseconds.
    pub fn new(run: &'a Invocation, deadline_ms: u64) -> Self {
        Self {
            id: run.id,
            call_id: &run.call_id,
            name: &run.name,
            arguments: &run.arguments,
            context: &run.context,
            agent: run.agent.as_deref(),
            attempt: run.attempt,
            deadline_ms,
        }
    }
}
