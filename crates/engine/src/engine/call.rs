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
//! A call is a [`CallRun`](run::CallRun), whose verbs are the only writers of its row. Each step takes it by value, together
//! with what the steps before have produced, and returns it with its own product. The first two steps handle all calls of a
//! request together; [`Steps::run`] takes each call from there to its end. A step that ends a call early returns
//! [`Executed`], which only [`settle`] accepts.

use std::sync::Arc;
use std::time::Duration;

pub(super) mod accept;
pub(super) mod admit;
mod approve;
mod attempt;
pub(super) mod cached;
mod collect_arguments;
mod execute;
mod hooks;
pub(super) mod log;
mod permit;
pub(super) mod plan;
mod prepare;
mod retry;
mod rules;
pub(super) mod run;
mod run_exit;
mod settle;
pub(super) mod state;
mod wait;

use futures_util::future::BoxFuture;

use super::last_result::LastResult;
use super::{Engine, Settings};
use crate::inputs::{ExecutorInputs, InputInjector};
use admit::Admitter;
use approve::Approver;
use attempt::Attempts;
use cached::{CacheResult, Lookup};
use collect_arguments::ArgumentCollector;
use execute::{Execution, Start};
use hooks::CallHooks;
use log::Recorded;
use permit::WorkerPermits;
use prepare::Preparer;
use rules::{BudgetReserver, PolicyCheck};
use run_exit::RunExit;
use settle::Settler;
use state::{Executed, Next, Planned, Prepared};
use toolpost_core::domain::Failure;
use toolpost_telemetry::Tracer;
use toolpost_telemetry::trace::{Span, SpanKind};
use wait::Waiter;

/// The OpenTelemetry operation name of running a tool (semantic conventions for generative AI).
const EXECUTE_TOOL: &str = "execute_tool";

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
            memory,
            slots,
            pauses,
            results,
            tasks,
            shutdown,
            clock,
            ids,
            tool_changes,
            inbox,
            workqueue,
            at_work,
            ..
        } = engine;
        let Settings { node, limits, store_timeout, rates, silence, callbacks_due, .. } = settings;
        let Settings { hooks, policies, budgets, secrets, vault, metrics, tracer, .. } = settings;
        let waiter = Waiter { clock, shutdown };
        let hooks = CallHooks { hooks, waiter, tasks };
        let (policies, allows_self) = (PolicyCheck { policies, clock }, settings.allows_self_approval);
        let notices = engine.approval_notices();
        let approver = Approver { stores, waiter, notices, policies, allows_self, changes: tool_changes };
        let collector = ArgumentCollector { memory, limits, silence: *silence, shutdown, clock };
        let permits = WorkerPermits { workqueue, waiter, inbox, hooks: hooks.hooks };
        let last_result = LastResult { stores, ids, node, shutdown };
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
            execute: Execution { at_work, attempts, waiter, permits, pauses, ids },
            settle: Settler {
                last_result,
                timeout: *store_timeout,
                stores,
                node,
                offers: &workqueue.writer,
                hooks,
                budgets,
                clock,
                callbacks_due,
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
        let context = planned.run.enter_trace(span.traceparent());
        let steps = async {
            let executed = self.execute(planned).await.unwrap_or_else(|ended| ended);
            self.settle.settle(executed, &mut span).await
        };
        context.scope(steps).await
    }

    /// Takes a call to its end, which is still to be settled.
    ///
    /// # Errors
    /// Returns a call that does not run to the end of its tool.
    async fn execute(&self, planned: Planned) -> Result<Executed, Executed> {
        let Planned { run, next, queued, .. } = self.prepare.collect(planned).await?;
        match next {
            Next::Prepare(entry) => self.run_or_reuse(Prepared::new(run, entry, queued)).await,
            // A resumed call bypasses the cache: its earlier attempt may have had effects.
            Next::Repeat(entry) => {
                let prepared = self.prepare.prepare_again(Prepared::new(run, entry, queued), false)?;
                Ok(self.execute.run(self.admit.admit_again(prepared).await?, Start::Again(None)).await)
            }
            Next::Continue(entry, elapsed_ms) => {
                let prepared = self.prepare.prepare_again(Prepared::new(run, entry, queued), true)?;
                Ok(self.execute.run(self.admit.admit_again(prepared).await?, Start::Resumed { elapsed_ms }).await)
            }
            Next::Lost(entry) => {
                let failure = Failure::outcome_unknown(&entry.name);
                // The inputs are needed for a posted result. Whether they are complete makes no difference.
                Err(match self.prepare.prepare_again(Prepared::new(run, entry, queued), true) {
                    Ok(prepared) => prepared.ended(failure.into()),
                    Err(ended) => Executed { end: failure.into(), ..ended },
                })
            }
            Next::End(failure, entry) => {
                Err(Executed { run, entry, inputs: ExecutorInputs::default(), end: (*failure).into() })
            }
        }
    }

    /// Runs a new call, or ends it with the cached result of an equal call.
    async fn run_or_reuse(&self, prepared: Prepared) -> Result<Executed, Executed> {
        let mut prepared = self.prepare.prepare(prepared).await?;
        let Some(cache) = prepared.entry.definition.cache else { return self.admit_and_run(prepared).await };
        // Boxed because few calls have a cache.
        let leading = match Box::pin(self.lookup.find(&mut prepared, cache)).await {
            Ok(CacheResult::Run(leading)) => leading,
            Ok(CacheResult::Kept(outcome)) => return Ok(prepared.ended(RunExit::Done(outcome))),
            Err(end) => return Err(prepared.ended(end)),
        };
        let executed = Box::pin(self.admit_and_run(prepared)).await?;
        if let (Some(leading), RunExit::Done(outcome)) = (leading, &executed.end)
            && !outcome.is_error()
        {
            leading.insert(Arc::new((**outcome).clone()), Duration::from_millis(cache.ttl_ms)).await;
        }
        Ok(executed)
    }

    /// Runs a new call that has no cached result.
    async fn admit_and_run(&self, prepared: Prepared) -> Result<Executed, Executed> {
        let admitted = self.admit.admit(prepared).await?;
        Ok(self.execute.run(admitted, Start::First).await)
    }
}

/// Starts the span of a call.
fn call_span(tracer: &Tracer, planned: &Planned) -> Span {
    let (call, traceparent) = (planned.run.call(), planned.run.origin().traceparent.as_deref());
    // A name of an unknown tool is arbitrary text and is not recorded.
    let is_tool = planned.next.entry().is_some() || call.limits.is_some();
    let mut span = tracer.span(SpanKind::Internal, traceparent, || {
        if is_tool { format!("{EXECUTE_TOOL} {}", call.name) } else { EXECUTE_TOOL.to_owned() }
    });
    if span.is_on() {
        span.set("gen_ai.operation.name", EXECUTE_TOOL);
        span.set("gen_ai.tool.name", &call.name);
        span.set("gen_ai.tool.call.id", &call.call_id);
        span.set("toolpost.call.id", &call.id.to_string());
        if let Some(session) = &call.session {
            span.set("gen_ai.conversation.id", session);
        }
    }
    span
}
