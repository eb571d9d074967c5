//! Context: named objects for tools that list them.

use super::*;

async fn tool(app: &App, server: &HttpTool, name: &str, context: Value) {
    app.register(json!({
        "name": name, "input_schema": {"type": "object"}, "context": context,
        "executor": {"type": "http", "url": server.url("/")},
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executor_gets_named_objects_and_those_of_the_request_take_precedence() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    tool(&app, &server, "both", json!(["user", "shop"])).await;
    tool(&app, &server, "none", json!([])).await;
    let context = json!({"shop": {"id": 7}, "user": {"id": "of the call"}, "other": {"x": 1}});
    let agent = json!({"id": "a1", "name": "helper", "metadata": {"team": "t"}});
    let body = |name: &str| json!({"name": name, "context": context, "agent": agent});
    let call = app.call_with(body("both")).await;
    assert_eq!(call["status"], "SUCCESS", "{call}");
    assert_eq!(last(&server)["context"], json!({"user": {"id": "of the call"}, "shop": {"id": 7}}));
    assert_eq!(last(&server)["agent"], agent);
    assert!(!call.to_string().contains("of the call"), "{call}");
    app.call_with(body("none")).await;
    assert_eq!(last(&server)["context"], json!({}));
    app.call_with(json!({"name": "both", "context": {"shop": {}}})).await;
    assert_eq!(last(&server)["context"]["user"], json!({"name": "of the server"}));
    assert_eq!(last(&server)["agent"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn context_next_to_a_message_reaches_a_streamed_call() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    tool(&app, &server, "t", json!(["shop"])).await;
    let message = json!({"role": "assistant", "context": {"shop": {"id": 1}}, "agent": {"name": "n"},
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]});
    app.post("/tool-calls", &message).await.ok();
    assert_eq!(
        (last(&server)["context"].clone(), last(&server)["agent"].clone()),
        (json!({"shop": {"id": 1}}), json!({"name": "n"}))
    );
    let partial = json!({"name": "t", "partial": true, "arguments": "{", "context": {"shop": {"id": 2}}});
    let id = app.post("/tool-calls", &partial).await.json["id"].as_str().unwrap().to_owned();
    let end = json!({"delta": "}", "final": true});
    let patch = app.request(reqwest::Method::PATCH, &format!("/tool-calls/{id}/arguments")).json(&end);
    crate::support::client::send(patch).await;
    app.get(&format!("/tool-calls/{id}?wait_ms=20000")).await.ok();
    assert_eq!(last(&server)["context"], json!({"shop": {"id": 2}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_object_is_named_and_the_call_never_runs() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    tool(&app, &server, "t", json!(["user", "shop"])).await;
    let call = app.call("t", json!({})).await;
    assert_eq!(call["error"]["code"], "TOOL_EXECUTION_ERROR");
    assert!(call["output"].as_str().unwrap().contains("the context object \"shop\""), "{call}");
    assert_eq!((server.requests().len(), call["attempts"].clone()), (0, json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn non_object_is_rejected_and_not_repeated() {
    let app = service(Backend::Sqlite).await;
    for (context, pointer) in [
        (json!("hidden"), "/context"),
        (json!(null), "/context"),
        (json!({"user": "hidden"}), "/context/user"),
        (json!({"a/b": ["hidden"]}), "/context/a~1b"),
    ] {
        let problem = app.post("/tool-calls", &json!({"name": "echo", "context": context})).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        assert!(!problem.to_string().contains("hidden"), "{problem}");
    }
    let wrong = json!({"name": "echo", "agent": {"nmae": "x"}});
    assert_eq!(app.post("/tool-calls", &wrong).await.problem(422)["errors"][0]["pointer"], "/agent/nmae");
}

on_both_databases!(
    async fn context_of_a_waiting_call_survives_a_restart_and_ends_with_it(backend: Backend) {
        let server = server().await;
        let app = service(backend).await;
        let gate = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("x")))).await;
        app.register(json!({"name": "first", "input_schema": {"type": "object"},
            "executor": {"type": "http", "url": gate.url("/")}}))
            .await;
        app.register(json!({"name": "second", "input_schema": {"type": "object"}, "context": ["shop"],
            "executor": {"type": "http", "url": server.url("/")}}))
            .await;
        let batch = json!({"mode": "serial", "wait": "accepted", "context": {"shop": {"id": "kept"}},
            "calls": [{"name": "first"}, {"name": "second"}]});
        let accepted = app.post("/tool-calls", &batch).await.json;
        let id = accepted["results"][1]["id"].as_str().unwrap().to_owned();
        gate.received(1).await;
        let stopping = tokio::spawn(app.restart());
        // The first call ends during the shutdown; the second has not started.
        gate.open();
        let app = stopping.await.unwrap();
        let call = app.get(&format!("/tool-calls/{id}?wait_ms=20000")).await.ok();
        assert_eq!(call["status"], "SUCCESS", "{call}");
        assert_eq!(last(&server)["context"], json!({"shop": {"id": "kept"}}));
    }
);
