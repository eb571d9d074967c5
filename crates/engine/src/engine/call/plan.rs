//! Step 1, plan: resolves the tool of a call, and parses, coerces and validates its arguments. No I/O.

use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::log::{CallLog, Durability, LogParts, PendingCall};
use super::run::{CallRun, NewRun, Origin};
use super::state::{Next, Planned, StreamedArguments, limits_of};
use crate::access::Access;
use crate::arguments::forward::{ResolvedTool, resolve_tool};
use crate::arguments::stream::ArgumentStream;
use crate::arguments::{depends_on_vendor, parse, valid};
use crate::engine::context::ContextObjects;
use crate::engine::live::{CallSignals, LiveCalls};
use crate::engine::sessions::SessionCalls;
use crate::engine::submission::{Submission, Wait};
use crate::inputs;
use crate::memory::{MemoryBudget, MemoryPermit};
use crate::registry::{Entry, View, presets};
use toolpost_core::domain::call::{CallFormat, CallRecord, JsonCache, RERUN_OF};
use toolpost_core::domain::limits::ServerLimits;
use toolpost_core::domain::{Call, CallRequest, Clock, Failure, KeyClaim, Moment, Naming, Time, Vendor};
use toolpost_core::schema::CheckedArguments;
use toolpost_telemetry::Context;
use toolpost_tool::executor::{SystemTool, ToolRole, emitter};

/// The first step of a call.
pub(in crate::engine) struct Planner<'a> {
    pub memory: &'a MemoryBudget,
    pub context: &'a ContextObjects,
    pub limits: &'a ServerLimits,
    pub live: &'a LiveCalls,
    pub log: LogParts<'a>,
    pub clock: &'a Clock,
    pub node: &'a Arc<str>,
    pub sessions: &'a SessionCalls,
}

/// The parts of a request that all its calls share.
struct SharedParts<'a> {
    access: &'a Access,
    submission: &'a Submission,
    view: View<'a>,
    batch_id: Option<Uuid>,
    context: ContextObjects,
    /// `true` if the request has no other call.
    is_alone: bool,
}

