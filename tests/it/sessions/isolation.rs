//! Sessions are created once, on first use, and are isolated from each other.

use futures_util::future::join_all;
use serde_json::json;

use super::{listed, made, read};
use crate::support::{App, Backend};

on_both_databases!(
    async fn many_first_calls_at_once_make_one_session(backend: Backend) {
        let app = App::start(backend).await;
        let body = |n: u32| json!({"name": "echo", "session": "fresh", "id": format!("call_{n}")});
        let calls = join_all((0..32).map(|n| app.posted(body(n)))).await;
        assert!(calls.into_iter().all(|answer| answer.unwrap().ok()["status"] == "SUCCESS"));
        assert_eq!(listed(&read(&app, "fresh").await, "tool_calls", "id").len(), 32);
        assert_eq!(app.get("/sessions").await.ok()["sessions"].as_array().unwrap().len(), 1);
    }
);

on_both_databases!(
    async fn two_sessions_never_see_each_others_calls_tools_or_events(backend: Backend) {
        let app = App::start(backend).await;
        made(&app, json!({"id": "one", "tools": ["echo", "attempt_completion"]})).await;
        made(&app, json!({"id": "other", "tools": ["wait"]})).await;
        for (session, name) in [("one", "echo"), ("other", "wait")] {
            let arguments = if name == "wait" { json!({"ms": 1}) } else { json!({"of": session}) };
            let id = format!("call of {session}");
            app.call_with(json!({"name": name, "session": session, "id": id, "arguments": arguments})).await;
        }
        let (one, other) = (read(&app, "one").await, read(&app, "other").await);
        assert_eq!(listed(&one, "tool_calls", "call_id"), ["call of one"]);
        assert_eq!(listed(&other, "tool_calls", "call_id"), ["call of other"]);
        assert_eq!(listed(&one, "tool_definitions", "name"), ["attempt_completion", "echo"]);
        assert_eq!(listed(&other, "tool_definitions", "name"), ["wait"]);
        for session in ["one", "other"] {
            let theirs = app.get(&format!("/sessions/{session}/messages?format=anthropic")).await.text();
            assert_eq!(theirs.contains("\"echo\""), session == "one", "{theirs}");
            let mut events = app.events(&format!("/sessions/{session}/events")).await;
            let seen = events.until(|event| event.event == "tool_result").await;
            assert!(seen.iter().all(|event| event.data["session"] == session), "{seen:#?}");
        }
    }
);

on_both_databases!(
    async fn session_callback_gets_every_result_and_a_broken_one_affects_no_other(backend: Backend) {
        use crate::support::{Answer, HttpTool, eventually};
        let app = App::with_egress(backend).await;
        let good = HttpTool::answering(Answer::status(204, "text/plain", "")).await;
        let bad = HttpTool::answering(Answer::CloseEarly).await;
        made(&app, json!({"id": "good", "callback_url": good.url("/of-session")})).await;
        made(&app, json!({"id": "bad", "callback_url": bad.url("/")})).await;
        for session in ["bad", "good"] {
            let calls = json!([{"name": "echo", "id": "a"}, {"name": "nobody", "id": "b"}]);
            let answer = app.post("/tool-calls", &json!({"session": session, "calls": calls})).await.ok();
            assert_eq!(answer["results"][0]["status"], "SUCCESS");
        }
        let own = json!({"name": "echo", "id": "c", "session": "good", "callback_url": good.url("/of-request")});
        app.call_with(own).await;
        good.received(3).await;
        let mut received: Vec<(String, String)> = good
            .requests()
            .iter()
            .map(|request| (request.target.clone(), request.json()["call_id"].as_str().unwrap().to_owned()))
            .collect();
        received.sort();
        let expected = [("/of-request", "c"), ("/of-session", "a"), ("/of-session", "b")];
        assert_eq!(received, expected.map(|(target, id)| (target.to_owned(), id.to_owned())));
        eventually("a try of the broken one", || async { (!bad.requests().is_empty()).then_some(()) }).await;
        assert_eq!(listed(&read(&app, "bad").await, "tool_results", "status"), ["SUCCESS", "ERROR"]);
    }
);
