//! Durations across changes of the wall clock: they are measured with a monotonic clock.

use serde_json::{Value, json};
use toolpost::domain::{Clock, Time};

use crate::support::calls::{assert_counts, gated, id_of};
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Options, eventually};

const TWENTY_YEARS_MS: i64 = 20 * 365 * 24 * 3600 * 1000;

/// Starts a service on a clock that the test controls.
async fn service(backend: Backend) -> (App, Clock) {
    let clock = Clock::manual(Time(1_767_225_600_000_000));
    let options = Options { clock: Some(clock.clone()), egress_allow: vec!["127.0.0.1".into()], ..Options::default() };
    (App::start_with(backend, options).await, clock)
}

on_both_databases!(
    async fn wall_clock_jump_changes_no_duration(backend: Backend) {
        for jump_ms in [TWENTY_YEARS_MS, -TWENTY_YEARS_MS] {
            let (app, clock) = service(backend).await;
            let server = gated("done").await;
            app.http_tool("job", &server).await;
            let waiting = app.posted(json!({"name": "job"}));
            server.received(1).await;
            clock.advance_ms(700);
            clock.jump_ms(jump_ms);
            server.open();
            let call = waiting.await.unwrap().ok();
            assert_eq!((succeeded(&call), &call["duration_ms"], &call["queued_ms"]), ("done", &json!(700), &json!(0)));
            assert_eq!(call["details"]["execution_time_ms"], 700);
            let time = |member: &str| Time::parse(call[member].as_str().unwrap()).unwrap().0;
            assert_eq!(time("ended_at") - time("started_at"), (700 + jump_ms) * 1000, "times are the wall clock's");
            assert_eq!(app.stored(&id_of(&call)).await, call);
            let expected = json!({"total_duration_ms": 700, "average_duration_ms": 700, "max_duration_ms": 700});
            assert_counts(&app.stats("job").await, expected);
        }
    }
);

on_both_databases!(
    async fn duration_across_a_restart_is_bounded_and_marked(backend: Backend) {
        for (jump_ms, duration_ms) in [(0, 1_000), (TWENTY_YEARS_MS, 300 + 40_000), (-TWENTY_YEARS_MS, 300)] {
            let (app, clock) = service(backend).await;
            let definition = json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"},
                "limits": {"timeout_ms": 40_000}});
            app.register(definition).await;
            let id = app.accepted(json!({"name": "ask", "wait": "accepted"})).await;
            app.in_phase(&id, "external").await;
            clock.advance_ms(700);
            let app = app.restart().await;
            // Accepting a report shows that the new process has adopted the call.
            let path = format!("/tool-calls/{id}/progress");
            assert_eq!(app.post(&path, &json!({"tip": "heard"})).await.status, 202);
            eventually("the report", || async { (app.stored(&id).await["tip"] == "heard").then_some(()) }).await;
            clock.advance_ms(300);
            clock.jump_ms(jump_ms);
            let answer = app.post(&format!("/tool-calls/{id}/result"), &json!("done")).await;
            assert!((200..300).contains(&answer.status), "{}", answer.text());
            let call: Value = app.ended(&id).await;
            assert_eq!((succeeded(&call), &call["duration_ms"]), ("done", &json!(duration_ms)), "{jump_ms}");
            assert_eq!(call["metadata"]["estimated"], json!(["duration_ms"]));
            assert_counts(&app.stats("ask").await, json!({"total_duration_ms": duration_ms}));
        }
    }
);
