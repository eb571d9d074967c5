//! Leases that are kept, and services that restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use toolpost::tool::{NoArgs, Run, async_tool_fn, tool_fn};

use super::{Working, accepted, gated, registered, returns_n, worker};
use crate::support::calls::id_of;
use crate::support::killable::Killable;
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Database, bounded, eventually};

on_both_databases!(
    async fn worker_survives_a_restart_of_the_service(backend: Backend) {
        let database = Database::fresh(backend).await;
        let settings = [("TOOLPOST__NODE__HEARTBEAT_MS", "100"), ("TOOLPOST__NODE__LEASE_MS", "1000")];
        let settings = settings.map(|(name, value)| (name, value.to_owned()));
        let mut service = Killable::new(&database.url, settings.to_vec());
        let client = service.client().without_reuse();
        // The service is not there yet.
        let (tool, begun, gate) = gated();
        let working = Working::start(worker(&client, [tool, returns_n()]));
        service.start().await;
        registered(&client, "t").await;
        assert_eq!(succeeded(&client.call("t", json!({"n": 1})).await), "1");
        let running = accepted(&client, "gated").await;
        bounded("the tool", begun.cancelled()).await;
        client.in_phase(&running, "external").await;
        service.kill().await;
        gate.cancel();
        service.start().await;
        assert_eq!(succeeded(&client.ended(&running).await), "through");
        assert_eq!(succeeded(&client.call("t", json!({"n": 2})).await), "2");
        working.stopped().await;
    }
);

on_both_databases!(
    async fn heartbeats_keep_a_call_longer_than_its_lease(backend: Backend) {
        let app = App::start(backend).await;
        let (tool, begun, gate) = gated();
        let working = Working::with(&app, worker(&app, [tool]).lease_ms(1000), "gated").await;
        let id = accepted(&app, "gated").await;
        bounded("the tool", begun.cancelled()).await;
        // Another lease of the same length ends first.
        let executor = json!({"type": "worker", "queue": "other", "lease_ms": 1000});
        app.register(json!({"name": "lost", "input_schema": {"type": "object"}, "executor": executor})).await;
        let other = accepted(&app, "lost").await;
        app.post("/workers/other/claim", &json!({"worker": "silent", "wait_ms": 20_000})).await.ok();
        failed(&app.ended(&other).await, "OUTCOME_UNKNOWN");
        gate.cancel();
        assert_eq!(succeeded(&app.ended(&id).await), "through");
        working.stopped().await;
    }
);

on_both_databases!(
    async fn slow_service_gets_the_newest_status(backend: Backend) {
        let app = App::start(backend).await;
        let tool = async_tool_fn("t", "Reports often.", |_: NoArgs, run: Run| async move {
            for step in 1..=10_000 {
                run.tip(format!("step {step}"));
                run.keep_alive();
            }
            Ok(())
        });
        let working = Working::with(&app, worker(&app, [tool]), "t").await;
        let call = app.call("t", json!({})).await;
        let id = id_of(&call);
        assert_eq!((succeeded(&call), &app.stored(&id).await["tip"]), ("Done", &json!("step 10000")));
        let events = app.events(&format!("/tool-calls/{id}/events")).await.rest().await;
        assert!(events.len() < 1000, "{} events", events.len());
        working.stopped().await;
    }
);

on_both_databases!(
    async fn rejected_or_late_results_do_not_stop_a_worker(backend: Backend) {
        let app = App::start(backend).await;
        let runs = Arc::new(AtomicU32::new(0));
        let counted = runs.clone();
        let deep = tool_fn("deep", "Returns nested data.", move |_: NoArgs| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok((0..200).fold(json!(null), |inner, _| json!([inner])))
        });
        let (tool, begun, gate) = gated();
        let working = Working::with(&app, worker(&app, [deep, tool, returns_n()]), "t").await;
        let output = failed(&app.call("deep", json!({})).await, "TOOL_EXECUTION_ERROR").to_owned();
        assert!(output.contains("the result was rejected: "), "{output}");
        let id = accepted(&app, "gated").await;
        bounded("the tool", begun.cancelled()).await;
        app.cancel(&id).await;
        gate.cancel();
        assert_eq!(succeeded(&app.call("t", json!({"n": 3})).await), "3");
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        eventually("the place to be free", async || {
            let workers = app.get("/workers").await.ok()["workers"].clone();
            (workers[0]["running"] == 0).then_some(())
        })
        .await;
        working.stopped().await;
    }
);