impl Planner<'_> {
    /// Plans the calls of a submission. The returned permit covers the memory of arguments that were sent as JSON text
    /// and are parsed here.
    pub fn plan(
        &self,
        access: &Access,
        mut submission: Box<Submission>,
        ids: &[Uuid],
        batch_id: Option<Uuid>,
    ) -> (Vec<Planned>, Vec<PendingCall>, Option<MemoryPermit>) {
        let mut texts = TextMemory { memory: self.memory, held: None, kib: 0 };
        let calls = std::mem::take(&mut submission.calls);
        let snapshot = access.snapshot();
        let shared = SharedParts {
            access,
            submission: &submission,
            view: access.view(&snapshot, submission.conversation.as_deref()),
            batch_id,
            context: self.context.with(&submission),
            is_alone: calls.len() + submission.known.len() == 1,
        };
        let requests = calls.into_iter().zip(ids).enumerate();
        let planned = requests.map(|(index, (request, id))| self.plan_call(&shared, &mut texts, index, request, *id));
        let (mut batch, pending): (Vec<Planned>, Vec<PendingCall>) = planned.unzip();
        if let (Some(once), Some(first)) = (submission.idempotency_key, batch.first_mut()) {
            let mut calls = ids.to_vec();
            submission.known.iter().for_each(|(index, id)| calls.insert(*index, *id));
            first.claims.push(KeyClaim { once, batch_id, calls });
        }
        (batch, pending, texts.held)
    }

    fn plan_call(
        &self,
        shared: &SharedParts<'_>,
        texts: &mut TextMemory<'_>,
        index: usize,
        mut request: CallRequest,
        id: Uuid,
    ) -> (Planned, PendingCall) {
        let submission = shared.submission;
        request.truncated |= submission.truncated;
        // The tool that `call_tool` names is in its arguments, which may be incomplete.
        let is_unknown = request.truncated || request.streamed;
        let resolved = resolve_tool(shared.view, &mut request, is_unknown);
        let mut call = self.call(shared, &mut request, &resolved, index, id);
        let names = resolved.names(&request.name);
        let is_last = resolved.entry.as_ref().is_some_and(|entry| entry.role == Some(COMPLETION));
        let next = Next::from(next_of(&mut call, shared, &request, resolved, texts));
        call.extend_metadata(names);
        call.extend_metadata(request.rerun_of.map(|id| (RERUN_OF.to_owned(), id.to_string().into())));
        let beginning = request.streamed.then(|| call.arguments.as_str().unwrap_or_default().to_owned());
        if request.streamed {
            call.await_arguments();
        }
        let stream = beginning.map(|beginning| {
            let memory = self.memory.semaphore().clone();
            ArgumentStream::new(next.is_concurrency_safe(), next.is_asynchronous(), is_last, &beginning, memory)
        });
        let parks = submission.leaves_approvals && submission.wait == Wait::AsDeclared;
        let (log, end) = CallLog::new(self.log, durability_of(&next), parks);
        let (emitter, reports) = emitter::channel();
        let signals =
            CallSignals::new(call.tenant.clone(), next.entry().map(|entry| &**entry), emitter, stream.clone());
        let origin = Origin {
            access: shared.access.clone(),
            naming: request.naming(),
            conversation: submission.conversation.clone(),
            traceparent: submission.traceparent.clone(),
            context: Context::current(),
        };
        let new = NewRun { origin, call, log, signals: Arc::new(signals), reports, live: self.live.clone() };
        let mut planned = Planned::new(CallRun::new(new), next);
        planned.streamed = stream.map(|stream| {
            let (limits, context) = (request.limits.or(&submission.limits), shared.context.clone());
            Box::new(StreamedArguments { stream, vendor: request.vendor, limits, context })
        });
        planned.enter_session(self.sessions);
        planned.claims.extend(request.idempotency_key.map(|once| KeyClaim { once, batch_id: None, calls: vec![id] }));
        let is_awaited = !planned.is_asynchronous();
        (planned, PendingCall { id, is_awaited, end })
    }

    /// Creates the call of a request. Takes the arguments out of the request.
    fn call(
        &self,
        shared: &SharedParts<'_>,
        request: &mut CallRequest,
        resolved: &ResolvedTool,
        index: usize,
        id: Uuid,
    ) -> Call {
        let SharedParts { access, submission, .. } = shared;
        let entry = resolved.entry.as_ref();
        let name = entry.map_or_else(|| Arc::from(&*request.name), |entry| entry.name.clone());
        let arguments = Arc::new(request.arguments.take().unwrap_or_else(|| Value::Object(Map::new())));
        let limits = entry.map(|entry| {
            let requested = request.limits.clone().or(&submission.limits);
            limits_of(self.limits, entry, &requested, submission.conversation.as_deref())
        });
        let (now, node) = (accepted_at(id, self.clock.moment()), self.node.clone());
        let record = CallRecord {
            tenant: access.tenant().clone(),
            title: entry.map_or_else(|| name.clone(), |entry| entry.title.clone()),
            allowed: access.caller().tools.clone(),
            caller: access.caller().identity.clone(),
            session: submission.session.clone(),
            batch_id: shared.batch_id,
            index: request.index.unwrap_or(u32::try_from(index).unwrap_or(u32::MAX)),
            retry: request.retry.or(&submission.retry),
            priority: request.priority.unwrap_or(submission.priority),
            callback_url: submission.callback_url.clone(),
            cache_control: submission.cache_control,
            agent: submission.agent.clone(),
            limits,
            written: JsonCache::new(if request.over_mcp { CallFormat::Mcp } else { CallFormat::Native }),
            vendor: vendor_of(request, entry)
                .filter(|vendor| request.streamed || entry.is_some_and(|entry| depends_on_vendor(entry, *vendor))),
            ..CallRecord::accepted(id, name, request.call_id.as_deref(), arguments, now, node)
        };
        record.into()
    }
}

