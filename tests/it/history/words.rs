//! `GET /tool-calls?q=`: words in arguments or output.

use super::*;
use crate::support::{Answer, HttpTool, eventually};

/// Waits until the search finds exactly these calls.
async fn found(client: &Client, words: &str, expected: &[&String]) {
    let expected: Vec<String> = expected.iter().map(|id| (*id).clone()).collect();
    eventually(words, || async { (listed(client, &format!("q={words}")).await == expected).then_some(()) }).await;
}

on_both_databases!(
    async fn calls_are_found_by_words_of_arguments_and_output(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::text("Sunny, 21 °C")).await);
        app.http_tool("weather", &server).await;
        let paris = called(&app, "weather", json!({"city": "Paris", "note": "a\u{0}b\nORDER-1001"})).await;
        let rome = called(&app, "weather", json!("{\"city\": \"Rome\\nöst\"}")).await;
        let beijing = called(&app, "echo", json!({"city": "北京市"})).await;
        found(&app, "sunny", &[&rome, &paris]).await;
        found(&app, "PARIS", &[&paris]).await;
        found(&app, "1001%20sunny", &[&paris]).await;
        found(&app, "b", &[&paris]).await;
        found(&app, "%C3%96ST", &[&rome]).await;
        found(&app, "%E4%BA%AC", &[&beijing]).await;
        found(&app, "city", &[&beijing, &rome, &paris]).await;
        for nothing in ["pari", "rome%20paris", "order1001"] {
            assert_eq!(listed(&app, &format!("q={nothing}")).await, [""; 0], "{nothing}");
        }
        let app = app.restart().await;
        let later = called(&app, "echo", json!({"city": "Oslo"})).await;
        found(&app, "city", &[&later, &beijing, &rome, &paris]).await;
    }
);

on_both_databases!(
    async fn unfinished_calls_are_found_at_once(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::Never).await);
        app.tool("job", &server, json!({"async": true})).await;
        let id = app.accepted(json!({"name": "job", "arguments": {"city": "Lima"}})).await;
        assert_eq!(listed(&app, "q=lima").await, std::slice::from_ref(&id));
        app.cancel(&id).await;
        found(&app, "lima%20aborted", &[&id]).await;
    }
);

on_both_databases!(
    async fn redacted_words_are_not_found(backend: Backend) {
        let (app, server) = (App::with_egress(backend).await, HttpTool::answering(Answer::text("done")).await);
        app.http_tool("act", &server).await;
        let hook =
            json!({"event": "tool_result_persist", "builtin": "redact", "options": {"patterns": ["sk[a-z0-9]+"]}});
        assert_eq!(app.post("/hooks", &hook).await.status, 201);
        for wait in ["result", "accepted"] {
            let call = json!({"name": "act", "arguments": {"key": "sk123", "mark": wait}, "wait": wait});
            let id = app.sent(call).await;
            app.ended(&id).await;
            found(&app, &format!("{wait}%20redacted"), &[&id]).await;
            assert_eq!(listed(&app, "q=sk123").await, [""; 0]);
        }
    }
);

on_both_databases!(
    async fn many_calls_with_a_common_word_are_paged_in_order(backend: Backend) {
        let app = App::start(backend).await;
        for batch in 0..12 {
            let calls: Vec<Value> = (0..50)
                .map(|number| {
                    let rare = if number == 7 { "rare" } else { "usual" };
                    json!({"name": "echo", "arguments": {"batch": batch, "kind": rare, "word": "common"}})
                })
                .collect();
            let answer = app.post("/tool-calls", &json!({"calls": calls, "mode": "parallel"})).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        let all = walked(&app, "limit=500").await;
        assert_eq!(all.len(), 600);
        eventually("all words", || async { (walked(&app, "q=common&limit=500").await.len() == 600).then_some(()) })
            .await;
        assert_eq!(walked(&app, "q=common&limit=77").await, all);
        assert_eq!(walked(&app, "q=common%20rare&limit=5").await.len(), 12);
        assert_eq!(listed(&app, "q=rare&limit=50").await.len(), 12);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn one_node_indexes_the_calls_of_all() {
    requires_postgres!();
    let app = App::start(Backend::Postgres).await;
    let other = app.second().await;
    let one = called(&app, "echo", json!({"city": "Paris"})).await;
    let two = called(&other, "echo", json!({"city": "Paris"})).await;
    for node in [&app, &other] {
        found(node, "paris", &[&two, &one]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_without_words_finds_nothing_and_one_with_too_many_is_rejected() {
    let app = App::on_sqlite().await;
    app.call("echo", json!({"a": "-"})).await;
    for without in ["", "%20", "-%00"] {
        assert_eq!(listed(&app, &format!("q={without}")).await, [""; 0], "{without}");
    }
    let many = (0..17).map(|number| number.to_string()).collect::<Vec<_>>().join("%20");
    for wrong in [many, "x".repeat(1001)] {
        let problem = app.get(&format!("/tool-calls?q={wrong}")).await.problem(422);
        assert!(problem["detail"].as_str().unwrap().contains("word"), "{problem}");
    }
}
