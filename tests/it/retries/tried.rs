//! Failures that are retried, and how the attempts are reported and counted.

use serde_json::{Value, json};
use toolpost::domain::Time;

use super::{answers, patient, third_time_lucky, three, unavailable};
use crate::support::calls::{assert_counts, idempotent};
use crate::support::shapes::{failed, succeeded};
use crate::support::sse::{count, statuses};
use crate::support::{Answer, App, Backend};

on_both_databases!(
    async fn transient_failure_becomes_a_success_of_one_call(backend: Backend) {
        let server = third_time_lucky().await;
        let app = patient(backend, &server, json!({})).await;
        let call = app.call("t", json!({"a": 1})).await;
        assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(3)));
        assert_eq!(app.stored(call["id"].as_str().unwrap()).await, call);
        let expected = json!({"execution_count": 1, "success_count": 1, "failure_count": 0, "retry_count": 2,
            "failures_by_code": {}, "rejected_count": 0});
        assert_counts(&app.stats("t").await, expected);
        let requests = server.requests();
        for (index, request) in requests.iter().enumerate() {
            let envelope = request.json();
            assert_eq!((&envelope["attempt"], &envelope["id"]), (&json!(index + 1), &call["id"]));
            assert_eq!(envelope["arguments"], json!({"a": 1}));
            assert_eq!(request.header("idempotency-key"), requests[0].header("idempotency-key"));
        }
        assert_eq!((requests.len(), requests[0].header("idempotency-key").is_empty()), (3, false));
    }
);

on_both_databases!(
    async fn status_of_a_retried_call_never_goes_back(backend: Backend) {
        let server = third_time_lucky().await;
        let app = patient(backend, &server, json!({})).await;
        let events = app.call_streamed(&json!({"name": "t"})).await.rest().await;
        assert_eq!(statuses(&events), ["WAIT", "DOING", "SUCCESS"]);
        assert_eq!(count(&events, "tool_result"), 1);
        let statuses = events.iter().filter(|event| event.event == "status");
        let mut phases: Vec<&str> = statuses.map(|event| event.data["phase"].as_str().unwrap()).collect();
        phases.dedup();
        assert_eq!(phases, ["queued", "running", "retrying", "running", "retrying", "running", "done"]);
        let id = events[0].data["id"].as_str().unwrap();
        let again = app.events(&format!("/tool-calls/{id}/events")).await.rest().await;
        assert_eq!(again, events[..events.len() - 1]);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn events_of_an_ended_call_show_the_start_of_each_attempt() {
    let server = third_time_lucky().await;
    let app = patient(Backend::Sqlite, &server, json!({})).await;
    let call = app.call("t", json!({})).await;
    let path = format!("/tool-calls/{}/events", call["id"].as_str().unwrap());
    let events = app.events(&path).await.rest().await;
    let changes: Vec<&Value> = events.iter().map(|event| &event.data).collect();
    let time = |value: &Value| Time::parse(value.as_str().unwrap_or_default());
    let mut times: Vec<Time> = changes.iter().filter_map(|data| time(&data["at"])).collect();
    let (created, ended) = (time(&call["created_at"]).unwrap(), time(&call["ended_at"]).unwrap());
    // The acceptance, and the end and the new start of each attempt but the last.
    assert_eq!(times.len(), 5, "{changes:#?}");
    assert!(times.is_sorted() && times[0] == created && times.pop() <= Some(ended), "{times:?}");
    let last = changes.iter().rfind(|data| data["status"] == "SUCCESS").unwrap();
    assert_eq!(last.get("at"), None, "the end has its own time");
}

on_both_databases!(
    async fn last_failure_is_the_outcome(backend: Backend) {
        let last = Answer::status(502, "text/plain", "the last word");
        let server = answers(vec![unavailable(), unavailable(), last]).await;
        let app = patient(backend, &server, json!({})).await;
        let call = app.call("t", json!({})).await;
        assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("the last word"), "{call:#}");
        assert_eq!((&call["attempts"], server.requests().len()), (&json!(3), 3));
        let expected = json!({"execution_count": 1, "failure_count": 1, "retry_count": 2,
            "failures_by_code": {"TOOL_EXECUTION_ERROR": 1}});
        assert_counts(&app.stats("t").await, expected);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn permanent_failure_ends_the_attempts() {
    let server = answers(vec![unavailable(), Answer::status(404, "text/plain", "gone")]).await;
    let app = patient(Backend::Sqlite, &server, json!({})).await;
    let call = app.call("t", json!({})).await;
    assert_eq!((&call["attempts"], &call["error"]["retryable"]), (&json!(2), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_transient_failure_is_retried() {
    for status in [429, 500, 502, 503, 504] {
        let server = answers(vec![Answer::status(status, "text/plain", "x"), Answer::text("done")]).await;
        let app = patient(Backend::Sqlite, &server, json!({})).await;
        let call = app.call("t", json!({})).await;
        assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(2)), "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timed_out_attempt_is_retried() {
    let server = answers(vec![Answer::Never, Answer::text("done")]).await;
    let app = patient(Backend::Sqlite, &server, json!({"limits": {"timeout_ms": 1000}})).await;
    let call = app.call("t", json!({})).await;
    assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(2)));
    server.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_tool_is_repeatable() {
    let server = third_time_lucky().await;
    let app = patient(Backend::Sqlite, &server, json!({"annotations": {"read_only": true}})).await;
    let call = app.call("t", json!({})).await;
    assert_eq!((succeeded(&call), &call["attempts"]), ("done", &json!(3)));
}

/// Returns an address without a listener.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}

on_both_databases!(
    async fn unsent_request_is_retried_for_any_tool(backend: Backend) {
        let app = App::with_egress(backend).await;
        let definition = crate::support::app::http_tool("t", json!({"url": nobody()}));
        app.register(crate::support::calls::with(definition, json!({"retry": three()}))).await;
        let call = app.call("t", json!({})).await;
        failed(&call, "TOOL_EXECUTION_ERROR");
        assert_eq!(call["attempts"], 3);
        assert_counts(&app.stats("t").await, json!({"execution_count": 1, "failure_count": 1, "retry_count": 2}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn async_call_is_retried_like_any_other() {
    let server = third_time_lucky().await;
    let app = patient(Backend::Sqlite, &server, json!({"async": true})).await;
    let id = app.sent(json!({"name": "t"})).await;
    assert_eq!(app.ended(&id).await["attempts"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_batch_are_retried_separately() {
    let (lucky, well) = (third_time_lucky().await, answers(vec![Answer::text("well")]).await);
    let app = patient(Backend::Sqlite, &lucky, json!({})).await;
    app.tool("well", &well, json!({"annotations": idempotent()})).await;
    let results = app.batch(json!({"calls": [{"name": "t"}, {"name": "well"}], "mode": "parallel"})).await;
    assert_eq!((succeeded(&results[0]), &results[0]["attempts"]), ("done", &json!(3)));
    assert_eq!((succeeded(&results[1]), &results[1]["attempts"]), ("well", &json!(1)));
}