/// Returns when a call of this tool must be committed at the latest, unless its request is accepted first.
fn durability_of(next: &Next) -> Durability {
    match next.entry() {
        Some(entry) if entry.definition.annotations.read_only => Durability::AtEnd,
        _ => Durability::BeforeEffect,
    }
}

/// Returns the vendor whose lowering the model has seen. Lists over MCP show names of properties as Anthropic's.
fn vendor_of(request: &CallRequest, entry: Option<&Arc<Entry>>) -> Option<Vendor> {
    let is_renamed = || request.over_mcp && entry.is_some_and(|entry| entry.is_renamed_over_mcp());
    request.vendor.or_else(|| is_renamed().then_some(Vendor::Anthropic))
}

/// Maximum difference between the time of an id and the time of acceptance that is not a change of the clock.
const ID_SKEW_MS: i64 = 600_000;

/// Returns the time of acceptance, in the millisecond of the call's id. Calls are found by time in the order of their
/// ids, so both must agree.
fn accepted_at(id: Uuid, now: Moment) -> Moment {
    let Ok(of_id) = i64::try_from(id.as_u128() >> 80) else { return now };
    let millis = now.at.0.div_euclid(1000);
    if of_id == millis || (of_id - millis).abs() > ID_SKEW_MS {
        return now;
    }
    let within = if of_id < millis { 999 } else { 0 };
    Moment { at: Time(of_id * 1000 + within), ..now }
}

/// Decides whether a call runs.
fn next_of(
    call: &mut Call,
    shared: &SharedParts<'_>,
    request: &CallRequest,
    resolved: ResolvedTool,
    texts: &mut TextMemory<'_>,
) -> Result<Arc<Entry>, Box<Failure>> {
    let Some(entry) = resolved.entry else {
        if let Some(failure) = resolved.refused {
            return Err(failure);
        }
        // The model knows the target of `call_tool` from `find_tools`, which shows MCP names only to MCP clients.
        let is_own = resolved.forwarded_from.is_some() && request.naming() != Naming::Mcp;
        let naming = if is_own { Naming::Own } else { request.naming() };
        return Err(shared.view.not_found(&call.name, naming).into());
    };
    if !entry.definition.context.is_empty() {
        call.set_context(shared.context.of(&entry.definition));
    }
    if let Some(failure) = resolved.refused {
        return Err(failure);
    }
    if !shared.is_alone && entry.role == Some(COMPLETION) {
        return Err(must_run_alone(&entry.name).into());
    }
    if request.streamed {
        return Ok(entry);
    }
    if request.truncated {
        return Err(Failure::truncated(&entry.name).into());
    }
    let mut weight = 0;
    let checked = valid(&entry, &call.arguments, vendor_of(request, Some(&entry)), |more| {
        weight = more;
        texts.reserve(more)
    });
    texts.kib += weight / 1024;
    next(call, &entry, checked)
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

/// The memory of arguments that were sent as JSON text and are parsed while planning.
struct TextMemory<'a> {
    memory: &'a MemoryBudget,
    held: Option<MemoryPermit>,
    /// The memory of the calls that are planned already, in KiB.
    kib: usize,
}

impl TextMemory<'_> {
    /// Acquires memory for the parsed arguments of another call, twice: coercion and error messages can copy them.
    /// Returns `false` if the budget is exhausted.
    fn reserve(&mut self, weight: usize) -> bool {
        let kib = self.kib + weight / 1024;
        self.memory.cover(&mut self.held, kib * 2).is_ok()
    }
}

/// Stores the checked arguments in the call, and decides whether it runs.
pub(in crate::engine) fn next(
    call: &mut Call,
    entry: &Arc<Entry>,
    checked: Result<CheckedArguments, Box<Failure>>,
) -> Result<Arc<Entry>, Box<Failure>> {
    if !entry.definition.presets.is_empty()
        && let Ok(given) = parse(&call.arguments, |_| true)
    {
        inputs::list_ignored(call, presets::named_in(&entry.definition.presets, &given));
    }
    let checked = checked?;
    call.add_checked(checked.arguments, checked.coerced);
    Ok(entry.clone())
}
