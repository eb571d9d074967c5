//! Step 1, plan: resolves the tool of a call, and parses, coerces and validates its arguments. No I/O.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::arguments::{parse, valid};
use super::recorder::{self, PendingCall};
use super::state::{DeferredRequest, Disposition, Planned, limits_of};
use super::{forward, inject};
use crate::access::Access;
use crate::domain::call::CallRecord;
use crate::domain::limits::ServerLimits;
use crate::domain::{Call, CallRequest, Clock, Failure, KeyClaim, Naming, Vendor};
use crate::engine::argument_stream::ArgumentStream;
use crate::engine::context::ContextObjects;
use crate::engine::memory_budget::{MemoryBudget, MemoryPermit};
use crate::engine::sessions::SessionCalls;
use crate::engine::submission::Submission;
use crate::executor::{SystemTool, ToolRole};
use crate::registry::{Entry, presets};
use crate::schema::Checked;
use crate::store::{Journal, Stores};

/// The first step of a call.
#[derive(Debug)]
pub(in crate::engine) struct Planner<'a> {
    pub room: &'a MemoryBudget,
    pub context: &'a ContextObjects,
    pub limits: &'a ServerLimits,
    pub journal: &'a Journal,
    pub stores: &'a Stores,
    pub patience: Duration,
    pub clock: &'a Clock,
    pub node: &'a Arc<str>,
    pub sessions: &'a SessionCalls,
}

impl Planner<'_> {
    /// Plans the calls of a submission. The returned permit covers the memory of arguments that were sent as JSON text
    /// and are parsed here.
    pub fn plan(
        &self,
        access: &Access,
        submission: Box<Submission>,
        ids: &[Uuid],
        batch_id: Option<Uuid>,
    ) -> (Vec<Planned>, Vec<PendingCall>, Option<MemoryPermit>) {
        let mut texts = TextMemory { room: self.room, held: None, kib: 0 };
        let context = self.context.with(&submission);
        let agent = submission.agent.clone();
        let Submission { calls, known, session, limits, retry, priority, callback_url, .. } = *submission;
        let Submission { truncated, traceparent, idempotency_key: once, cache_control, conversation, .. } = *submission;
        let snapshot = access.snapshot();
        let view = access.view(&snapshot, conversation.as_deref());
        let is_alone = calls.len() + known.len() == 1;
        let jobs = calls.into_iter().zip(ids).enumerate().map(|(place, (mut request, id))| {
            let truncated = truncated || request.truncated;
            // The tool that `call_tool` names is in its arguments, which may be incomplete.
            let is_unknown = truncated || request.streamed;
            let resolved = forward::resolve_tool(view, &mut request, is_unknown);
            let naming = request.naming();
            let called_as = forward::called_as(resolved.entry.as_deref(), &request.name);
            let CallRequest { name, call_id, arguments, limits: own_limits, retry: own_retry, .. } = request;
            let vendor = request.vendor;
            let entry = resolved.entry.as_ref();
            let shown = entry.map_or_else(|| Arc::from(name), |entry| entry.name.clone());
            let arguments = Arc::new(arguments.unwrap_or_else(|| Value::Object(Map::new())));
            let node = self.node.clone();
            let now = self.clock.moment();
            let record = CallRecord {
                tenant: access.tenant().clone(),
                title: entry.map_or_else(|| shown.clone(), |entry| entry.title.clone()),
                allowed: access.caller().tools.clone(),
                session: session.clone(),
                batch_id,
                index: request.index.unwrap_or(u32::try_from(place).unwrap_or(u32::MAX)),
                retry: own_retry.or(&retry),
                priority: request.priority.unwrap_or(priority),
                callback_url: callback_url.clone(),
                cache_control,
                agent: agent.clone(),
                limits: entry.map(|entry| {
                    limits_of(self.limits, entry, &own_limits.clone().or(&limits), conversation.as_deref())
                }),
                ..CallRecord::accepted(*id, shown, call_id.as_deref(), arguments, now, node)
            };
            let mut call = Call::from(record);
            let next = match entry {
                Some(entry) => {
                    if !entry.definition.context.is_empty() {
                        call.set_context(context.of(&entry.definition));
                    }
                    match resolved.refused {
                        Some(failure) => Disposition::Reject(failure),
                        None if !is_alone && entry.role == Some(COMPLETION) => {
                            Disposition::Reject(must_run_alone(&entry.name).into())
                        }
                        None if request.streamed => Disposition::Run(entry.clone()),
                        None => resolve(&mut call, entry, truncated, vendor, &mut texts),
                    }
                }
                None => {
                    // The model knows the target of `call_tool` from `find_tools`, which shows MCP names only to MCP
                    // clients.
                    let is_own = resolved.forwarded_from.is_some() && naming != Naming::Mcp;
                    let naming = if is_own { Naming::Own } else { naming };
                    Disposition::Reject(view.not_found(&call.name, naming).into())
                }
            };
            let beginning = request.streamed.then(|| call.arguments.as_str().unwrap_or_default().to_owned());
            if request.streamed {
                call.await_arguments();
            }
            call.extend_metadata(called_as);
            call.extend_metadata(resolved.forwarded_from.map(|name| ("called_through".to_owned(), (*name).into())));
            let (recorder, end) = recorder::channel(self.journal.clone(), self.stores.clone(), self.patience);
            let mut job = Planned::new(access.clone(), call, next, recorder);
            job.ongoing.naming = naming;
            job.ongoing.traceparent.clone_from(&traceparent);
            job.ongoing.conversation.clone_from(&conversation);
            if let Some(beginning) = beginning {
                let draft = ArgumentStream::new(
                    job.is_concurrency_safe(),
                    job.is_asynchronous(),
                    &beginning,
                    self.room.semaphore().clone(),
                );
                job.ongoing.handle.draft = Some(draft.last(entry.is_some_and(|entry| entry.role == Some(COMPLETION))));
                let (limits, context) = (own_limits.or(&limits), context.clone());
                job.deferred = Some(Box::new(DeferredRequest { vendor, limits, context }));
            }
            job.ongoing.session_guard = session.clone().filter(|_| job.is_runnable()).map(|session| {
                let (tool, cancel) = (job.ongoing.call.name.clone(), job.ongoing.handle.cancel.clone());
                self.sessions.enter((access.tenant().clone(), session), *id, tool, cancel)
            });
            job.claims.extend(request.idempotency_key.map(|once| KeyClaim { once, batch_id: None, calls: vec![*id] }));
            let is_awaited = !job.is_asynchronous();
            (job, PendingCall { id: *id, is_awaited, end })
        });
        let (mut jobs, pending): (Vec<Planned>, Vec<PendingCall>) = jobs.unzip();
        if let (Some(once), Some(first)) = (once, jobs.first_mut()) {
            let mut calls = ids.to_vec();
            known.iter().for_each(|(place, id)| calls.insert(*place, *id));
            first.claims.push(KeyClaim { once, batch_id, calls });
        }
        (jobs, pending, texts.held)
    }
}

