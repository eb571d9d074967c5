//! The `Prefer` header (RFC 7240), which says how long the caller waits.

use serde_json::json;

use crate::support::calls::{gated, has_ended, id_of};
use crate::support::shapes::succeeded;
use crate::support::{Answer, App, Backend, HttpTool, Response};

async fn service(server: &HttpTool) -> App {
    let app = App::with_egress(Backend::Sqlite).await;
    app.tool("job", server, json!({"async": true})).await;
    app.tool("act", server, json!({})).await;
    app
}

async fn preferring(app: &App, prefer: &str, name: &str) -> Response {
    app.post_with("/tool-calls", &[("prefer", prefer)], &json!({"name": name})).await
}

/// Returns the preferences that the service has applied.
fn applied(answer: &Response) -> String {
    let values = answer.headers.get_all("preference-applied").iter();
    values.map(|value| value.to_str().unwrap().to_ascii_lowercase()).collect::<Vec<_>>().join(", ")
}

#[tokio::test(flavor = "multi_thread")]
async fn respond_async_returns_early_for_every_tool() {
    let server = gated("late").await;
    let app = service(&server).await;
    for prefer in ["respond-async", "Respond-Async", "handling=lenient, respond-async", "respond-async; x=1"] {
        let answer = preferring(&app, prefer, "act").await;
        assert_eq!((answer.status, applied(&answer)), (202, "respond-async".to_owned()), "{prefer}");
        assert_eq!(answer.header("location"), format!("/tool-calls/{}", id_of(&answer.json)));
        assert!(!has_ended(&answer.json));
    }
    server.open();
    for call in app.all_calls().await {
        assert_eq!(succeeded(&app.ended(&id_of(&call)).await), "late");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_preference_returns_the_result_of_an_async_tool() {
    let server = HttpTool::answering(Answer::text("done")).await;
    let app = service(&server).await;
    for (name, prefer) in
        [("job", "wait=19"), ("act", "wait=19"), ("job", "respond-async, wait=19"), ("job", "WAIT=19")]
    {
        let answer = preferring(&app, prefer, name).await;
        assert!(applied(&answer).contains("wait"), "{prefer}: {}", applied(&answer));
        assert_eq!(succeeded(&answer.ok()), "done");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_preference_is_limited_to_its_seconds() {
    let server = gated("late").await;
    let app = service(&server).await;
    for (name, prefer) in [("act", "wait=1"), ("act", "wait=0"), ("job", "wait=1")] {
        let answer = preferring(&app, prefer, name).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        assert!(applied(&answer).contains("wait"), "{prefer}: {}", applied(&answer));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn body_takes_precedence_over_the_preference() {
    let server = gated("late").await;
    let app = service(&server).await;
    let body = json!({"name": "act", "wait": "accepted"});
    let answer = app.post_with("/tool-calls", &[("prefer", "wait=19")], &body).await;
    assert_eq!((answer.status, applied(&answer)), (202, String::new()));
    server.open();
    let body = json!({"name": "job", "wait": "result"});
    let answer = app.post_with("/tool-calls", &[("prefer", "respond-async")], &body).await;
    assert_eq!(applied(&answer), "");
    assert_eq!(succeeded(&answer.ok()), "late");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_preference_is_ignored() {
    let server = HttpTool::answering(Answer::text("done")).await;
    let app = service(&server).await;
    for prefer in ["return=minimal", "wait=soon", "wait", "", "handling=\"strict, respond-async\""] {
        let answer = preferring(&app, prefer, "act").await;
        assert_eq!(applied(&answer), "", "{prefer}");
        assert_eq!(succeeded(&answer.ok()), "done");
    }
}
