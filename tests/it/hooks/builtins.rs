//! The built-in hooks.

use serde_json::{Value, json};

use super::history;
use crate::support::shapes::succeeded;
use crate::support::{Answer, App, Backend, HttpTool};

fn redact(options: Value) -> Value {
    json!({"event": "tool_result_persist", "builtin": "redact", "options": options})
}

on_both_databases!(
    async fn redacted_value_is_never_read_back(backend: Backend) {
        let app = App::with_egress(backend).await;
        let tool = HttpTool::answering(Answer::json(&json!({"card": "4111-2222", "pin": "SECRET", "ok": true}))).await;
        app.http_tool("pays", &tool).await;
        app.tool("reads", &tool, json!({"annotations": {"read_only": true}})).await;
        app.declared(redact(json!({
            "pointers": ["/arguments/password", "/structured/pin"], "patterns": ["[0-9]{4}-[0-9]{4}"], "replacement": "#",
        })))
        .await;
        // Three write paths: recorded before the run, recorded once at the end, and accepted first. In two of them, the
        // arguments are on disk before the end.
        for (name, more) in [("pays", json!({})), ("reads", json!({})), ("reads", json!({"wait": "accepted"}))] {
            let mut body = json!({"name": name, "arguments": {"password": "SECRET", "to": "card 4111-2222", "n": 1}});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let id = app.sent(body).await;
            let stored = app.ended(&id).await;
            assert_eq!(succeeded(&stored), r##"{"card":"#","pin":"#","ok":true}"##);
            assert_eq!(stored["structured"], json!({"card": "#", "pin": "#", "ok": true}));
            assert_eq!(stored["arguments"], json!({"password": "#", "to": "card #", "n": 1}));
            assert_eq!(stored["effective_arguments"], stored["arguments"]);
            let all = format!("{stored}{:?}", history(&app, &stored["id"]).await);
            let listed = app.get(&format!("/tool-calls?name={name}")).await.ok().to_string();
            for secret in ["SECRET", "4111"] {
                assert!(!all.contains(secret) && !listed.contains(secret), "{secret} in {all}");
            }
        }
        // The tool and its caller see the unredacted values.
        let call = app.call("pays", json!({"password": "SECRET"})).await;
        assert_eq!((&call["structured"]["pin"], &call["arguments"]["password"]), (&"SECRET".into(), &"SECRET".into()));
        assert!(tool.requests().iter().all(|request| request.json()["arguments"]["password"] == "SECRET"));
    }
);

on_both_databases!(
    async fn many_concurrent_calls_are_redacted_separately(backend: Backend) {
        let app = App::with_egress(backend).await;
        let tool = HttpTool::answering(Answer::text("ok")).await;
        for name in ["open", "shut"] {
            app.http_tool(name, &tool).await;
        }
        let hook = redact(json!({"pointers": ["/arguments/key"]}));
        app.declared(crate::support::calls::with(hook, json!({"match": {"tools": ["shut"]}}))).await;
        let name = |n: usize| if n.is_multiple_of(2) { "open" } else { "shut" };
        let calls: Vec<Value> =
            (0..64).map(|n| json!({"name": name(n), "arguments": {"key": format!("k{n}"), "n": n}})).collect();
        for call in app.batch(json!({"mode": "parallel", "calls": calls})).await {
            let stored = app.stored(call["id"].as_str().unwrap()).await;
            let n = stored["arguments"]["n"].as_u64().unwrap();
            let kept = if stored["name"] == "open" { format!("k{n}") } else { "[redacted]".to_owned() };
            assert_eq!(stored["arguments"]["key"], kept);
            assert_eq!(call["arguments"]["key"], format!("k{n}"));
        }
    }
);

on_both_databases!(
    async fn long_output_is_stored_in_part(backend: Backend) {
        let app = App::with_egress(backend).await;
        let tool = HttpTool::answering(Answer::text("one\ntwo\nthree")).await;
        app.http_tool("long", &tool).await;
        let options = json!({"max_lines": 2, "max_bytes": 1000});
        app.declared(json!({"event": "tool_result_persist", "builtin": "truncate", "options": options})).await;
        let call = app.call("long", json!({})).await;
        assert_eq!(succeeded(&call), "one\ntwo\nthree");
        let stored = app.stored(call["id"].as_str().unwrap()).await;
        assert_eq!(succeeded(&stored), "one\ntwo");
        assert_eq!(stored["metadata"]["stored_truncated"], json!({"bytes": 13, "kept_bytes": 7}));
        let short = app.call("echo", json!({"a": 1})).await;
        assert_eq!(app.stored(short["id"].as_str().unwrap()).await, short);
    }
);
