//! Claims, reports and results.

use serde_json::{Value, json};

use super::{answer, called, claim, claim_now, claim_one, claim_with, finish, heartbeat, post, service, tool};
use crate::support::calls::{assert_counts, id_of, with};
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::{count, statuses};
use crate::support::{App, Backend, eventually};

on_both_databases!(
    async fn worker_claims_a_call_and_posts_its_result(backend: Backend) {
        let app = service(backend, json!({})).await;
        let calling = app.posted(json!({"name": "t", "arguments": {"city": "Rome"}, "id": "call_1", "session": "s",
            "agent": {"id": "a", "name": "A"}, "limits": {"timeout_ms": 20_000}}));
        let call = claim_one(&app, "w").await;
        let stored = app.in_phase(&id_of(&call), "external").await;
        assert_eq!((&stored["status"], &stored["attempts"]), (&json!("DOING"), &json!(1)));
        let token = call["token"].as_str().unwrap().to_owned();
        let expected = json!({"id": stored["id"], "call_id": "call_1", "name": "t", "arguments": {"city": "Rome"},
            "context": {}, "agent": {"id": "a", "name": "A", "metadata": null}, "session": "s", "attempt": 1,
            "deadline_ms": 20_000, "lease_ms": 30_000, "token": token});
        let agent = |mut call: Value| {
            call["agent"].as_object_mut().unwrap().remove("metadata");
            call
        };
        assert_eq!(agent(call.clone()), agent(expected));
        assert_eq!(
            post(&app, &call, "progress", &json!({"tip": "half", "progress": {"current": 1, "total": 2}})).await.status,
            202
        );
        eventually("the report", async || (app.stored(&id_of(&call)).await["tip"] == "half").then_some(())).await;
        finish(&app, &call, &json!({"output": "Sunny", "details": {"x": 1}})).await;
        let ended = calling.await.unwrap().ok();
        assert_eq!((succeeded(&ended), &ended["details"]["x"], &ended["attempts"]), ("Sunny", &json!(1), &json!(1)));
        let events = app.events(&format!("/tool-calls/{}/events", id_of(&call))).await.rest().await;
        let seen: Vec<_> = statuses(&events).into_iter().filter(|status| *status != "WAIT").collect();
        assert_eq!((seen.first(), seen.last(), count(&events, "tool_result")), (Some(&"DOING"), Some(&"SUCCESS"), 1));
        assert_counts(&app.stats("t").await, json!({"execution_count": 1, "success_count": 1, "retry_count": 0}));
        // The call has ended: later reports and results do not count.
        post(&app, &call, "progress", &json!({"tip": "late"})).await.problem(409);
        assert!(answer(&app, &call, &json!("late")).await, "ignored");
        assert_eq!(app.stored(&id_of(&call)).await["output"], "Sunny");
    }
);

on_both_databases!(
    async fn available_calls_are_assigned_immediately_best_first(backend: Backend) {
        let app = service(backend, json!({})).await;
        let mut ids = Vec::new();
        for (n, priority) in [0, 5, 0, 5, -1].into_iter().enumerate() {
            let body = json!({"name": "t", "arguments": {"n": n}, "wait": "accepted", "priority": priority});
            ids.push(app.accepted(body).await);
            app.in_phase(&ids[n], "queued").await;
        }
        eventually("all calls to be offered", async || {
            let queues = app.get("/workers").await.ok()["queues"].clone();
            (queues[0]["waiting"] == 5).then_some(())
        })
        .await;
        let first = claim(&app, "w", 2).await;
        let rest = claim_now(&app, "w").await;
        let order: Vec<u64> = first.iter().chain(&rest).map(|call| call["arguments"]["n"].as_u64().unwrap()).collect();
        assert_eq!((first.len(), order), (2, vec![1, 3, 0, 2, 4]));
    }
);

