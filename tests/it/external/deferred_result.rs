//! An `http` tool that answers 202 and posts its result later, with the token from the request.

use serde_json::{Value, json};

use super::{post_progress, post_result};
use crate::support::calls::{assert_counts, id_of};
use crate::support::client::send;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, Client, HttpTool, Response, eventually};

fn accepted() -> Answer {
    Answer::status(202, "text/plain", "")
}

async fn service(backend: Backend, answer: Answer) -> (App, HttpTool) {
    let (app, server) = (App::with_egress(backend).await, HttpTool::answering(answer).await);
    app.http_tool("later", &server).await;
    (app, server)
}

/// Posts to a URL from the tool's request, as the tool does.
async fn report(url: &Value, token: &Value, body: &Value) -> Response {
    let client = Client::new(url.as_str().unwrap());
    let request = client.request(reqwest::Method::POST, "");
    send(request.bearer_auth(token.as_str().unwrap()).json(body)).await
}

on_both_databases!(
    async fn tool_that_answers_202_posts_its_result_later(backend: Backend) {
        let (app, server) = service(backend, accepted()).await;
        let waiting = app.posted(json!({"name": "later"}));
        server.received(1).await;
        let request = server.request().json();
        let id = id_of(&request);
        app.in_phase(&id, "external").await;
        let step = json!({"tip": "halfway", "progress": {"current": 1, "total": 2}});
        let answer = report(&request["progress_url"], &request["token"], &step).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let answer = report(&request["result_url"], &request["token"], &json!({"output": "at last"})).await;
        assert!((200..300).contains(&answer.status), "{}", answer.text());
        let call = waiting.await.unwrap().ok();
        assert_eq!((succeeded(&call), &call["tip"], id_of(&call)), ("at last", &json!("halfway"), id));
        let late = report(&request["result_url"], &request["token"], &json!("again")).await;
        assert_eq!(late.ok()["ignored"], true);
        report(&request["progress_url"], &request["token"], &json!({"tip": "again"})).await.problem(409);
        assert_eq!(app.stored(&id_of(&call)).await, call);
        assert_counts(&app.stats("later").await, json!({"execution_count": 1, "success_count": 1}));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn result_before_the_202_counts() {
    let (app, server) = service(Backend::Sqlite, Answer::AfterGate(Box::new(accepted()))).await;
    let waiting = app.posted(json!({"name": "later"}));
    server.received(1).await;
    let request = server.request().json();
    let answer = report(&request["result_url"], &request["token"], &json!("quick")).await;
    assert!((200..300).contains(&answer.status) && answer.json["ignored"] != true, "{}", answer.text());
    server.open();
    assert_eq!(succeeded(&waiting.await.unwrap().ok()), "quick");
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_result_ends_the_call_although_the_tool_answers_directly() {
    requires_postgres!();
    let app = App::with_egress(Backend::Postgres).await;
    let other = app.second().await;
    for round in 0..8 {
        let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("direct")))).await;
        let name = format!("later{round}");
        app.http_tool(&name, &server).await;
        let waiting = app.posted(json!({ "name": name }));
        server.received(1).await;
        let request = server.request().json();
        let id = id_of(&request);
        // The other node has not yet loaded the tool.
        post_result(&other, &id, &json!("forged")).await.problem(401);
        let url = json!(other.url(&format!("/tool-calls/{id}/result")));
        let posting = tokio::spawn(async move { report(&url, &request["token"], &json!("posted")).await });
        let stored = id.parse().unwrap();
        eventually("the posted result on disk, or the end of its post", async || {
            let is_there = app.store().posted_result(stored).await.unwrap().is_some();
            (is_there || posting.is_finished()).then_some(())
        })
        .await;
        server.open();
        let call = waiting.await.unwrap().ok();
        let answer = posting.await.unwrap().ok();
        let counts = if answer["ignored"] == true { "direct" } else { "posted" };
        assert_eq!(succeeded(&call), counts);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn result_received_by_another_node_before_the_answer_counts() {
    requires_postgres!();
    let app = App::with_egress(Backend::Postgres).await;
    let other = app.second().await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("direct")))).await;
    app.http_tool("later", &server).await;
    let waiting = app.posted(json!({"name": "later"}));
    server.received(1).await;
    let request = server.request().json();
    let url = json!(other.url(&format!("/tool-calls/{}/result", id_of(&request))));
    // The request stays open; the posted result ends the call.
    let answer = report(&url, &request["token"], &json!("posted")).await.ok();
    assert_ne!(answer["ignored"], true);
    assert_eq!(succeeded(&waiting.await.unwrap().ok()), "posted");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_accepted_while_the_request_is_open() {
    let (app, server) = service(Backend::Sqlite, Answer::AfterGate(Box::new(Answer::text("done")))).await;
    let waiting = app.posted(json!({"name": "later"}));
    server.received(1).await;
    let request = server.request().json();
    let answer = report(&request["progress_url"], &request["token"], &json!({"tip": "busy"})).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    server.open();
    let call = waiting.await.unwrap().ok();
    assert_eq!((succeeded(&call), &call["tip"]), ("done", &json!("busy")));
}

