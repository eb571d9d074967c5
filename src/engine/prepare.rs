//! From what a caller asked for to a job: look up, parse, coerce, validate.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::arguments::{parse, valid};
use super::context::ContextObjects;
use super::draft::Draft;
use super::equip::{self, Equipment};
use super::live::{Handle, Registration};
use super::recorder::{self, Recorder};
use super::room::{Held, Room};
use super::sessions::Presence;
use super::turns::Permit;
use super::{Engine, Pending, Submission, forward};
use crate::access::Access;
use crate::dispatch::Place;
use crate::domain::{
    Call, CallRequest, Claim, Failure, Limits, LimitsSpec, Naming, Phase, Session, Status, Time, Vendor,
};
use crate::executor::emitter::{self, Reports};
use crate::executor::instances::CallEnd;
use crate::executor::{Outside, Stands, System};
use crate::registry::{Entry, presets};
use crate::schema::Checked;
use crate::telemetry::Context;

/// One call, ready to be run or refused.
#[derive(Debug)]
pub(super) struct Job {
    /// For whom it is done.
    pub access: Access,
    pub call: Call,
    pub next: Next,
    pub recorder: Recorder,
    pub handle: Handle,
    pub reports: Reports,
    pub registration: Option<Registration>,
    /// Its place in the queue, where it was taken beforehand.
    pub place: Option<Place>,
    pub begin: Begin,
    /// It was accepted on disk before anything else: whoever sends it again finds it.
    pub is_accepted_first: bool,
    /// Nobody waits for its end: it counts among those that do, and a stop leaves it to the next start.
    pub is_queued: bool,
    /// Its keys are taken on disk before it runs.
    pub claims: Vec<Claim>,
    pub traceparent: Option<Arc<str>>,
    /// The request that it came with, for the log.
    pub context: Context,
    /// The names under which its caller is shown tools.
    pub naming: Naming,
    /// The session that it belongs to, as it was when the call was asked for.
    pub conversation: Option<Arc<Session>>,
    /// What only its executor sees.
    pub equipment: Equipment,
    /// What was asked for beside arguments that are still to come.
    pub asked: Option<Box<Asked>>,
    /// At its end the instance goes that its tool has made for it alone.
    pub call_end: Option<CallEnd>,
    /// Its turn among the calls of one stream, once it has come.
    pub turn: Option<Permit>,
    /// Its place among the calls of its session.
    pub presence: Option<Presence>,
    /// What it holds while it is on its way: memory, and its place among those that nobody waits for.
    pub holds: Vec<Arc<OwnedSemaphorePermit>>,
}

/// What a job comes to.
#[derive(Debug)]
pub(super) enum Next {
    Run(Arc<Entry>),
    Refuse(Box<Failure>),
}

/// What a call was asked for with, as long as its arguments come.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub vendor: Option<Vendor>,
    pub limits: LimitsSpec,
    pub context: ContextObjects,
}

/// Where a job begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// At its beginning.
    Start,
    /// Its last run was lost, or waited for the next one: it is run again.
    Again,
    /// Its work is done outside; only the result is awaited.
    Outside,
    /// Its run was lost, and it may not be run again: only a result that was posted before counts.
    Lost,
}

impl Job {
    /// A job with nothing behind it. It is large and handed on several times.
    pub fn new(access: Access, call: Call, next: Next, recorder: Recorder) -> Box<Self> {
        let (emitter, reports) = emitter::channel();
        let has_token = matches!(&next, Next::Run(entry) if entry.definition.has_token());
        let is_external = matches!(&next, Next::Run(entry) if entry.works_outside());
        let handle = Handle {
            tenant: call.tenant.clone(),
            cancel: CancellationToken::new(),
            emitter,
            outside: Outside::default(),
            draft: None,
            has_token,
            may_be_outside: has_token || is_external,
        };
        Box::new(Self {
            access,
            call,
            next,
            recorder,
            handle,
            reports,
            registration: None,
            place: None,
            begin: Begin::Start,
            is_accepted_first: false,
            is_queued: false,
            claims: Vec::new(),
            traceparent: None,
            context: Context::current(),
            naming: Naming::default(),
            conversation: None,
            equipment: Equipment::default(),
            asked: None,
            call_end: None,
            turn: None,
            presence: None,
            holds: Vec::new(),
        })
    }

    /// Whether it may run beside its neighbours.
    pub fn is_concurrency_safe(&self) -> bool {
        match &self.next {
            Next::Run(entry) => entry.definition.is_concurrency_safe(),
            Next::Refuse(_) => true,
        }
    }

    /// When its session was made, where that is known: one of the same id may have been there before.
    pub fn session_since(&self) -> Option<Time> {
        self.conversation.as_ref().map(|session| session.created_at)
    }

