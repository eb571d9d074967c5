//! The stream of a session: its full history in order, then live events and the state of the session.

use serde_json::json;

use super::{abort, made};
use crate::support::sse::{Event, count};
use crate::support::{App, Backend};

fn positions(events: &[Event]) -> Vec<i64> {
    events.iter().filter_map(|event| event.id.parse().ok()).collect()
}

on_both_databases!(
    async fn late_reader_gets_everything_once_in_order_and_then_live_events(backend: Backend) {
        let app = App::start(backend).await;
        for n in 0..70 {
            let session = if n % 2 == 0 { "s" } else { "other" };
            app.call_with(json!({"name": "echo", "session": session, "id": format!("call_{n}")})).await;
        }
        let mut stream = app.events("/sessions/s/events").await;
        let first = stream.next().await.unwrap();
        assert_eq!((first.event.as_str(), &first.data["state"], first.id.as_str()), ("session", &json!("ACTIVE"), "0"));
        let history = stream.until(|event| event.is_result() && event.data["call_id"] == "call_68").await;
        assert_eq!((count(&history, "tool_result"), count(&history, "tool_call")), (35, 35));
        assert!(positions(&history).is_sorted_by(|a, b| a < b), "{:?}", positions(&history));
        app.call_with(json!({"name": "echo", "session": "s", "id": "live"})).await;
        let live = stream.until(|event| event.is_result()).await;
        assert!(live.iter().all(|event| event.data["call_id"] == "live"), "{live:#?}");
        // Resumes from the middle of a call.
        let seen = &history[history.len() / 2];
        let mut again = app.events_after("/sessions/s/events", &seen.id).await;
        let first = again.next().await.unwrap();
        assert_eq!((first.event.as_str(), first.id.as_str()), ("session", seen.id.as_str()));
        let rest = again.until(|event| event.is_result() && event.data["call_id"] == "live").await;
        let (last, all) = (positions(&history), [positions(&history), positions(&live)].concat());
        let expected: Vec<i64> = all.into_iter().filter(|pos| *pos > last[last.len() / 2]).collect();
        assert_eq!(positions(&rest), expected);
    }
);

on_both_databases!(
    async fn session_state_is_published_and_its_end_ends_the_stream(backend: Backend) {
        let app = App::start(backend).await;
        made(&app, json!({"id": "s"})).await;
        let mut stream = app.events("/sessions/s/events").await;
        assert_eq!(stream.next().await.unwrap().data["state"], "ACTIVE");
        abort(&app, "s").await;
        assert_eq!(stream.next().await.unwrap().data["state"], "ABORTED");
        app.call_with(json!({"name": "echo", "session": "s"})).await;
        // Events of the session and of its calls have no common order.
        let is_active = |event: &Event| event.event == "session" && event.data["state"] == "ACTIVE";
        let seen = stream.until(|event| event.is_result()).await;
        if !seen.iter().any(is_active) {
            stream.until(is_active).await;
        }
        app.delete("/sessions/s").await;
        let rest = stream.rest().await;
        assert_eq!(
            (rest.last().unwrap().event.as_str(), &rest.last().unwrap().data["state"]),
            ("session", &json!(null))
        );
    }
);

on_both_databases!(
    async fn every_session_event_has_an_id_that_resumes(backend: Backend) {
        let app = App::start(backend).await;
        made(&app, json!({"id": "s"})).await;
        let mut stream = app.events("/sessions/s/events").await;
        let mut received = vec![stream.next().await.unwrap()];
        app.call_with(json!({"name": "echo", "session": "s", "id": "before"})).await;
        received.extend(stream.until(|event| event.is_result()).await);
        abort(&app, "s").await;
        received.extend(stream.until(|event| event.event == "session").await);
        app.call_with(json!({"name": "echo", "session": "s", "id": "behind"})).await;
        received.extend(stream.until(|event| event.is_result()).await);
        assert!(received.iter().all(|event| !event.id.is_empty()), "{received:#?}");
        // A subscriber can resume after any event.
        for (seen, event) in received.iter().enumerate() {
            let expected: Vec<&str> = received[seen + 1..]
                .iter()
                .filter(|event| event.event != "session")
                .map(|event| event.id.as_str())
                .collect();
            if expected.is_empty() {
                continue;
            }
            let mut again = app.events_after("/sessions/s/events", &event.id).await;
            assert_eq!(again.next().await.unwrap().event, "session");
            let mut rest = Vec::new();
            while rest.len() < expected.len() {
                let event = again.next().await.unwrap();
                if event.event != "session" {
                    rest.push(event.id);
                }
            }
            assert_eq!(rest, expected, "behind {event:?}");
        }
    }
);

on_both_databases!(
    async fn history_of_large_calls_is_whole(backend: Backend) {
        let app = App::start(backend).await;
        for n in 0..4 {
            let arguments = json!({"text": "x".repeat(1_500_000)});
            app.call_with(json!({"name": "echo", "session": "s", "id": format!("call_{n}"), "arguments": arguments}))
                .await;
        }
        let mut stream = app.events("/sessions/s/events").await;
        let history = stream.until(|event| event.is_result() && event.data["call_id"] == "call_3").await;
        assert_eq!((count(&history, "tool_result"), count(&history, "tool_call")), (4, 4));
        assert!(positions(&history).is_sorted_by(|a, b| a < b), "{:?}", positions(&history));
    }
);