/// The role of a tool that must be the only call of its batch.
pub(in crate::engine) const COMPLETION: ToolRole = ToolRole::Session(SystemTool::AttemptCompletion);

/// Returns the failure of a completion next to other calls, whose results the model has not seen yet.
pub(in crate::engine) fn must_run_alone(name: &str) -> Failure {
    Failure::execution(
        name,
        "it must be the only call in its message; the task was not completed. Call it again on its own",
    )
}

/// Validates the arguments of a call, and decides whether it runs.
fn resolve(
    call: &mut Call,
    entry: &Arc<Entry>,
    truncated: bool,
    vendor: Option<Vendor>,
    texts: &mut TextMemory<'_>,
) -> Disposition {
    if truncated {
        return Disposition::Reject(Failure::truncated(&entry.name).into());
    }
    let mut weight = 0;
    let checked = valid(entry, &call.arguments, vendor, |more| {
        weight = more;
        texts.reserve(more)
    });
    texts.kib += weight / 1024;
    next(call, entry, checked)
}

/// The memory of arguments that were sent as JSON text and are parsed while planning.
struct TextMemory<'a> {
    room: &'a MemoryBudget,
    held: Option<MemoryPermit>,
    /// The memory of the calls that are planned already, in KiB.
    kib: usize,
}

impl TextMemory<'_> {
    /// Acquires memory for the parsed arguments of another call, twice: coercion and error messages can copy them.
    /// Returns `false` if the budget is exhausted.
    fn reserve(&mut self, weight: usize) -> bool {
        let kib = self.kib + weight / 1024;
        self.room.cover(&mut self.held, kib * 2).is_ok()
    }
}

/// Stores the checked arguments in the call, and decides whether it runs.
pub(in crate::engine) fn next(
    call: &mut Call,
    entry: &Arc<Entry>,
    checked: Result<Checked, Box<Failure>>,
) -> Disposition {
    if !entry.definition.presets.is_empty()
        && let Ok(given) = parse(&call.arguments, |_| true)
    {
        inject::list_ignored(call, presets::named_in(&entry.definition.presets, &given));
    }
    match checked {
        Ok(checked) => {
            call.add_checked(checked.arguments, checked.coerced);
            Disposition::Run(entry.clone())
        }
        Err(failure) => Disposition::Reject(failure),
    }
}
