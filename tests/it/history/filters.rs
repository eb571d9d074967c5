//! Each filter, and combinations of them.

use super::*;
use crate::support::calls::with;
use crate::support::{Answer, HttpTool};

const NOBODY: &str = "0197a1b2-0000-7000-8000-000000000000";

/// Whether a call matches.
type Condition = fn(&Value) -> bool;

on_both_databases!(
    async fn failed_calls_are_found_by_their_code(backend: Backend) {
        let app = App::start(backend).await;
        called(&app, "echo", json!({})).await;
        let unknown = called(&app, "no_such_tool", json!({})).await;
        let invalid = called(&app, "echo", json!([])).await;
        let later = called(&app, "no_such_tool", json!({"a": 1})).await;
        assert_eq!(listed(&app, "code=TOOL_NOT_FOUND").await, [later.clone(), unknown]);
        assert_eq!(listed(&app, "code=TOOL_VALIDATION_ERROR").await, std::slice::from_ref(&invalid));
        assert_eq!(listed(&app, "code=TOOL_VALIDATION_ERROR&name=no_such_tool").await, [""; 0]);
        assert_eq!(listed(&app, "code=TOOL_NOT_FOUND&status=SUCCESS").await, [""; 0]);
        assert_eq!(listed(&app, "status=ERROR&limit=2").await, [later, invalid]);
        app.get("/tool-calls?code=NO_SUCH_CODE").await.problem(422);
    }
);

on_both_databases!(
    async fn unfinished_calls_are_found_by_their_phase(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::Never).await);
        let one = json!({"async": true, "limits": {"max_concurrency": 1}});
        app.tool("job", &server, one).await;
        let running = app.accepted(json!({"name": "job", "session": "s"})).await;
        server.received(1).await;
        let queued = app.accepted(json!({"name": "job"})).await;
        let partial = app.sent(json!({"name": "echo", "partial": true})).await;
        let ended = called(&app, "echo", json!({})).await;
        app.in_phase(&running, "running").await;
        for (phase, id) in [("running", &running), ("queued", &queued), ("arguments", &partial), ("done", &ended)] {
            assert_eq!(listed(&app, &format!("phase={phase}")).await, std::slice::from_ref(id), "{phase}");
        }
        assert_eq!(listed(&app, "phase=external").await, [""; 0]);
        assert_eq!(listed(&app, "phase=running&session=s").await, [running]);
        assert_eq!(listed(&app, "phase=queued&status=DOING").await, [""; 0]);
        assert_eq!(listed(&app, "status=WAIT").await, [partial, queued]);
    }
);

on_both_databases!(
    async fn ended_calls_are_found_by_their_duration(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::Never).await);
        app.tool("job", &server, json!({"async": true})).await;
        app.accepted(json!({"name": "job"})).await;
        let mut calls = Vec::new();
        for ms in [0, 5, 150, 40] {
            calls.insert(0, app.call("wait", json!({"ms": ms})).await);
        }
        let at_least = |least: u64| -> Vec<String> {
            calls.iter().filter(|call| call["duration_ms"].as_u64().unwrap() >= least).map(id_of).collect()
        };
        for least in [0, 1, 5, 40, 41, 150, 151, 1_000_000] {
            assert_eq!(listed(&app, &format!("min_duration_ms={least}")).await, at_least(least), "{least}");
        }
        assert_eq!(walked(&app, "min_duration_ms=5&limit=1").await, at_least(5));
        assert_eq!(listed(&app, "min_duration_ms=150&name=echo").await, [""; 0]);
        assert_eq!(listed(&app, "min_duration_ms=150&name=wait").await, at_least(150));
    }
);

on_both_databases!(
    async fn calls_have_no_parent_yet(backend: Backend) {
        let app = App::start(backend).await;
        called(&app, "echo", json!({})).await;
        assert_eq!(listed(&app, &format!("parent={NOBODY}")).await, [""; 0]);
        app.get("/tool-calls?parent=x").await.problem(422);
    }
);

