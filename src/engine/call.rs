//! The path of a call: six steps, the same for every tool and every entry point.
//!
//! ```text
//! plan → accept → prepare → admit → execute → settle
//! ```
//!
//! - [`plan`] resolves the tool and validates the arguments, without I/O.
//! - [`accept`] commits calls that must be durable before they run.
//! - [`prepare`] collects streamed arguments, runs the before-hooks and injects presets, secrets and context.
//! - [`admit`] applies the rate limit, waits for a slot, and rejects calls of a paused tool.
//! - [`execute`] runs attempts until the call has a result or no attempt is left.
//! - [`settle`] commits the end of the call, and answers the caller.
//!
//! Each step consumes the call and returns it in the state that the next step requires. The first two steps handle all
//! calls of a request together; [`Steps::run`] takes each call from there to its end. A step that ends a call early
//! returns [`Executed`], which only [`settle`] accepts.

use std::sync::Arc;
use std::time::Duration;

pub(super) mod accept;
pub(super) mod admit;
mod approve;
pub(super) mod arguments;
mod attempt;
mod budget;
pub(super) mod cached;
mod collect_arguments;
mod execute;
mod forward;
mod hand_out;
mod hooks;
mod inject;
mod instrument;
pub(super) mod interrupt;
mod last_result;
mod lease_watch;
pub(super) mod plan;
mod policies;
mod prepare;
pub(super) mod recorder;
mod retry;
mod settle;
pub(super) mod state;
mod wait;

use futures_util::future::BoxFuture;

use super::{Engine, Settings};
use admit::Admitter;
use approve::Approver;
use attempt::Attempts;
use budget::BudgetReserver;
use cached::{CacheResult, Lookup};
use collect_arguments::ArgumentCollector;
use execute::Execution;
use hand_out::HandOut;
use hooks::CallHooks;
pub(super) use inject::{ExecutorInputs, InputInjector};
use instrument::call_span;
use last_result::LastResult;
use policies::PolicyCheck;
use prepare::Preparer;
use recorder::Recorded;
use settle::Settler;
use state::{Executed, Planned, Prepared, RunExit};
use wait::Waiter;

/// The steps of a call after its acceptance, each with the parts of the engine that it uses.
pub(super) struct Steps<'a> {
    prepare: Preparer<'a>,
    lookup: Lookup<'a>,
    pub admit: Admitter<'a>,
    execute: Execution<'a>,
    settle: Settler<'a>,
}

impl<'a> Steps<'a> {
    /// Builds the steps of an engine.
    pub fn new(engine: &'a Engine) -> Self {
        let Engine {
            settings,
            stores,
            room,
            slots,
            pauses,
            live,
            results,
            tasks,
            shutdown,
            clock,
            ids,
            tool_changes,
            inbox,
            offers,
            offer_writer,
            at_work,
            ..
        } = engine;
        let Settings { node, limits, store_patience, rates, silence, callbacks_kick, .. } = settings;
        let Settings { hooks, policies, budgets, secrets, vault, metrics, tracer, .. } = settings;
        let waiter = Waiter { clock, live, shutdown };
        let hooks = CallHooks { hooks, waiter, tasks };
        let (policies, allows_self) = (PolicyCheck { policies, clock }, settings.allows_self_approval);
        let notices = engine.approval_notices();
        let approver = Approver { stores, waiter, notices, policies, allows_self, changes: tool_changes };
        let collector = ArgumentCollector { room, limits, silence: *silence, shutdown, clock };
        let hand_out = HandOut { stores, node, waiter, inbox, offers, writer: offer_writer, hooks: hooks.hooks };
        let last_result = LastResult { stores, ids, node, patience: *store_patience, shutdown };
        let attempts = Attempts { waiter, tasks, metrics, tracer };
        Self {
            prepare: Preparer {
                at_work,
                collector,
                hooks,
                policies,
                approver,
                injector: InputInjector { secrets, vault },
                budgets: BudgetReserver { budgets, waiter },
            },
            lookup: Lookup { results, waiter },
            admit: Admitter { rates, slots, pauses, metrics, waiter },
            execute: Execution { at_work, attempts, waiter, hand_out, pauses, ids },
            settle: Settler {
                last_result,
                stores,
                node,
                live,
                offers: offer_writer,
                hooks,
                budgets,
                clock,
                callbacks_kick,
            },
        }
    }

    /// Runs a call to its end. Returns whether the caller still waited for it. In a box, so that the compiler proves once that
    /// the steps of a call can be sent.
    pub fn run(self, planned: Planned) -> BoxFuture<'a, Recorded> {
        Box::pin(self.run_steps(planned))
    }

    async fn run_steps(self, mut planned: Planned) -> Recorded {
        let mut span = call_span(self.execute.attempts.tracer, &planned);
        let job = &mut planned.ongoing;
        if let Some(own) = span.traceparent() {
            job.traceparent = Some(own);
        }
        let call = &job.call;
        let context = std::mem::take(&mut job.context);
        let context = context.with_call(call.id, &call.call_id, &call.name, job.traceparent.clone());
        let steps = async {
            let executed = match self.prepare.prepare(planned).await {
                Ok(prepared) => self.run_or_reuse(prepared).await,
                Err(executed) => executed,
            };
            self.settle.settle(executed, &mut span).await
        };
        context.scope(steps).await
    }

    /// Runs a prepared call, or ends it with the cached result of an equal call.
    async fn run_or_reuse(&self, mut prepared: Prepared) -> Executed {
        let Some(cache) = prepared.entry.definition.cache else { return self.admit_and_execute(prepared).await };
        // Boxed because few calls have a cache.
        let run = match Box::pin(self.lookup.find(&mut prepared, cache)).await {
            Ok(CacheResult::Run(run)) => run,
            Ok(CacheResult::Kept(outcome)) => return prepared.ended(RunExit::Done(outcome)),
            Err(end) => return prepared.ended(end),
        };
        let executed = Box::pin(self.admit_and_execute(prepared)).await;
        if let (Some(run), RunExit::Done(outcome)) = (run, &executed.end)
            && !outcome.is_error()
        {
            run.insert(Arc::new((**outcome).clone()), Duration::from_millis(cache.ttl_ms)).await;
        }
        executed
    }

    /// Runs a call that has no cached result.
    async fn admit_and_execute(&self, prepared: Prepared) -> Executed {
        match self.admit.admit(prepared).await {
            Ok(admitted) => self.execute.execute(admitted).await,
            Err(executed) => executed,
        }
    }
}