on_both_databases!(
    async fn empty_queue_answers_after_the_wait(backend: Backend) {
        let app = service(backend, json!({})).await;
        for more in [json!({}), json!({"wait_ms": 0}), json!({"max": 64, "wait_ms": 50})] {
            assert_eq!(claim_with(&app, "w", more).await.ok(), json!({"calls": []}));
        }
        // Another queue has no calls of this one.
        called(&app, json!({})).await;
        let other = app.post("/workers/other/claim", &json!({"worker": "w"})).await.ok();
        assert_eq!(other, json!({"calls": []}));
        claim_one(&app, "w").await;
    }
);

on_both_databases!(
    async fn only_the_worker_gets_presets_and_context(backend: Backend) {
        let app = App::start(backend).await;
        tool(&app, json!({"presets": {"key": {"value": "s3cr3t-value"}}, "context": ["user"]})).await;
        let body = json!({"name": "t", "arguments": {"a": 1}, "wait": "accepted", "context": {"user": {"id": 7}}});
        let id = app.accepted(body).await;
        let call = claim_one(&app, "w").await;
        assert_eq!(call["arguments"], json!({"a": 1, "key": "s3cr3t-value"}));
        assert_eq!(call["context"], json!({"user": {"id": 7}}));
        finish(&app, &call, &json!("the key is s3cr3t-value")).await;
        let ended = app.ended(&id).await;
        assert!(!ended.to_string().contains("s3cr3t-value"), "{ended:#}");
    }
);

on_both_databases!(
    async fn error_of_the_worker_is_an_error_of_the_call(backend: Backend) {
        let app = service(backend, json!({})).await;
        let id = called(&app, json!({})).await;
        finish(&app, &claim_one(&app, "w").await, &json!({"error": "no such city"})).await;
        let ended = app.ended(&id).await;
        assert_eq!((&ended["status"], &ended["is_error"]), (&json!("ERROR"), &json!(true)));
        assert_counts(&app.stats("t").await, json!({"execution_count": 1, "failure_count": 1}));
    }
);

on_both_databases!(
    async fn report_on_a_call_requires_its_token(backend: Backend) {
        let app = service(backend, json!({})).await;
        let id = called(&app, json!({})).await;
        let call = claim_one(&app, "w").await;
        for token in ["wrong", "1.AAAA", "2.AAAA", "1."] {
            let forged = with(call.clone(), json!({"token": token}));
            post(&app, &forged, "result", &json!("forged")).await.problem(401);
            post(&app, &forged, "progress", &json!({"tip": "forged"})).await.problem(401);
        }
        app.post(&format!("/tool-calls/{id}/result"), &json!("forged")).await.problem(401);
        finish(&app, &call, &json!("own")).await;
        assert_eq!(succeeded(&app.ended(&id).await), "own");
    }
);

on_both_databases!(
    async fn unclaimed_call_ends(backend: Backend) {
        let app = service(backend, json!({"limits": {"queue_timeout_ms": 100}})).await;
        let ended = app.call("t", json!({})).await;
        assert!(failed(&ended, "NO_WORKER").starts_with("Error: No worker took tool \"t\" in time"), "{ended:#}");
        assert_eq!((&ended["error"]["retryable"], &ended["attempts"]), (&json!(true), &json!(0)));
        assert_counts(&app.stats("t").await, json!({"execution_count": 0, "rejected_count": 1}));
        assert!(claim_now(&app, "w").await.is_empty());
        // The default applies to tools without a limit of their own.
        let definition =
            json!({"name": "u", "input_schema": {"type": "object"}, "executor": {"type": "worker", "queue": "q"}});
        app.register(definition).await;
        let id = app.accepted(json!({"name": "u", "wait": "accepted"})).await;
        assert_eq!(app.stored(&id).await["limits"]["queue_timeout_ms"], 60_000);
    }
);

