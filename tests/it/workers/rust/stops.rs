//! Calls that are stopped, and workers that stop.

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolpost::tool::{NoArgs, Run, blocking_tool_fn};

use super::{Working, accepted, endless, gated, returns_n, worker};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, bounded};

on_both_databases!(
    async fn cancelled_call_stops_its_tool(backend: Backend) {
        let app = App::start(backend).await;
        let (tool, begun, stopped) = endless();
        let (thread_begun, thread_stopped) = (CancellationToken::new(), CancellationToken::new());
        let (begins, stops) = (thread_begun.clone(), thread_stopped.clone());
        let thread = blocking_tool_fn("thread", "Waits in a thread.", move |_: NoArgs, run: Run| {
            begins.cancel();
            tokio::runtime::Handle::current().block_on(run.cancelled());
            stops.cancel();
            Ok(())
        });
        for (name, tool, begun, stopped) in
            [("endless", tool, begun, stopped), ("thread", thread, thread_begun, thread_stopped)]
        {
            let working = Working::with(&app, worker(&app, [tool]).lease_ms(1000), name).await;
            let id = accepted(&app, name).await;
            bounded("the tool", begun.cancelled()).await;
            failed(&app.cancel(&id).await.json, "CANCELLED");
            bounded("the stop", stopped.cancelled()).await;
            working.stopped().await;
        }
    }
);

on_both_databases!(
    async fn tool_that_takes_too_long_is_stopped(backend: Backend) {
        let app = App::start(backend).await;
        let (tool, _, stopped) = endless();
        let tool = tool.with_definition(|definition| definition.timeout_ms(300));
        let working = Working::with(&app, worker(&app, [tool]), "endless").await;
        failed(&app.call("endless", json!({})).await, "TOOL_TIMEOUT");
        bounded("the stop", stopped.cancelled()).await;
        working.stopped().await;
    }
);

on_both_databases!(
    async fn stopping_worker_finishes_its_calls_and_claims_no_more(backend: Backend) {
        let app = App::start(backend).await;
        let (tool, begun, gate) = gated();
        let working = Working::with(&app, worker(&app, [tool, returns_n()]).concurrency(1), "t").await;
        let running = accepted(&app, "gated").await;
        bounded("the tool", begun.cancelled()).await;
        let waiting = app.accepted(json!({"name": "t", "arguments": {"n": 7}, "wait": "accepted"})).await;
        working.stop.cancel();
        gate.cancel();
        working.ended().await.unwrap();
        assert_eq!(succeeded(&app.ended(&running).await), "through");
        assert_eq!(app.stored(&waiting).await["status"], "WAIT");
        let next = Working::start(worker(&app, [returns_n()]));
        assert_eq!(succeeded(&app.ended(&waiting).await), "7");
        next.stopped().await;
    }
);

on_both_databases!(
    async fn calls_that_take_too_long_are_left_to_their_leases(backend: Backend) {
        let app = App::start(backend).await;
        let (tool, begun, stopped) = endless();
        let working = Working::with(&app, worker(&app, [tool]).lease_ms(1000).drain_ms(0), "endless").await;
        let id = accepted(&app, "endless").await;
        bounded("the tool", begun.cancelled()).await;
        working.stopped().await;
        assert!(stopped.is_cancelled());
        failed(&app.ended(&id).await, "OUTCOME_UNKNOWN");
    }
);
