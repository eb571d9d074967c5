//! `GET /tool-calls` and `GET /tool-calls/{id}`.

use serde_json::{Value, json};

use crate::support::shapes::ids;
use crate::support::{Answer, App, Backend, HttpTool};

const NO_SUCH_CALL: &str = "/tool-calls/0197a1b2-0000-7000-8000-000000000000";

async fn listed(app: &App, query: &str) -> Vec<String> {
    ids(&app.get(&format!("/tool-calls?{query}")).await.ok()["tool_calls"])
}

async fn called(app: &App, name: &str) -> String {
    app.call(name, json!({})).await["id"].as_str().unwrap().to_owned()
}

/// Returns the ids on all pages of the query, and the number of pages.
async fn walked(app: &App, query: &str) -> (Vec<String>, usize) {
    let (mut found, mut pages, mut path) = (Vec::new(), 0, format!("/tool-calls?{query}"));
    loop {
        let page = app.get(&path).await.ok();
        found.extend(ids(&page["tool_calls"]));
        pages += 1;
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/tool-calls?{query}&cursor={cursor}");
    }
    (found, pages)
}

on_both_databases!(
    async fn uncalled_service_has_an_empty_list(backend: Backend) {
        let app = App::start(backend).await;
        assert_eq!(app.get("/tool-calls").await.ok(), json!({"tool_calls": [], "next_cursor": null}));
    }
);

on_both_databases!(
    async fn newest_call_comes_first(backend: Backend) {
        let app = App::start(backend).await;
        let mut expected = Vec::new();
        for name in ["echo", "nobody", "calculate", "echo"] {
            expected.insert(0, called(&app, name).await);
        }
        assert_eq!(listed(&app, "").await, expected);
    }
);

on_both_databases!(
    async fn calls_are_found_by_name_and_status(backend: Backend) {
        let app = App::start(backend).await;
        let good = called(&app, "echo").await;
        let bad = app.call("echo", json!([])).await["id"].as_str().unwrap().to_owned();
        let unknown = called(&app, "no\u{0}body").await;
        assert_eq!(listed(&app, "name=echo").await, [bad.clone(), good.clone()]);
        assert_eq!(listed(&app, "status=SUCCESS").await, [good]);
        assert_eq!(listed(&app, "status=ERROR").await, [unknown.clone(), bad.clone()]);
        assert_eq!(listed(&app, "status=ERROR&name=echo").await, [bad]);
        assert_eq!(listed(&app, "name=no%00body").await, [unknown]);
        assert_eq!(listed(&app, "status=DOING").await, Vec::<String>::new());
        assert_eq!(listed(&app, "name=wait").await, Vec::<String>::new());
    }
);

on_both_databases!(
    async fn calls_are_found_by_their_time(backend: Backend) {
        let app = App::start(backend).await;
        let all = vec![called(&app, "echo").await];
        for everything in ["since=2000-01-01T00:00:00Z", "until=2999-01-01T00:00:00.000Z"] {
            assert_eq!(listed(&app, everything).await, all);
        }
        for nothing in ["since=2999-01-01T00:00:00Z", "until=2000-01-01T00:00:00Z"] {
            assert_eq!(listed(&app, nothing).await, Vec::<String>::new());
        }
    }
);

on_both_databases!(
    async fn pages_hold_every_call_once_and_in_order(backend: Backend) {
        let app = App::start(backend).await;
        let calls: Vec<Value> = (0..11).map(|_| json!({"name": "echo"})).collect();
        app.batch(json!({"calls": calls, "mode": "parallel"})).await;
        let whole = listed(&app, "").await;
        assert_eq!(whole.len(), 11);
        assert_eq!(walked(&app, "limit=4").await, (whole.clone(), 3));
        assert_eq!(walked(&app, "limit=1&name=echo").await.0, whole);
        assert_eq!(walked(&app, "limit=11").await.0, whole);
    }
);

on_both_databases!(
    async fn call_made_between_two_pages_disturbs_neither(backend: Backend) {
        let app = App::start(backend).await;
        for _ in 0..4 {
            called(&app, "echo").await;
        }
        let whole = listed(&app, "").await;
        let page = app.get("/tool-calls?limit=2").await.ok();
        called(&app, "echo").await;
        let rest = listed(&app, &format!("limit=2&cursor={}", page["next_cursor"].as_str().unwrap())).await;
        assert_eq!([ids(&page["tool_calls"]), rest].concat(), whole);
    }
);

on_both_databases!(
    async fn list_survives_a_restart(backend: Backend) {
        let app = App::start(backend).await;
        app.batch(json!({"calls": [{"name": "echo"}, {"name": "nobody"}, {"name": "calculate"}]})).await;
        let before = app.get("/tool-calls").await.ok();
        let app = app.restart().await;
        assert_eq!(app.get("/tool-calls").await.ok(), before);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn another_node_sees_the_same_calls() {
    requires_postgres!();
    let app = App::start(Backend::Postgres).await;
    let other = app.second().await;
    let call = app.call("echo", json!({"a": 1})).await;
    assert_eq!(other.stored(call["id"].as_str().unwrap()).await, call);
    assert_eq!(ids(&other.get("/tool-calls").await.ok()["tool_calls"]), [call["id"].as_str().unwrap()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_query_is_rejected() {
    let app = App::on_sqlite().await;
    for query in ["limit=many", "limit=-1", "status=LOST", "since=yesterday", "until=x", "cursor=nonsense"] {
        app.get(&format!("/tool-calls?{query}")).await.client_problem();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_call_is_a_404() {
    let app = App::on_sqlite().await;
    app.get(NO_SUCH_CALL).await.problem(404);
    app.get(&format!("{NO_SUCH_CALL}?wait_ms=5")).await.problem(404);
    app.get("/tool-calls/call_abc").await.client_problem();
}

on_both_databases!(
    async fn long_poll_answers_at_the_end_of_the_call(backend: Backend) {
        let app = App::with_egress(backend).await;
        let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("late")))).await;
        app.http_tool("slow", &server).await;
        let client = (*app).clone();
        tokio::spawn(async move { client.call("slow", json!({})).await });
        server.received(1).await;
        let path = format!("/tool-calls/{}", server.request().json()["id"].as_str().unwrap());

        let running = app.get(&path).await.ok();
        assert_eq!((&running["status"], &running["phase"]), (&json!("DOING"), &json!("running")));
        assert_eq!(running["ended_at"], Value::Null);
        assert_eq!(app.get(&format!("{path}?wait_ms=1")).await.ok()["status"], "DOING");

        let patient = format!("{path}?wait_ms=20000");
        let (poll, ()) = tokio::join!(app.get(&patient), async { server.open() });
        assert_eq!(poll.ok()["output"], "late");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn long_poll_of_an_ended_call_answers_immediately() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!({})).await;
    let path = format!("/tool-calls/{}?wait_ms=60000", call["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.ok(), call);
}

on_both_databases!(
    async fn page_of_large_calls_ends_early_and_continues(backend: Backend) {
        let app = App::start(backend).await;
        let mut expected = Vec::new();
        for _ in 0..7 {
            let call = app.call("echo", json!({"text": "x".repeat(1_500_000)})).await;
            expected.insert(0, call["id"].as_str().unwrap().to_owned());
        }
        let (found, pages) = walked(&app, "limit=500").await;
        assert_eq!(found, expected);
        assert!(pages > 1, "21 MB came in one page");
        let (found, pages) = walked(&app, "limit=1").await;
        assert_eq!((found, pages), (expected, 7));
    }
);
