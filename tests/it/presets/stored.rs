//! Presets stored through the API.

use super::*;

/// Registers `keyed`, which accepts any arguments and posts them to `server`.
async fn keyed(app: &App, server: &HttpTool) {
    app.http_tool("keyed", server).await;
}

on_both_databases!(
    async fn stored_preset_applies_from_the_next_call_until_it_is_removed(backend: Backend) {
        let (app, server) = (service(backend).await, server().await);
        keyed(&app, &server).await;
        let put = app.put("/tools/keyed/presets", &json!({"token": {"value": {"a": [1, "tok-123456"]}}})).await.ok();
        let stored = json!({"token": {"kind": "stored", "overridable": false}});
        assert_eq!(put, stored);
        assert_eq!(app.get("/tools/keyed/presets").await.ok(), stored);
        assert_eq!(app.get("/tools/keyed").await.ok()["presets"], stored);
        app.call("keyed", json!({"x": 1})).await;
        assert_eq!(last(&server)["arguments"], json!({"x": 1, "token": {"a": [1, "tok-123456"]}}));

        let app = app.restart().await;
        app.put("/tools/keyed/presets", &json!({"more": {"secret": "MAIL_KEY"}})).await.ok();
        app.call("keyed", json!({})).await;
        assert_eq!(last(&server)["arguments"], json!({"more": SECRET, "token": {"a": [1, "tok-123456"]}}));

        let read = app.get("/tools/keyed").await.ok();
        app.put("/tools/keyed", &read).await.ok();
        app.put("/tools/keyed/presets", &json!({"more": null, "none": null})).await.ok();
        app.call("keyed", json!({})).await;
        assert_eq!(last(&server)["arguments"]["token"], json!({"a": [1, "tok-123456"]}));

        app.delete("/tools/keyed").await;
        keyed(&app, &server).await;
        app.call("keyed", json!({})).await;
        assert_eq!(last(&server)["arguments"], json!({}), "another tool of that name is not given them");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn stored_change_is_a_revision_over_the_definition() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    mail(&app, &server).await;
    let before = app.get("/tools/mail").await;
    app.put("/tools/mail/presets", &json!({"region": {"value": "us-1"}})).await.ok();
    let after = app.get("/tools/mail").await;
    assert_ne!(after.etag(), before.etag());
    assert!(after.json["revision"].as_i64() > before.json["revision"].as_i64());
    app.call("mail", json!({"to": "a"})).await;
    assert_eq!(last(&server)["arguments"]["region"], "us-1");
    app.put("/tools/mail/presets", &json!({"region": null})).await.ok();
    let back = app.get("/tools/mail").await.ok();
    assert!(back["revision"].as_i64() > after.json["revision"].as_i64(), "no revision stands for two states");
    app.call("mail", json!({"to": "a"})).await;
    assert_eq!(last(&server)["arguments"]["region"], "eu-central");
}

#[tokio::test(flavor = "multi_thread")]
async fn running_call_keeps_its_presets() {
    let app = service(Backend::Sqlite).await;
    let server = HttpTool::answering(Answer::AfterGate(Box::new(Answer::text("done")))).await;
    keyed(&app, &server).await;
    app.put("/tools/keyed/presets", &json!({"token": {"value": "first-1"}})).await.ok();
    let running = json!({"name": "keyed", "wait": "accepted", "retry": {"max_attempts": 1}});
    let id = app.post("/tool-calls", &running).await.json["id"].as_str().unwrap().to_owned();
    server.received(1).await;
    app.put("/tools/keyed/presets", &json!({"token": {"value": "second-2"}})).await.ok();
    server.open();
    let call = app.get(&format!("/tool-calls/{id}?wait_ms=20000")).await.ok();
    assert_eq!(call["status"], "SUCCESS");
    app.call("keyed", json!({})).await;
    let sent: Vec<Value> =
        server.requests().iter().map(|request| request.json()["arguments"]["token"].clone()).collect();
    assert_eq!(sent, ["first-1", "second-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn value_is_sealed_without_an_operator_key() {
    let app = App::start_with(Backend::Sqlite, Options { configure: None, ..options() }).await;
    app.echo_of("t", json!({"properties": {"key": {"type": "string"}}})).await;
    app.put("/tools/t/presets", &json!({"key": {"value": "sk-hidden"}})).await.ok();
    app.put("/tools/t/presets", &json!({"other": {"secret": "MAIL_KEY"}})).await.ok();
    let app = app.restart().await;
    let kinds = app.get("/tools/t/presets").await.ok();
    assert_eq!((&kinds["key"]["kind"], &kinds["other"]["kind"]), (&json!("stored"), &json!("secret")), "{kinds}");
    let call = app.call("t", json!({})).await;
    assert_eq!(call["structured"]["key"], "[redacted]", "{call}");
}

#[tokio::test(flavor = "multi_thread")]
async fn recreated_tool_has_no_presets_of_the_deleted_one() {
    let app = service(Backend::Sqlite).await;
    app.post("/tool-groups", &json!({"name": "g"})).await;
    let tool = |groups: Value| json!({"name": "t", "input_schema": {"type": "object"}, "groups": groups, "executor": {"type": "builtin", "name": "echo"}});
    app.post("/tools", &tool(json!(["g"]))).await;
    app.put("/tools/t/presets", &json!({"key": {"value": "sk-hidden"}})).await.ok();
    assert!([200, 204].contains(&app.delete("/tool-groups/g").await.status));
    app.post("/tools", &tool(json!([]))).await;
    assert_eq!(app.get("/tools/t/presets").await.ok(), json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_that_stored_presets_do_not_fit_is_rejected() {
    let app = service(Backend::Sqlite).await;
    let unit = json!({"type": "object", "properties": {"unit": {"type": "string"}}});
    let tool = json!({"input_schema": unit, "executor": {"type": "builtin", "name": "echo"}});
    assert_eq!(app.put("/tools/t", &tool).await.status, 201);
    app.put("/tools/t/presets", &json!({"unit": {"value": "C", "overridable": true}})).await.ok();
    let other = json!({"input_schema": {"type": "object"}, "executor": {"type": "builtin", "name": "echo"}});
    app.put("/tools/t", &other).await.problem(422);
    assert_eq!(app.call("t", json!({})).await["structured"], json!({"unit": "C"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_preset_is_rejected_and_not_repeated() {
    let app = service(Backend::Sqlite).await;
    app.echo_of("t", json!({})).await;
    for (body, pointer) in [
        (json!("sk-hidden"), ""),
        (json!({"key": "sk-hidden"}), "/key"),
        (json!({"key": {"vlaue": "sk-hidden"}}), "/key"),
        (json!({"key": {"value": "sk-hidden", "secret": "X"}}), "/key"),
        (json!({"key": {"secret": ["sk-hidden"]}}), "/key/secret"),
        (json!({"key": {"secret": "sk-hidden"}}), "/key/secret"),
        (json!({"": {"secret": "X"}}), "/"),
    ] {
        let problem = app.put("/tools/t/presets", &body).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        assert!(!problem.to_string().contains("sk-hidden"), "{problem}");
    }
    app.put("/tools/none/presets", &json!({})).await.problem(404);
    app.get("/tools/none/presets").await.problem(404);
}
