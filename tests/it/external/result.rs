//! `POST /tool-calls/{id}/result`.

use serde_json::{Value, json};

use super::{answer, call_external, post_result, service};
use crate::support::calls::assert_counts;
use crate::support::client::send;
use crate::support::shapes::{HARD_TEXT, failed, succeeded};
use crate::support::sse::{count, statuses};
use crate::support::{Backend, Client};

on_both_databases!(
    async fn posted_result_is_the_outcome(backend: Backend) {
        let app = service(backend, json!({})).await;
        let waiting = app.posted(json!({"name": "ask", "arguments": {"q": 1}}));
        let id = app.only("ask").await;
        app.in_phase(&id, "external").await;
        let details = json!({"by": "hand"});
        answer(&app, &id, &json!({"output": HARD_TEXT, "structured": {"n": 1}, "details": details})).await;
        let call = waiting.await.unwrap().ok();
        assert_eq!((succeeded(&call), &call["structured"]), (HARD_TEXT, &json!({"n": 1})));
        assert_eq!((&call["details"]["by"], &call["attempts"]), (&json!("hand"), &json!(1)));
        assert_eq!(app.stored(&id).await, call);
        assert_counts(&app.stats("ask").await, json!({"execution_count": 1, "success_count": 1}));
        let events = app.events(&format!("/tool-calls/{id}/events")).await.rest().await;
        assert_eq!((statuses(&events), count(&events, "tool_result")), (vec!["WAIT", "DOING", "SUCCESS"], 1));
    }
);

