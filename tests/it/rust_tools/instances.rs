//! Tools with one instance per call, per session, or for all calls.

use serde_json::{Value, json};

use crate::support::calls::with;
use crate::support::instances::{Diary, alias, filter_entries};
use crate::support::shapes::{failed, succeeded};
use crate::support::{App, Backend, Options};

async fn app_on(backend: Backend) -> (App, Diary) {
    let diary = Diary::new();
    (App::start_with(backend, Options { extra: diary.tools(), ..Options::default() }).await, diary)
}

async fn call(app: &App, name: &str, session: Option<&str>, arguments: Value) -> Value {
    let session = session.map_or(json!({}), |session| json!({"session": session}));
    app.call_with(with(json!({"name": name, "arguments": arguments}), session)).await
}

on_both_databases!(
    async fn call_keeps_its_instance_for_all_attempts(backend: Backend) {
        let (app, diary) = app_on(backend).await;
        let retry = json!({"max_attempts": 2, "initial_backoff_ms": 1});
        let body = json!({"name": "per_call", "arguments": {"call": "flaky"}, "retry": retry});
        let flaky = app.call_with(body).await;
        assert_eq!((succeeded(&flaky), &flaky["attempts"]), ("1", &json!(2)));
        diary.has("per_call 1 disposed").await;
        assert_eq!(succeeded(&call(&app, "per_call", Some("a"), json!({})).await), "2");
        diary.has("per_call 2 disposed").await;
        let expected = ["per_call 1 made for nobody", "per_call 2 made for a"];
        assert_eq!(filter_entries(&diary.entries(), "made"), expected);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn session_keeps_its_instance_across_calls() {
    let (app, diary) = app_on(Backend::Sqlite).await;
    let mut outputs = Vec::new();
    for session in [Some("a"), Some("b"), Some("a"), None] {
        outputs.push(succeeded(&call(&app, "per_session", session, json!({})).await).to_owned());
    }
    assert_eq!(outputs, ["1", "2", "1", "3"]);
    diary.has("per_session 3 disposed").await;
    assert_eq!(filter_entries(&diary.entries(), "disposed").len(), 1, "{:?}", diary.entries());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_share_one_instance() {
    let (app, diary) = app_on(Backend::Sqlite).await;
    let body = |n: usize| json!({"name": "shared", "arguments": {"make": "waits"}, "session": n.to_string()});
    let calls: Vec<_> = (0..10).map(|n| app.posted(body(n))).collect();
    crate::support::eventually("all of them", || async { (app.all_calls().await.len() == 10).then_some(()) }).await;
    diary.open();
    for call in calls {
        assert_eq!(succeeded(&call.await.unwrap().ok()), "1");
    }
    assert_eq!(filter_entries(&diary.entries(), "begun").len(), 1);
    assert_eq!(filter_entries(&diary.entries(), "disposed").len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_creation_fails_its_call_and_the_next_call_tries_again() {
    let (app, diary) = app_on(Backend::Sqlite).await;
    for (make, expected) in [("fails", "as you wish"), ("panics", "the factory panicked")] {
        let call = call(&app, "shared", None, json!({"make": make})).await;
        assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains(expected), "{call:#}");
    }
    assert_eq!(succeeded(&call(&app, "shared", None, json!({})).await), "1");
    assert_eq!(filter_entries(&diary.entries(), "begun").len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_for_a_cancelled_call_is_created_by_the_next() {
    let (app, diary) = app_on(Backend::Sqlite).await;
    let first = app.posted(json!({"name": "shared", "arguments": {"make": "waits"}}));
    diary.has("shared begun").await;
    app.cancel(&app.only("shared").await).await;
    failed(&first.await.unwrap().ok(), "CANCELLED");
    assert_eq!(succeeded(&call(&app, "shared", None, json!({})).await), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_or_panicking_disposal_is_isolated() {
    let (app, diary) = app_on(Backend::Sqlite).await;
    for (number, dispose) in [(1, "fails"), (2, "panics"), (3, "")] {
        let call = call(&app, "per_call", None, json!({"dispose": dispose})).await;
        assert_eq!(succeeded(&call), number.to_string());
        diary.has(&format!("per_call {number} disposed")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_tool_disposes_its_instances_after_its_last_call() {
    let (app, diary) = app_on(Backend::Sqlite).await;
    app.register(alias("mine", "shared", "one")).await;
    let running = app.posted(json!({"name": "mine", "arguments": {"call": "waits"}}));
    diary.has("shared 1 called").await;
    app.put("/tools/mine", &alias("mine", "shared", "two")).await.ok();
    assert_eq!(succeeded(&call(&app, "mine", None, json!({})).await), "2");
    assert_eq!(filter_entries(&diary.entries(), "disposed").len(), 0);
    diary.open();
    assert_eq!(succeeded(&running.await.unwrap().ok()), "1");
    diary.has("shared 1 disposed").await;
    assert_eq!(app.delete("/tools/mine").await.status, 204);
    diary.has("shared 2 disposed").await;
}

on_both_databases!(
    async fn stop_disposes_of_all_instances_and_shared_ones_last(backend: Backend) {
        let (app, diary) = app_on(backend).await;
        call(&app, "shared", None, json!({})).await;
        for session in ["a", "b"] {
            call(&app, "per_session", Some(session), json!({})).await;
        }
        let app = app.restart().await;
        let gone = filter_entries(&diary.entries(), "disposed");
        assert_eq!(gone.len(), 3, "{gone:?}");
        assert_eq!(gone.last().unwrap(), "shared 1 disposed");
        assert_eq!(succeeded(&call(&app, "shared", None, json!({})).await), "2");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn idle_session_loses_its_instances_but_never_during_a_run() {
    let diary = Diary::new();
    let options =
        Options { extra: diary.tools(), configure: Some(|config| config.instances.idle_ms = 40), ..Options::default() };
    let app = App::start_with(Backend::Sqlite, options).await;
    let body = json!({"name": "per_session", "arguments": {"call": "waits"}, "session": "busy"});
    let busy = app.posted(body);
    diary.has("per_session 1 called").await;
    call(&app, "per_session", Some("idle"), json!({})).await;
    diary.has("per_session 2 disposed").await;
    assert_eq!(filter_entries(&diary.entries(), "disposed"), ["per_session 2 disposed"]);
    diary.open();
    assert_eq!(succeeded(&busy.await.unwrap().ok()), "1");
    diary.has("per_session 1 disposed").await;
}
