//! From what a caller asked for to a job: look up, parse, coerce, validate.

use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::recorder::{self, Recorder};
use super::{Engine, Pending, Submission};
use crate::domain::{Call, CallRequest, Failure, Limits, json};
use crate::registry::Entry;
use crate::schema::{Checked, Violation};

/// One call, ready to be run or refused.
#[derive(Debug)]
pub(super) struct Job {
    pub call: Call,
    pub next: Next,
    pub recorder: Recorder,
    pub traceparent: Option<Arc<str>>,
}

/// What a job comes to.
#[derive(Debug)]
pub(super) enum Next {
    Run(Arc<Entry>),
    Refuse(Box<Failure>),
}

impl Job {
    /// Whether it may run beside its neighbours.
    pub fn is_concurrency_safe(&self) -> bool {
        match &self.next {
            Next::Run(entry) => entry.definition.is_concurrency_safe(),
            Next::Refuse(_) => true,
        }
    }

    /// Its caller was already told that the batch could not be recorded, and may send it again: it is not run.
    pub fn give_up(&mut self) {
        if matches!(self.next, Next::Run(_)) {
            let failure =
                Failure::overloaded("An earlier call of the batch could not be recorded in time; this one was not run");
            self.next = Next::Refuse(failure.into());
        }
    }
}

impl Engine {
    pub(super) fn prepare(
        &self,
        submission: &Submission,
        ids: &[Uuid],
        batch_id: Option<Uuid>,
    ) -> (Vec<Job>, Vec<Pending>) {
        let jobs = submission.calls.iter().zip(ids).enumerate().map(|(index, (request, id))| {
            let mut call = Call::accepted(
                *id,
                request.name.as_str().into(),
                request.call_id.as_deref(),
                self.clock.now(),
                self.settings.node.clone(),
            );
            call.session = submission.session.clone();
            call.batch_id = batch_id;
            call.index = u32::try_from(index).unwrap_or(u32::MAX);
            let next = match self.resolve(&mut call, request, submission) {
                Ok(entry) => Next::Run(entry),
                Err(failure) => Next::Refuse(failure),
            };
            let (recorder, end) = recorder::pair(self.journal.clone(), self.settings.store_patience);
            let traceparent = submission.traceparent.clone();
            (Job { call, next, recorder, traceparent }, Pending { id: *id, end })
        });
        jobs.unzip()
    }

    /// Finds the tool and makes its arguments valid; notes in the call what is known by then.
    fn resolve(
        &self,
        call: &mut Call,
        request: &CallRequest,
        submission: &Submission,
    ) -> Result<Arc<Entry>, Box<Failure>> {
        let given = request.arguments.clone().unwrap_or_else(|| Value::Object(Map::new()));
        call.arguments = Arc::new(given);
        let snapshot = self.registry.snapshot();
        let Some(entry) = snapshot.get(&request.name) else { return Err(snapshot.not_found(&request.name).into()) };
        call.name = entry.name.clone();
        call.title = entry.title.clone();
        let limits = request.limits.clone().or(&submission.limits);
        call.limits = Some(Limits::effective(&limits, &entry.definition.limits, &self.settings.limits));
        if submission.truncated {
            return Err(Failure::truncated(&entry.name).into());
        }
        let arguments = parse(&call.arguments).map_err(|reason| {
            let received = call.arguments.as_str().unwrap_or_default();
            Failure::malformed(&entry.name, &reason, received)
        })?;
        let checked = check(entry, &arguments).map_err(|violations| refused(entry, &arguments, &violations))?;
        call.effective_arguments = Some(checked.arguments);
        call.coerced = checked.coerced;
        Ok(entry.clone())
    }
}

/// What a call with these arguments would run with.
///
/// # Errors
/// Everything that is wrong with them.
pub fn try_arguments(entry: &Entry, given: &Arc<Value>) -> Result<Checked, Vec<Violation>> {
    let arguments = parse(given).map_err(|reason| {
        vec![Violation {
            pointer: String::new(),
            message: format!("invalid JSON: {reason}"),
            keyword: "json".into(),
            expected: Value::Null,
            property: None,
        }]
    })?;
    check(entry, &arguments)
}

/// The arguments as a value: a string is JSON; nothing, blanks and `null` are no arguments (contract, section 3).
fn parse(given: &Arc<Value>) -> Result<Arc<Value>, json::JsonError> {
    let none = || Arc::new(Value::Object(Map::new()));
    match &**given {
        Value::Null => Ok(none()),
        Value::String(text) if text.trim().is_empty() => Ok(none()),
        Value::String(text) => match json::parse(text.as_bytes())? {
            Value::Null => Ok(none()),
            value => Ok(Arc::new(value)),
        },
        _ => Ok(given.clone()),
    }
}

/// Coerces, validates, applies defaults, and asks the tool's own check.
fn check(entry: &Entry, arguments: &Arc<Value>) -> Result<Checked, Vec<Violation>> {
    if !arguments.is_object() {
        let message = format!("arguments must be an object, got {}", json::type_name(arguments));
        return Err(vec![Violation {
            pointer: String::new(),
            message,
            keyword: "type".into(),
            expected: "object".into(),
            property: None,
        }]);
    }
    let checked = entry.input.check(arguments, entry.definition.coerce)?;
    if let Some(Err(invalid)) = entry.validate.as_ref().map(|validate| validate(&checked.arguments)) {
        let violations = invalid.into_iter().map(|invalid| Violation {
            pointer: invalid.pointer,
            message: invalid.message,
            keyword: "validate".into(),
            expected: Value::Null,
            property: None,
        });
        return Err(violations.collect());
    }
    Ok(checked)
}

fn refused(entry: &Entry, arguments: &Value, violations: &[Violation]) -> Failure {
    let lines = violations.iter().map(|violation| (violation.pointer.as_str(), violation.message.as_str()));
    let details = serde_json::json!({
        "validation_errors": violations,
        "received": arguments,
        "expected_schema": &**entry.input.schema(),
    });
    Failure::validation(&entry.name, lines, details)
}