on_both_databases!(
    async fn another_token_is_rejected_and_the_result_still_awaited(backend: Backend) {
        let (app, server) = service(backend, accepted()).await;
        let waiting = app.posted(json!({"name": "later"}));
        server.received(1).await;
        let first = server.request().json();
        app.in_phase(&id_of(&first), "external").await;
        let other = app.posted(json!({"name": "later"}));
        server.received(2).await;
        let second = server.requests()[1].json();
        app.in_phase(&id_of(&second), "external").await;
        assert_ne!(first["token"], second["token"]);
        for token in [&second["token"], &json!("wrong"), &json!("tp_0123456789abcdef")] {
            for (url, body) in [("result_url", json!("forged")), ("progress_url", json!({"tip": "forged"}))] {
                let answer = report(&first[url], token, &body).await;
                assert!([401, 403, 404].contains(&answer.status), "{} {}", answer.status, answer.text());
                answer.client_problem();
            }
        }
        let call = app.stored(&id_of(&first)).await;
        assert_eq!((&call["status"], &call["tip"]), (&json!("DOING"), &Value::Null));
        for (request, text) in [(&first, "mine"), (&second, "other")] {
            report(&request["result_url"], &request["token"], &json!(text)).await;
        }
        assert_eq!(succeeded(&waiting.await.unwrap().ok()), "mine");
        assert_eq!(succeeded(&other.await.unwrap().ok()), "other");
    }
);

on_both_databases!(
    async fn report_on_an_http_tool_requires_its_token(backend: Backend) {
        for answer in [accepted(), Answer::AfterGate(Box::new(Answer::text("mine")))] {
            let (app, server) = service(backend, answer).await;
            let waiting = app.posted(json!({"name": "later"}));
            server.received(1).await;
            let request = server.request().json();
            post_result(&app, &id_of(&request), &json!("forged")).await.problem(401);
            post_progress(&app, &id_of(&request), &json!({"tip": "forged"})).await.problem(401);
            server.open();
            report(&request["result_url"], &request["token"], &json!("mine")).await;
            let call = waiting.await.unwrap().ok();
            assert_eq!((succeeded(&call), &call["tip"]), ("mine", &Value::Null));
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn token_is_in_no_response_event_or_list() {
    let (app, server) = service(Backend::Sqlite, accepted()).await;
    let waiting = app.posted(json!({"name": "later"}));
    server.received(1).await;
    let request = server.request().json();
    let (id, token) = (id_of(&request), request["token"].as_str().unwrap());
    assert!(token.len() >= 32, "{token}");
    report(&request["result_url"], &request["token"], &json!("done")).await;
    let mut seen = waiting.await.unwrap().text();
    for path in [format!("/tool-calls/{id}"), format!("/tool-calls/{id}/events"), "/tool-calls".into(), "/tools".into()]
    {
        seen.push_str(&app.get(&path).await.text());
    }
    assert!(!seen.contains(token), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_result_is_a_timeout() {
    let (app, server) = service(Backend::Sqlite, accepted()).await;
    let call = app.call_with(json!({"name": "later", "limits": {"timeout_ms": 300}})).await;
    assert_eq!(failed(&call, "TOOL_TIMEOUT"), "Error: Tool execution timeout after 300ms (timeout_ms)");
    let request = server.request().json();
    assert_eq!(report(&request["result_url"], &request["token"], &json!("late")).await.ok()["ignored"], true);
}
