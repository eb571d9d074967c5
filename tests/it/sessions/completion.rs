//! `attempt_completion` and `reset_equipped_tools`: enabled in sessions that name them, and nowhere else.

use serde_json::{Value, json};

use super::{abort, listed, made, read};
use crate::model_streams::{anthropic, batch, call, end, message_start, piped};
use crate::support::shapes::{failed, names, succeeded};
use crate::support::{App, Backend};

const NAMES: [&str; 3] = ["attempt_completion", "new_task", "reset_equipped_tools"];

async fn with_system_tools(app: &App) {
    made(app, json!({"id": "s", "tools": NAMES})).await;
}

fn attempt(result: &str) -> Value {
    json!({"name": "attempt_completion", "session": "s", "arguments": {"result": result}})
}

on_both_databases!(
    async fn alone_it_completes_the_session(backend: Backend) {
        let app = App::start(backend).await;
        with_system_tools(&app).await;
        let definitions = listed(&read(&app, "s").await, "tool_definitions", "name");
        let expected = ["attempt_completion", "calculate", "current_time", "echo"];
        assert_eq!(&definitions[..4], expected, "a list of system tools alone restricts nothing");
        let call = app.call_with(attempt("all \u{0} done")).await;
        assert_eq!(succeeded(&call), "all \u{0} done");
        let session = read(&app, "s").await;
        assert_eq!(session["state"], "COMPLETED");
        assert_eq!(session["completion"], json!({"success": true, "summary": "all \u{0} done"}));
        assert_eq!(abort(&app, "s").await["state"], "COMPLETED", "it stays completed");
    }
);

on_both_databases!(
    async fn completion_next_to_another_call_is_an_error(backend: Backend) {
        let app = App::start(backend).await;
        with_system_tools(&app).await;
        let calls = json!([{"name": "echo"}, {"name": "attempt_completion", "arguments": {"result": "done"}}]);
        for mode in ["auto", "parallel", "serial"] {
            let results = app.batch(json!({"session": "s", "mode": mode, "calls": calls})).await;
            assert_eq!(results[0]["status"], "SUCCESS");
            let text = failed(&results[1], "TOOL_EXECUTION_ERROR");
            assert!(text.contains("the only call"), "{text}");
            assert_eq!((&results[1]["attempts"], &read(&app, "s").await["state"]), (&json!(0), &json!("ACTIVE")));
        }
        let alone = json!({"session": "s", "calls": [{"name": "attempt_completion", "arguments": {"result": "done"}}]});
        assert_eq!(succeeded(&app.batch(alone).await[0]), "done");
        assert_eq!(read(&app, "s").await["state"], "COMPLETED");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn completion_in_a_stream_waits_for_the_end_and_must_be_last() {
    let app = App::on_sqlite().await;
    with_system_tools(&app).await;
    for (others, status) in [(1, "ERROR"), (0, "SUCCESS")] {
        let mut events = vec![message_start()];
        events.extend(call(0, "toolu_1", "attempt_completion", &json!({"result": "done"})));
        events.extend((1..=others).flat_map(|n| call(n, "toolu_2", "echo", &json!({}))));
        events.extend(end("tool_use"));
        let response = piped(&app, "session=s", &anthropic(&events), 7).await;
        assert_eq!(batch(&response)["results"][0]["status"], status, "{:#}", batch(&response));
        let state = if status == "ERROR" { "ACTIVE" } else { "COMPLETED" };
        assert_eq!(read(&app, "s").await["state"], state);
    }
}

on_both_databases!(
    async fn elsewhere_there_are_no_system_tools(backend: Backend) {
        let app = App::start(backend).await;
        made(&app, json!({"id": "plain"})).await;
        made(&app, json!({"id": "one", "tools": ["attempt_completion"]})).await;
        for name in NAMES {
            for body in [json!({"name": name}), json!({"name": name, "session": "plain"})] {
                failed(&app.call_with(body).await, "TOOL_NOT_FOUND");
            }
            assert!(!names(&app.get("/tools").await.ok()["tools"]).contains(&name));
        }
        let other = json!({"name": "reset_equipped_tools", "session": "one", "arguments": {"to_activate": []}});
        failed(&app.call_with(other).await, "TOOL_NOT_FOUND");
    }
);

on_both_databases!(
    async fn registered_tool_of_the_same_name_replaces_it(backend: Backend) {
        let app = App::start(backend).await;
        with_system_tools(&app).await;
        app.echo_of("attempt_completion", json!({"own": {"type": "integer"}})).await;
        let body = json!({"name": "attempt_completion", "session": "s", "arguments": {"own": 1}});
        assert_eq!(succeeded(&app.call_with(body.clone()).await), "{\"own\":1}");
        let session = read(&app, "s").await;
        let tools = session["tool_definitions"].as_array().unwrap();
        let shown: Vec<&Value> = tools.iter().filter(|tool| tool["name"] == "attempt_completion").collect();
        assert_eq!((shown.len(), &shown[0]["source"]), (1, &json!("api")));
        let prompt = app.get("/sessions/s/prompt").await.text();
        assert!(prompt.contains("own: integer") && !prompt.contains("Complete the task"), "{prompt}");
        assert_eq!(session["state"], "ACTIVE");
        assert_eq!(app.delete("/tools/attempt_completion").await.status, 204);
        assert_eq!(succeeded(&app.call_with(attempt("done")).await), "done");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn unmanageable_groups_are_reported_with_the_manageable_ones() {
    let app = App::on_sqlite().await;
    with_system_tools(&app).await;
    let body = json!({"name": "reset_equipped_tools", "session": "s", "arguments": {"to_activate": ["nothing"]}});
    let call = app.call_with(body).await;
    let text = failed(&call, "TOOL_EXECUTION_ERROR");
    assert!(text.contains("nothing") && text.contains("Manageable groups"), "{text}");
    assert_eq!(read(&app, "s").await["groups"], json!({}));
}
