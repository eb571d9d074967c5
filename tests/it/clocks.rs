//! The timeouts of a call: their sources, their precedence, and which of them fired.

use serde_json::{Value, json};

use crate::support::calls::{gated, idempotent};
use crate::support::shapes::{failed, points_at, succeeded};
use crate::support::{Answer, App, Backend, HttpTool};

/// Returns the limits in force for a call, as the response shows them.
async fn limits(app: &App, body: Value) -> Value {
    app.call_with(body).await["limits"].clone()
}

fn timed_out(call: &Value, after_ms: u64, clock: &str) {
    let expected = format!("Error: Tool execution timeout after {after_ms}ms ({clock})");
    assert_eq!(failed(call, "TOOL_TIMEOUT"), expected);
    assert_eq!(call["error"]["retryable"], true);
}

/// Starts a service with the tool `t`, whose server never answers.
async fn silent(backend: Backend) -> (App, HttpTool) {
    let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::Never).await);
    app.http_tool("t", &server).await;
    (app, server)
}

on_both_databases!(
    async fn error_names_the_timeout(backend: Backend) {
        let (app, _server) = silent(backend).await;
        for (limits, after_ms, clock) in [
            (json!({"timeout_ms": 60}), 60, "timeout_ms"),
            (json!({"idle_timeout_ms": 70}), 70, "idle_timeout_ms"),
            (json!({"timeout_ms": 80, "idle_timeout_ms": 9000}), 80, "timeout_ms"),
        ] {
            timed_out(&app.call_with(json!({"name": "t", "limits": limits})).await, after_ms, clock);
        }
        assert_eq!(app.stats("t").await["failures_by_code"], json!({"TOOL_TIMEOUT": 3}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn silence_stops_the_real_work() {
    for answer in [Answer::Never, Answer::Stall] {
        let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(answer).await);
        app.http_tool("t", &server).await;
        timed_out(
            &app.call_with(json!({"name": "t", "limits": {"idle_timeout_ms": 300}})).await,
            300,
            "idle_timeout_ms",
        );
        server.closed().await;
    }
}

on_both_databases!(
    async fn progress_is_a_sign_of_life(backend: Backend) {
        let app = App::start(backend).await;
        // The total time exceeds the idle timeout, but each step is far shorter.
        let body =
            json!({"name": "wait", "arguments": {"ms": 3000, "steps": 100}, "limits": {"idle_timeout_ms": 2500}});
        let call = app.call_with(body).await;
        assert_eq!(succeeded(&call), "Waited 3000 ms");
        assert_eq!(call["limits"]["idle_timeout_ms"], 2500);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn silence_after_a_sign_of_life_is_silence() {
    let app = App::on_sqlite().await;
    let arguments = json!({"ms": 300_000, "steps": 100});
    // One step takes three seconds.
    let body = json!({"name": "wait", "arguments": arguments, "limits": {"idle_timeout_ms": 100}});
    timed_out(&app.call_with(body).await, 100, "idle_timeout_ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_timeout_is_taken_from_call_tool_or_server() {
    let app = App::tuned(Backend::Sqlite, |config| {
        config.limits.timeout_ms = 1001;
        config.limits.idle_timeout_ms = 1002;
        config.limits.queue_timeout_ms = 1003;
    })
    .await;
    let echo = json!({"type": "builtin", "name": "echo"});
    app.register(json!({"name": "plain", "executor": echo})).await;
    let own = json!({"timeout_ms": 2001, "idle_timeout_ms": 2002});
    app.register(json!({"name": "own", "executor": echo, "limits": own})).await;
    let of = |timeout: u64, idle: u64, queue: u64| json!([timeout, idle, queue]);
    for (name, call, expected) in [
        ("plain", json!({}), of(1001, 1002, 1003)),
        ("own", json!({}), of(2001, 2002, 1003)),
        ("own", json!({"idle_timeout_ms": 3002}), of(2001, 3002, 1003)),
        ("own", json!({"timeout_ms": 3001, "queue_timeout_ms": 3003}), of(3001, 2002, 3003)),
        ("own", json!({"timeout_ms": null}), of(2001, 2002, 1003)),
    ] {
        let found = limits(&app, json!({"name": name, "limits": call})).await;
        let found = json!([found["timeout_ms"], found["idle_timeout_ms"], found["queue_timeout_ms"]]);
        assert_eq!(found, expected, "{name} {call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_of_a_call_precede_those_of_its_batch() {
    let app = App::on_sqlite().await;
    let calls = json!([{"name": "echo", "limits": {"timeout_ms": 1001}}, {"name": "echo"}]);
    let body = json!({"calls": calls, "limits": {"timeout_ms": 2001, "idle_timeout_ms": 2002}});
    let results = app.batch(body).await;
    let clocks = |call: &Value| (call["limits"]["timeout_ms"].clone(), call["limits"]["idle_timeout_ms"].clone());
    assert_eq!(clocks(&results[0]), (json!(1001), json!(2002)));
    assert_eq!(clocks(&results[1]), (json!(2001), json!(2002)));
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_is_capped_by_the_server() {
    let app = App::on_sqlite().await;
    let long = json!({"timeout_ms": 10_000_000});
    let echo = json!({"type": "builtin", "name": "echo"});
    app.register(json!({"name": "long", "executor": echo, "limits": long})).await;
    assert_eq!(limits(&app, json!({"name": "long"})).await["timeout_ms"], 1_800_000);
    assert_eq!(limits(&app, json!({"name": "echo", "limits": long})).await["timeout_ms"], 1_800_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn async_tool_has_ten_minutes() {
    let app = App::on_sqlite().await;
    app.register(json!({"name": "job", "async": true, "executor": {"type": "builtin", "name": "echo"}})).await;
    assert_eq!(limits(&app, json!({"name": "job", "wait": "result"})).await["timeout_ms"], 600_000);
    assert_eq!(limits(&app, json!({"name": "echo", "wait": 19_000})).await["timeout_ms"], 30_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_has_its_own_timeout() {
    let app = App::with_egress(Backend::Sqlite).await;
    let server = HttpTool::start("127.0.0.1", |request| match request.json()["attempt"].as_u64() {
        Some(3) => Answer::text("at last"),
        _ => Answer::Never,
    })
    .await;
    let retry = json!({"max_attempts": 3, "initial_backoff_ms": 1});
    app.tool("t", &server, json!({"annotations": idempotent(), "retry": retry})).await;
    let call = app.call_with(json!({"name": "t", "limits": {"timeout_ms": 200}})).await;
    assert_eq!((succeeded(&call), &call["attempts"]), ("at last", &json!(3)));
    assert!(call["duration_ms"].as_u64().unwrap() > 200, "{call:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn time_in_the_queue_is_no_time_of_the_run() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, gated("done").await);
    app.tool("t", &server, json!({"limits": {"max_concurrency": 1}})).await;
    let first = app.posted(json!({"name": "t"}));
    server.received(1).await;
    let second = app.posted(json!({"name": "t", "limits": {"timeout_ms": 2000}}));
    // The second call waits longer than it may run.
    let arguments = json!({"ms": 2200});
    app.call("wait", arguments).await;
    assert!(!second.is_finished());
    server.open();
    assert_eq!(succeeded(&first.await.unwrap().ok()), "done");
    assert_eq!(succeeded(&second.await.unwrap().ok()), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_timeout_is_rejected() {
    let app = App::on_sqlite().await;
    for (clock, value) in
        [("idle_timeout_ms", json!(0)), ("queue_timeout_ms", json!("5")), ("idle_timeout_ms", json!(-1))]
    {
        let body = json!({"name": "echo", "limits": {clock: value}});
        points_at(&app.post("/tool-calls", &body).await.problem(422), &format!("/limits/{clock}"));
    }
}