on_both_databases!(
    async fn workers_share_the_calls_of_a_batch(backend: Backend) {
        let app = service(backend, json!({})).await;
        let calls: Vec<Value> = (0..4).map(|n| json!({"name": "t", "arguments": {"n": n}})).collect();
        let mut batch = app.posted(json!({"calls": calls, "mode": "parallel"}));
        let work = async |worker: &str| loop {
            let claimed = claim_with(&app, worker, json!({"max": 2, "wait_ms": 200})).await.ok();
            for call in claimed["calls"].as_array().unwrap() {
                finish(&app, call, &call["arguments"]["n"]).await;
            }
        };
        let batch = tokio::select! {
            batch = &mut batch => batch.unwrap().ok(),
            _ = futures_util::future::join(work("a"), work("b")) => unreachable!("workers go on"),
        };
        let results = batch["results"].as_array().unwrap();
        let outputs: Vec<&Value> = results.iter().map(|call| &call["output"]).collect();
        assert_eq!(outputs, ["0", "1", "2", "3"]);
    }
);

on_both_databases!(
    async fn heartbeat_names_calls_that_the_worker_does_not_hold(backend: Backend) {
        let app = service(backend, json!({})).await;
        called(&app, json!({})).await;
        let call = claim_one(&app, "w").await;
        assert_eq!(heartbeat(&app, "w", &[&call]).await, json!({"cancelled": [], "lost": []}));
        assert_eq!(heartbeat(&app, "other", &[&call]).await, json!({"cancelled": [], "lost": [call["id"]]}));
        let unknown = json!({"id": "01890000-0000-7000-8000-000000000000"});
        assert_eq!(heartbeat(&app, "w", &[&unknown]).await["lost"], json!([unknown["id"]]));
        finish(&app, &call, &json!("ok")).await;
        app.ended(&id_of(&call)).await;
        eventually("the row to be gone", async || {
            (heartbeat(&app, "w", &[&call]).await["lost"] == json!([call["id"]])).then_some(())
        })
        .await;
    }
);

on_both_databases!(
    async fn cancelled_calls_end_immediately_and_their_workers_are_notified(backend: Backend) {
        let app = service(backend, json!({})).await;
        let (running, waiting) = (called(&app, json!({})).await, called(&app, json!({})).await);
        let call = claim_one(&app, "w").await;
        assert_eq!(id_of(&call), running);
        app.in_phase(&running, "external").await;
        let cancelled = app.cancel(&running).await;
        assert_eq!(failed(&cancelled.json, "CANCELLED"), "Error: Operation aborted");
        assert_eq!(heartbeat(&app, "w", &[&call]).await, json!({"cancelled": [call["id"]], "lost": []}));
        assert!(answer(&app, &call, &json!("late")).await, "ignored");
        // A call without a worker is given to no one else.
        failed(&app.cancel(&waiting).await.json, "CANCELLED");
        assert!(claim_now(&app, "w").await.is_empty());
        assert_counts(&app.stats("t").await, json!({"execution_count": 1, "failure_count": 1, "rejected_count": 1}));
    }
);

on_both_databases!(
    async fn streamed_arguments_and_hooks_reach_the_worker(backend: Backend) {
        let app = service(backend, json!({})).await;
        let open =
            app.post("/tool-calls", &json!({"id": "c", "name": "t", "partial": true, "arguments": "{\"a\":"})).await;
        assert_eq!(open.status, 202);
        let id = id_of(&open.json);
        let request = app.request(reqwest::Method::PATCH, &format!("/tool-calls/{id}/arguments"));
        let last = crate::support::client::send(request.json(&json!({"delta": "1}", "seq": 1, "final": true}))).await;
        assert_eq!(last.status, 202, "{}", last.text());
        let call = claim_one(&app, "w").await;
        assert_eq!((id_of(&call), &call["arguments"]), (id, &json!({"a": 1})));
    }
);

on_both_databases!(
    async fn new_call_ends_a_long_wait(backend: Backend) {
        let app = service(backend, json!({})).await;
        assert!(claim_now(&app, "w").await.is_empty(), "the queue is known to be empty");
        let waiting = {
            let app = (*app).clone();
            tokio::spawn(async move { claim_one(&app, "w").await })
        };
        let id = called(&app, json!({})).await;
        assert_eq!(id_of(&waiting.await.unwrap()), id);
    }
);
