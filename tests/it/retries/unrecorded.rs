//! A retry that the database does not record in time.

use serde_json::json;

use super::{answers, patient, unavailable};
use crate::support::calls::{assert_counts, idempotent};
use crate::support::shapes::failed;
use crate::support::stall::Stall;
use crate::support::{Answer, App, Backend, Options};

on_both_databases!(
    async fn call_that_ran_once_does_not_end_as_not_run(backend: Backend) {
        let server = answers(vec![Answer::AfterGate(Box::new(unavailable())), Answer::text("done")]).await;
        let options =
            Options { patience_ms: Some(2_000), egress_allow: vec!["127.0.0.1".into()], ..Options::default() };
        let app = App::start_with(backend, options).await;
        let retry = json!({"max_attempts": 3, "initial_backoff_ms": 1, "jitter": 0});
        app.tool("t", &server, json!({"annotations": idempotent(), "retry": retry})).await;
        let waiting = app.posted(json!({"name": "t"}));
        server.received(1).await;
        let id = app.only("t").await;
        // Nothing is recorded from here on: neither the failure of the first attempt nor the start of the second.
        let stall = Stall::begin(&app).await;
        server.open();
        let answer = waiting.await.unwrap();
        assert_eq!(answer.header("location"), format!("/tool-calls/{id}"));
        answer.problem(503);
        stall.end().await;
        let call = app.ended(&id).await;
        let text = failed(&call, "TOOL_EXECUTION_ERROR");
        assert!(text.contains("503") && !text.contains("not run"), "{text}");
        assert_eq!((&call["attempts"], server.requests().len()), (&json!(1), 1), "the second attempt did not run");
        let expected = json!({"execution_count": 1, "failure_count": 1, "rejected_count": 0, "retry_count": 0,
            "failures_by_code": {"TOOL_EXECUTION_ERROR": 1}});
        assert_counts(&app.stats("t").await, expected);
    }
);

on_both_databases!(
    async fn start_without_a_run_is_read_back_as_reported(backend: Backend) {
        let server = answers(vec![Answer::text("done")]).await;
        let options =
            Options { patience_ms: Some(2_000), egress_allow: vec!["127.0.0.1".into()], ..Options::default() };
        let app = App::start_with(backend, options).await;
        app.tool("act", &server, json!({})).await;
        let mut live = app.events("/events").await;
        let stall = Stall::begin(&app).await;
        app.post("/tool-calls", &json!({"name": "act"})).await.problem(503);
        stall.end().await;
        let events = live.until(crate::support::Event::is_result).await;
        let id = events[0].data["id"].as_str().unwrap();
        let started = events.iter().find(|event| event.is_status("DOING")).expect("its start was recorded late");
        assert!(started.data["started_at"].is_string(), "{started:?}");
        assert_eq!(app.events(&format!("/tool-calls/{id}/events")).await.rest().await, events);
        let call = app.stored(id).await;
        assert_eq!(failed(&call, "OVERLOADED"), "Error: The call could not be recorded in time and was not run");
        assert_eq!((&call["started_at"], &call["attempts"]), (&json!(null), &json!(0)));
        assert_eq!(server.requests().len(), 0);
        let expected = json!({"execution_count": 0, "rejected_count": 1, "retry_count": 0});
        assert_counts(&app.stats("act").await, expected);
    }
);

on_both_databases!(
    async fn every_attempt_of_a_read_only_call_is_recorded_before_it_runs(backend: Backend) {
        let server = answers(vec![unavailable(), Answer::AfterGate(Box::new(Answer::text("done")))]).await;
        let app = patient(backend, &server, json!({"annotations": {"read_only": true}})).await;
        let waiting = app.posted(json!({"name": "t"}));
        server.received(2).await;
        let id = app.only("t").await;
        assert_eq!(app.stored(&id).await["attempts"], 2);
        server.open();
        assert_eq!(waiting.await.unwrap().ok()["attempts"], 2);
    }
);