    /// Whether its arguments come piece by piece.
    pub fn is_streamed(&self) -> bool {
        self.handle.draft.is_some()
    }

    /// Whether it is not refused.
    pub fn is_to_run(&self) -> bool {
        matches!(self.next, Next::Run(_))
    }

    /// Whether a result may have been posted for it that it has not taken.
    pub fn may_have_result(&self) -> bool {
        let is_reachable = self.handle.may_be_outside && self.recorder.has_announced();
        is_reachable && self.call.status == Status::Doing && self.handle.outside.is_awaited()
    }

    /// Whether a stop leaves it as it is: its work is done outside, and nobody waits for it here.
    pub fn is_left_at_once(&self) -> bool {
        self.is_queued && self.call.phase == Phase::External
    }

    /// Whether there may be other values beside those of its arguments: mended ones, or those that a refusal repeats.
    pub fn has_copies(&self) -> bool {
        match &self.next {
            Next::Refuse(failure) => failure.details.is_some(),
            Next::Run(_) => {
                let effective = self.call.effective_arguments.as_ref();
                effective.is_some_and(|effective| !Arc::ptr_eq(effective, &self.call.arguments))
            }
        }
    }

    /// Whether its neighbours do not wait for it.
    pub fn is_asynchronous(&self) -> bool {
        matches!(&self.next, Next::Run(entry) if entry.definition.asynchronous)
    }

    /// Its caller was already told that the batch could not be recorded, and may send it again: it is not run.
    pub fn give_up(&mut self) {
        if self.is_to_run() && !self.is_accepted_first {
            let failure =
                Failure::overloaded("An earlier call of the batch could not be recorded in time; this one was not run");
            self.next = Next::Refuse(failure.into());
        }
    }
}

impl Engine {
    /// Makes jobs of what was asked for. With them comes what the values of arguments hold that came as texts.
    pub(super) fn prepare(
        &self,
        access: &Access,
        submission: Box<Submission>,
        ids: &[Uuid],
        batch_id: Option<Uuid>,
    ) -> (Vec<Box<Job>>, Vec<Pending>, Option<Held>) {
        let mut texts = Texts { room: &self.room, held: None, kib: 0 };
        let context = self.settings.context.with(&submission);
        let agent = submission.agent.clone();
        let Submission { calls, known, session, limits, retry, priority, callback_url, .. } = *submission;
        let Submission { truncated, traceparent, once, cache_control, conversation, .. } = *submission;
        let snapshot = access.snapshot();
        let view = access.view(&snapshot, conversation.as_deref());
        let is_alone = calls.len() + known.len() == 1;
        let jobs = calls.into_iter().zip(ids).enumerate().map(|(place, (mut request, id))| {
            let truncated = truncated || request.truncated;
            // Whom a call is for whose arguments are still to come may stand in those.
            let is_unknown = truncated || request.streamed;
            let sought = forward::seek(view, &mut request, is_unknown);
            let naming = request.naming();
            let called_as = forward::called_as(sought.entry.as_deref(), &request.name);
            let CallRequest { name, call_id, arguments, limits: own_limits, retry: own_retry, .. } = request;
            let vendor = request.vendor;
            let entry = sought.entry.as_ref();
            let shown = entry.map_or_else(|| Arc::from(name), |entry| entry.name.clone());
            let arguments = Arc::new(arguments.unwrap_or_else(|| Value::Object(Map::new())));
            let node = self.settings.node.clone();
            let mut call = Call::accepted(*id, shown, call_id.as_deref(), arguments, self.clock.moment(), node);
            call.tenant.clone_from(access.tenant());
            call.allowed.clone_from(&access.caller().tools);
            call.session.clone_from(&session);
            call.batch_id = batch_id;
            call.index = request.index.unwrap_or(u32::try_from(place).unwrap_or(u32::MAX));
            call.retry = own_retry.or(&retry);
            call.priority = request.priority.unwrap_or(priority);
            call.callback_url.clone_from(&callback_url);
            call.cache_control = cache_control;
            call.agent.clone_from(&agent);
            let next = match entry {
                Some(entry) => {
                    call.title = entry.title.clone();
                    if !entry.definition.context.is_empty() {
                        call.context = context.of(&entry.definition);
                    }
                    call.limits = Some(self.limits(entry, &own_limits.clone().or(&limits), conversation.as_deref()));
                    match sought.refused {
                        Some(failure) => Next::Refuse(failure),
                        None if !is_alone && entry.stands == Some(COMPLETION) => {
                            Next::Refuse(not_alone(&entry.name).into())
                        }
                        None if request.streamed => Next::Run(entry.clone()),
                        None => resolve(&mut call, entry, truncated, vendor, &mut texts),
                    }
                }
                None => {
                    // What `call_tool` names, `find_tools` has shown; it has names of its own for clients of MCP only.
                    let is_own = sought.through.is_some() && naming != Naming::Mcp;
                    let naming = if is_own { Naming::Own } else { naming };
                    Next::Refuse(view.not_found(&call.name, naming).into())
                }
            };
            let beginning = request.streamed.then(|| call.arguments.as_str().unwrap_or_default().to_owned());
            if request.streamed {
                call.await_arguments();
            }
            call.metadata.extend(called_as);
            call.metadata.extend(sought.through.map(|name| ("called_through".to_owned(), (*name).into())));
            let (recorder, end) =
                recorder::pair(self.journal.clone(), self.stores.clone(), self.settings.store_patience);
            let mut job = Job::new(access.clone(), call, next, recorder);
            job.naming = naming;
            job.traceparent.clone_from(&traceparent);
            job.conversation.clone_from(&conversation);
            if let Some(beginning) = beginning {
                let draft = Draft::new(
                    job.is_concurrency_safe(),
                    job.is_asynchronous(),
                    &beginning,
                    self.room.semaphore().clone(),
                );
                job.handle.draft = Some(draft.last(entry.is_some_and(|entry| entry.stands == Some(COMPLETION))));
                let (limits, context) = (own_limits.or(&limits), context.clone());
                job.asked = Some(Box::new(Asked { vendor, limits, context }));
            }
            job.presence = session.clone().filter(|_| job.is_to_run()).map(|session| {
                let (tool, cancel) = (job.call.name.clone(), job.handle.cancel.clone());
                self.sessions.enter((access.tenant().clone(), session), *id, tool, cancel)
            });
            job.claims.extend(request.once.map(|once| Claim { once, batch_id: None, calls: vec![*id] }));
            let is_awaited = !job.is_asynchronous();
            (job, Pending { id: *id, is_awaited, end })
        });
        let (mut jobs, pending): (Vec<Box<Job>>, Vec<Pending>) = jobs.unzip();
        if let (Some(once), Some(first)) = (once, jobs.first_mut()) {
            let mut calls = ids.to_vec();
            known.iter().for_each(|(place, id)| calls.insert(*place, *id));
            first.claims.push(Claim { once, batch_id, calls });
        }
        (jobs, pending, texts.held)
    }