on_both_databases!(
    async fn calls_are_filtered_by_their_own_time(backend: Backend) {
        let app = App::start(backend).await;
        let calls: Vec<Value> = (0..20).map(|_| json!({"name": "echo"})).collect();
        app.batch(json!({"calls": calls})).await;
        let all = app.all_calls().await;
        for call in &all {
            let at = call["created_at"].as_str().unwrap();
            let since: Vec<String> =
                all.iter().filter(|other| other["created_at"].as_str().unwrap() >= at).map(id_of).collect();
            assert_eq!(listed(&app, &format!("since={at}")).await, since);
            let until = listed(&app, &format!("until={at}")).await;
            assert!(until.iter().all(|id| !since.contains(id)), "{until:?}");
        }
    }
);

on_both_databases!(
    async fn all_filter_combinations_agree_with_a_full_check(backend: Backend) {
        let app = App::start(backend).await;
        for number in 0..40 {
            let name = ["echo", "wait", "no_such_tool"][number % 3];
            let word = ["red", "green"][number % 2];
            let arguments = json!({"ms": number % 2, "word": word, "n": number});
            let more = if number % 4 == 0 { json!({"session": "s"}) } else { json!({}) };
            app.post("/tool-calls", &with(json!({"name": name, "arguments": arguments}), more)).await.ok();
        }
        let last = id_of(&app.all_calls().await[0]);
        crate::support::eventually("the words to be indexed", || async {
            listed(&app, "q=39").await.contains(&last).then_some(())
        })
        .await;
        let all = app.all_calls().await;
        let conditions: [(&str, Condition); 7] = [
            ("name=echo", |call| call["name"] == "echo"),
            ("session=s", |call| call["session"] == "s"),
            ("status=ERROR", |call| call["status"] == "ERROR"),
            ("code=TOOL_NOT_FOUND", |call| call["error"]["code"] == "TOOL_NOT_FOUND"),
            ("phase=done", |call| call["phase"] == "done"),
            ("min_duration_ms=1", |call| call["duration_ms"].as_u64().unwrap() >= 1),
            ("q=green", |call| call["arguments"]["word"] == "green"),
        ];
        for chosen in 0..1_usize << conditions.len() {
            let chosen: Vec<_> = conditions.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1).collect();
            let query: Vec<&str> = chosen.iter().map(|(_, (query, _))| *query).collect();
            let expected: Vec<String> =
                all.iter().filter(|call| chosen.iter().all(|(_, (_, is))| is(call))).map(id_of).collect();
            let query = query.join("&");
            assert_eq!(listed(&app, &query).await, expected, "{query}");
            assert_eq!(walked(&app, &format!("{query}&limit=3")).await, expected, "{query}");
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn key_finds_only_calls_of_its_tools_and_tenant() {
    let app = App::on_sqlite().await;
    let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
    let admin = app.with_key(&admin);
    let echo = id_of(&admin.call("echo", json!({"word": "red"})).await);
    admin.call("wait", json!({"ms": 1, "word": "red"})).await;
    let client = async |key: Value| app.with_key(&admin.key(key).await.0);
    let other = client(json!({"scopes": ["read"], "tenant": "other"})).await;
    let limited = client(json!({"scopes": ["read"], "tools": ["ec*"]})).await;
    crate::support::eventually("the words to be indexed", || async {
        (listed(&admin, "q=red").await.len() == 2).then_some(())
    })
    .await;
    for query in ["", "q=red", "status=ERROR", "min_duration_ms=0"] {
        assert_eq!(listed(&other, query).await, [""; 0], "{query}");
    }
    for query in ["", "q=red", "phase=done", "min_duration_ms=0"] {
        assert_eq!(listed(&limited, query).await, std::slice::from_ref(&echo), "{query}");
    }
}
