//! More than there is room for is refused before anything is accepted.

use serde_json::json;

use crate::support::shapes::succeeded;
use crate::support::{Answer, App, Backend, HttpTool, Options, eventually};

on_both_databases!(
    async fn without_room_a_call_is_refused_and_later_ones_succeed(backend: Backend) {
        let options =
            Options { max_in_flight_mib: Some(1), egress_allow: vec!["127.0.0.1".into()], ..Options::default() };
        let app = App::start_with(backend, options).await;
        let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("done")))).await;
        app.http_tool("act", &server).await;
        let large = json!({"name": "act", "id": "large", "arguments": {"text": "x".repeat(300_000)}});
        let running = tokio::spawn({
            let client = (*app).clone();
            async move { client.call_with(large).await }
        });
        server.received(1).await;
        for body in [json!({"name": "echo"}), json!({"calls": [{"name": "act", "id": "refused"}]})] {
            let refused = app.post("/tool-calls", &body).await;
            assert!(!refused.header("retry-after").is_empty() && refused.header("location").is_empty());
            assert_eq!(refused.problem(503)["code"], "OVERLOADED");
        }
        server.open();
        succeeded(&running.await.unwrap());
        // The room is free once the first call is quite over, a moment after its answer.
        let later = eventually("room", || async {
            let answer = app.post("/tool-calls", &json!({"name": "act"})).await;
            (answer.status == 200).then_some(answer.json)
        })
        .await;
        succeeded(&later);
        assert_eq!((server.requests().len(), app.stats("echo").await["execution_count"].as_u64()), (2, Some(0)));
        let calls = app.get("/tool-calls").await.ok();
        assert_eq!(calls["tool_calls"].as_array().unwrap().len(), 2, "nothing of what was refused was accepted");
    }
);