    /// The bounds of a call of this tool.
    pub(super) fn limits(&self, entry: &Entry, asked: &LimitsSpec, session: Option<&Session>) -> Limits {
        let (tool, server) = (&entry.definition, &self.settings.limits);
        match session {
            None => Limits::effective(asked, &tool.limits, server, tool.asynchronous),
            Some(session) => {
                let declared = tool.limits.clone().or(&session.limits);
                Limits::effective(asked, &declared, server, tool.asynchronous)
            }
        }
    }
}

/// What must be the only call of its batch.
pub(super) const COMPLETION: Stands = Stands::ForSession(System::AttemptCompletion);

/// It completes nothing beside other calls, whose results the model has not seen.
pub(super) fn not_alone(name: &str) -> Failure {
    Failure::execution(name, "it must be the only call of its message; nothing was completed. Call it again, alone")
}

fn resolve(
    call: &mut Call,
    entry: &Arc<Entry>,
    truncated: bool,
    vendor: Option<Vendor>,
    texts: &mut Texts<'_>,
) -> Next {
    if truncated {
        return Next::Refuse(Failure::truncated(&entry.name).into());
    }
    let mut weight = 0;
    let checked = valid(entry, &call.arguments, vendor, |more| {
        weight = more;
        texts.has_room_for(more)
    });
    texts.kib += weight / 1024;
    next(call, entry, checked)
}

/// What the values of arguments hold that came as texts, which are read only here.
struct Texts<'a> {
    room: &'a Room,
    held: Option<Held>,
    /// What the calls before have taken.
    kib: usize,
}

impl Texts<'_> {
    /// Whether there is room for another call's, with as much again where they are mended or repeated.
    fn has_room_for(&mut self, weight: usize) -> bool {
        let kib = self.kib + weight / 1024;
        self.room.cover(&mut self.held, kib * 2).is_ok()
    }
}

/// Notes in the call what is known of its arguments.
pub(super) fn next(call: &mut Call, entry: &Arc<Entry>, checked: Result<Checked, Box<Failure>>) -> Next {
    if !entry.definition.presets.is_empty()
        && let Ok(given) = parse(&call.arguments, |_| true)
    {
        equip::note_dropped(call, presets::named_in(&entry.definition.presets, &given));
    }
    match checked {
        Ok(checked) => {
            call.effective_arguments = Some(checked.arguments);
            call.coerced = checked.coerced;
            Next::Run(entry.clone())
        }
        Err(failure) => Next::Refuse(failure),
    }
}
