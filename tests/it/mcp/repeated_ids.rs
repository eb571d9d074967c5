//! Clients that repeat JSON-RPC ids within a session: a response, progress and a cancellation belong to the HTTP request.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::posted;
use super::sessions::{message, session};
use crate::support::client::send;
use crate::support::sse::EventStream;
use crate::support::{App, Backend, Client, bounded, eventually};

/// Registers a tool whose calls the test answers.
async fn ask(app: &App) {
    app.register(json!({"name": "ask", "input_schema": {"type": "object"}, "executor": {"type": "external"}})).await;
}

fn call(id: &Value, number: usize) -> Value {
    let params = json!({"name": "ask", "arguments": {"n": number}, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Opens the stream with the response to a message.
async fn opened(app: &Client, session: &str, message: &Value) -> EventStream {
    let answer = bounded("a stream", posted(app, message).header("mcp-session-id", session).send()).await.unwrap();
    assert_eq!(answer.status(), 200);
    EventStream::new(answer.bytes_stream())
}

/// Waits until this many calls wait for their results, and returns their ids by their number.
async fn waiting(app: &Client, count: usize) -> Vec<String> {
    eventually("all calls", || async {
        let calls = app.get("/tool-calls?name=ask&status=DOING&limit=100").await.ok();
        let calls = calls["tool_calls"].as_array().unwrap().clone();
        if calls.len() < count {
            return None;
        }
        let mut calls: Vec<(u64, String)> = calls
            .iter()
            .map(|call| (call["arguments"]["n"].as_u64().unwrap(), call["id"].as_str().unwrap().to_owned()))
            .collect();
        calls.sort();
        Some(calls.into_iter().map(|(_, id)| id).collect())
    })
    .await
}

async fn finish(app: &Client, call: &str, result: &Value) {
    assert_eq!(app.post(&format!("/tool-calls/{call}/result"), result).await.status, 200);
}

async fn cancel(app: &Client, session: &str, id: &Value) {
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    assert_eq!(send(posted(app, &cancel).header("mcp-session-id", session)).await.status, 202);
}

on_both_databases!(
    async fn each_request_gets_its_answer_whatever_its_id(backend: Backend) {
        let app = App::start(backend).await;
        ask(&app).await;
        let (one, other) = (session(&app).await, session(&app).await);
        // Numbers and texts, in two sessions.
        let ids = |number: usize| if number % 4 == 3 { json!("1") } else { json!(1) };
        let sessions = [&one, &other];
        let streams = (0..20).map(|number| {
            let request = call(&ids(number), number);
            let (app, session) = (&app, sessions[number / 10]);
            async move { opened(app, session, &request).await }
        });
        let mut streams = join_all(streams).await;
        let calls = waiting(&app, 20).await;
        // In the reverse order, so that the last request is answered first.
        for (number, id) in calls.iter().enumerate().rev() {
            let report = json!({"progress": {"current": number + 10, "total": 99}});
            assert_eq!(app.post(&format!("/tool-calls/{id}/progress"), &report).await.status, 202);
            finish(&app, id, &json!(format!("result {number}"))).await;
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            let events = bounded("the answer", stream.rest()).await;
            let sent: Vec<&Value> = events.iter().map(|event| &event.data).filter(|data| data.is_object()).collect();
            let (answer, progress) = sent.split_last().unwrap();
            assert_eq!(answer["id"], ids(number), "{events:#?}");
            assert_eq!(answer["result"]["content"][0]["text"], json!(format!("result {number}")));
            assert!(progress.iter().all(|step| step["params"]["progressToken"] == ids(number)), "{events:#?}");
            // The start of the call is progress without a total.
            let reported: Vec<_> =
                progress.iter().map(|step| &step["params"]).filter(|step| !step["total"].is_null()).collect();
            assert_eq!(
                reported,
                [&json!({"progressToken": ids(number), "progress": (number + 10) as f64, "total": 99.0})]
            );
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_cancellation_cancels_nothing() {
    let app = App::on_sqlite().await;
    ask(&app).await;
    let id = session(&app).await;
    let mut first = opened(&app, &id, &call(&json!(1), 0)).await;
    let mut second = opened(&app, &id, &call(&json!(1), 1)).await;
    let calls = waiting(&app, 2).await;
    cancel(&app, &id, &json!(1)).await;
    finish(&app, &calls[0], &json!("first")).await;
    let end = first.rest().await;
    assert_eq!(end.last().unwrap().data["result"]["content"][0]["text"], "first");
    // Now only one request has the id.
    cancel(&app, &id, &json!(1)).await;
    let ended = app.get(&format!("/tool-calls/{}?wait_ms=30000", calls[1])).await.ok();
    assert_eq!(ended["error"]["code"], "CANCELLED");
    second.rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_stream_has_the_answer_of_its_request() {
    let app = App::on_sqlite().await;
    ask(&app).await;
    let id = session(&app).await;
    let mut first = opened(&app, &id, &call(&json!(1), 0)).await;
    let mut second = opened(&app, &id, &call(&json!(1), 1)).await;
    let lasts = [first.next().await.unwrap().id, second.next().await.unwrap().id];
    let calls = waiting(&app, 2).await;
    drop((first, second));
    let resumed = lasts.each_ref().map(|last| {
        app.request(reqwest::Method::GET, "/mcp").header("mcp-session-id", &id).header("last-event-id", last)
    });
    let mut streams = Vec::new();
    for request in resumed {
        streams.push(app.events_from(request).await);
    }
    for (number, call) in calls.iter().enumerate() {
        finish(&app, call, &json!(number.to_string())).await;
    }
    for (number, stream) in streams.iter_mut().enumerate() {
        let end = stream.rest().await.pop().unwrap().data;
        assert_eq!((&end["id"], &end["result"]["content"][0]["text"]), (&json!(1), &json!(number.to_string())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnect_cancels_only_the_call_of_its_request() {
    let app = App::on_sqlite().await;
    ask(&app).await;
    let id = session(&app).await;
    let first = opened(&app, &id, &call(&json!(1), 0)).await;
    let mut second = opened(&app, &id, &call(&json!(1), 1)).await;
    let calls = waiting(&app, 2).await;
    drop(first);
    let ended = app.get(&format!("/tool-calls/{}?wait_ms=30000", calls[0])).await.ok();
    assert_eq!(ended["error"]["code"], "CANCELLED");
    finish(&app, &calls[1], &json!("second")).await;
    assert_eq!(second.rest().await.last().unwrap().data["result"]["content"][0]["text"], "second");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_one_id_may_follow_each_other() {
    let app = App::on_sqlite().await;
    let id = session(&app).await;
    for number in 0..3 {
        let params = json!({"name": "calculate", "arguments": {"expression": format!("{number} + 1")}});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = message(&send(posted(&app, &request).header("mcp-session-id", &id)).await);
        assert_eq!(
            (&answer["id"], &answer["result"]["content"][0]["text"]),
            (&json!(1), &json!((number + 1).to_string()))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_of_an_old_client_is_answered_one_by_one() {
    let app = App::on_sqlite().await;
    let id = session(&app).await;
    let sum = |id: Value, expression: &str| {
        let params = json!({"name": "calculate", "arguments": {"expression": expression}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let note =
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}});
    let unknown = json!({"jsonrpc": "2.0", "id": "u", "method": "no/such"});
    let batch = json!([sum(json!(1), "1 + 1"), note, sum(json!(1), "2 + 2"), unknown, 5]);
    for session in [None, Some(&id)] {
        let mut request = posted(&app, &batch);
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        let answers = send(request).await.ok();
        let shown = |at: usize| (answers[at]["id"].clone(), answers[at]["result"]["content"][0]["text"].clone());
        assert_eq!((shown(0), shown(1)), ((json!(1), json!("2")), (json!(1), json!("4"))), "{answers}");
        assert_eq!((&answers[2]["id"], &answers[2]["error"]["code"]), (&json!("u"), &json!(-32601)), "{answers}");
        assert_eq!((&answers[3]["error"]["code"], answers.as_array().unwrap().len()), (&json!(-32600), 4), "{answers}");
    }
    assert_eq!(send(posted(&app, &json!([note]))).await.status, 202);
    for refused in [posted(&app, &batch).header("mcp-protocol-version", "2025-06-18"), posted(&app, &json!([]))] {
        let answer = send(refused).await;
        assert_eq!((answer.status, &answer.json["error"]["code"]), (400, &json!(-32600)));
    }
}