on_both_databases!(
    async fn result_can_follow_the_acceptance_immediately(backend: Backend) {
        let app = service(backend, json!({})).await;
        for _ in 0..40 {
            let id = app.accepted(json!({"name": "ask", "wait": "accepted"})).await;
            answer(&app, &id, &json!("quick")).await;
            assert_eq!(succeeded(&app.ended(&id).await), "quick");
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn posted_result_is_converted_like_any_other() {
    let app = service(Backend::Sqlite, json!({})).await;
    for (result, output, structured) in [
        (json!("as it \"is\""), "as it \"is\"", Value::Null),
        (json!(5), "5", json!(5)),
        (json!(false), "false", json!(false)),
        (json!({"b": 1, "a": [2]}), r#"{"b":1,"a":[2]}"#, json!({"b": 1, "a": [2]})),
        (json!([1, "x"]), r#"[1,"x"]"#, json!([1, "x"])),
        (json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}), "a\nb", Value::Null),
    ] {
        let id = call_external(&app).await;
        answer(&app, &id, &result).await;
        let call = app.ended(&id).await;
        assert_eq!((succeeded(&call), &call["structured"]), (output, &structured), "{result}");
    }
    let id = call_external(&app).await;
    answer(&app, &id, &Value::Null).await;
    assert_eq!(succeeded(&app.ended(&id).await), "null");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_body_is_done() {
    let app = service(Backend::Sqlite, json!({})).await;
    let id = call_external(&app).await;
    let posted = app.post_empty(&format!("/tool-calls/{id}/result")).await;
    assert!((200..300).contains(&posted.status), "{}", posted.text());
    assert_eq!(succeeded(&app.ended(&id).await), "Done");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_and_images_need_no_json() {
    let app = service(Backend::Sqlite, json!({})).await;
    let image = crate::sizes::png(2, 2);
    for (media_type, body) in [
        ("text/plain; charset=utf-8", "{as it is}".as_bytes().to_vec()),
        ("image/png", image.clone()),
        ("application/octet-stream", image),
    ] {
        let id = call_external(&app).await;
        let request = app.request(reqwest::Method::POST, &format!("/tool-calls/{id}/result"));
        send(request.header("content-type", media_type).body(body)).await.ok();
        let call = app.ended(&id).await;
        let output = succeeded(&call);
        if media_type.starts_with("text/") {
            assert_eq!(output, "{as it is}");
        } else {
            assert_eq!(call["content"][0]["mime_type"], "image/png", "{call:#}");
        }
    }
}

on_both_databases!(
    async fn error_result_is_a_failure(backend: Backend) {
        let app = service(backend, json!({})).await;
        for result in [
            json!({"error": "no such city"}),
            json!({"success": false, "message": "no such city"}),
            json!({"output": "no such city", "is_error": true}),
        ] {
            let id = call_external(&app).await;
            answer(&app, &id, &result).await;
            let call = app.ended(&id).await;
            let text = "Error executing tool \"ask\": no such city";
            assert_eq!(failed(&call, "TOOL_EXECUTION_ERROR"), text, "{result}");
        }
        assert_eq!(app.stats("ask").await["failure_count"], 3);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn posted_result_is_checked_against_the_output_schema() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let app = service(Backend::Sqlite, json!({"output_schema": schema, "output_check": "strict"})).await;
    let id = call_external(&app).await;
    answer(&app, &id, &json!({"n": "x"})).await;
    failed(&app.ended(&id).await, "RESULT_INVALID");
}

on_both_databases!(
    async fn first_result_wins_and_later_ones_are_ignored(backend: Backend) {
        let app = service(backend, json!({})).await;
        let id = call_external(&app).await;
        answer(&app, &id, &json!("first")).await;
        for late in [json!("second"), json!("first"), json!({"error": "x"})] {
            assert_eq!(post_result(&app, &id, &late).await.ok()["ignored"], true);
        }
        let call = app.ended(&id).await;
        assert_eq!(succeeded(&call), "first");
        assert_eq!(post_result(&app, &id, &json!("third")).await.ok()["ignored"], true);
        assert_eq!(app.stored(&id).await, call);
        assert_eq!(app.stats("ask").await["execution_count"], 1);
    }
);

on_both_databases!(
    async fn one_of_concurrent_results_wins(backend: Backend) {
        let app = service(backend, json!({})).await;
        let id = call_external(&app).await;
        let posted: Vec<_> = (0..8)
            .map(|n| {
                let (client, id): (Client, _) = ((*app).clone(), id.clone());
                tokio::spawn(async move { post_result(&client, &id, &json!(format!("{n}"))).await })
            })
            .collect();
        let mut taken = Vec::new();
        for (n, answer) in posted.into_iter().enumerate() {
            let answer = answer.await.unwrap();
            assert!((200..300).contains(&answer.status), "{}", answer.text());
            if answer.json["ignored"] != true {
                taken.push(n.to_string());
            }
        }
        let call = app.ended(&id).await;
        assert_eq!(taken, [succeeded(&call)]);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn result_after_the_timeout_is_ignored() {
    let app = service(Backend::Sqlite, json!({"limits": {"timeout_ms": 50}})).await;
    let id = app.sent(json!({"name": "ask", "wait": "accepted"})).await;
    let call = app.ended(&id).await;
    assert_eq!(failed(&call, "TOOL_TIMEOUT"), "Error: Tool execution timeout after 50ms (timeout_ms)");
    assert_eq!(post_result(&app, &id, &json!("late")).await.ok()["ignored"], true);
    assert_eq!(app.stored(&id).await, call);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_json_result_is_rejected_and_the_call_continues() {
    let app = service(Backend::Sqlite, json!({})).await;
    let id = call_external(&app).await;
    let path = format!("/tool-calls/{id}/result");
    app.post_raw(&path, "{\"output\":").await.problem(400);
    let text = app.request(reqwest::Method::POST, &path).header("content-type", "application/zip").body("a,b");
    send(text).await.problem(415);
    answer(&app, &id, &json!("well")).await;
    assert_eq!(succeeded(&app.ended(&id).await), "well");
}

#[tokio::test(flavor = "multi_thread")]
async fn result_can_be_posted_to_any_node() {
    requires_postgres!();
    let app = service(Backend::Postgres, json!({})).await;
    let other = app.second().await;
    let id = call_external(&app).await;
    answer(&other, &id, &json!("from there")).await;
    assert_eq!(succeeded(&app.ended(&id).await), "from there");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_another_node_delay_neither_a_cancel_nor_the_heartbeat() {
    requires_postgres!();
    let app = service(Backend::Postgres, json!({"limits": {"max_concurrency": 1}})).await;
    let other = app.second().await;
    let running = call_external(&app).await;
    let waiting = app.accepted(json!({"name": "ask", "wait": "accepted"})).await;
    for n in 0..100 {
        let path = format!("/tool-calls/{waiting}/progress");
        assert_eq!(other.post(&path, &json!({"content": format!("{n}")})).await.status, 202);
    }
    other.cancel(&waiting).await;
    failed(&app.ended(&waiting).await, "CANCELLED");
    answer(&other, &running, &json!("from there")).await;
    assert_eq!(succeeded(&app.ended(&running).await), "from there");
}
