//! The arguments that the executor receives, and the arguments that other readers see.

use serde_json::json;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn tool_gets_presets_that_the_call_does_not_show() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    mail(&app, &server).await;
    let call = app.call("mail", json!({"to": "a@b"})).await;
    assert_eq!(call["status"], "SUCCESS", "{call}");
    assert_eq!(call["effective_arguments"], json!({"to": "a@b", "unit": "C"}));
    assert_eq!(call["arguments"], json!({"to": "a@b"}));
    let sent = &last(&server)["arguments"];
    assert_eq!(*sent, json!({"to": "a@b", "unit": "C", "key": SECRET, "region": "eu-central"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn model_argument_with_a_hidden_name_is_dropped_and_noted() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    mail(&app, &server).await;
    let call = app.call("mail", json!({"to": "a@b", "key": 5, "region": "us", "unit": "K"})).await;
    assert_eq!(call["status"], "SUCCESS", "{call}");
    assert_eq!(call["metadata"]["dropped_arguments"], json!(["key", "region"]));
    assert_eq!(call["effective_arguments"], json!({"to": "a@b", "unit": "K"}));
    let sent = &last(&server)["arguments"];
    assert_eq!(*sent, json!({"to": "a@b", "unit": "K", "key": SECRET, "region": "eu-central"}));
    // The same for arguments as JSON text, and with another mistake.
    let call = app.call("mail", json!("{\"to\":\"a@b\",\"key\":\"x\"}")).await;
    assert_eq!(call["metadata"]["dropped_arguments"], json!(["key"]));
    let call = app.call("mail", json!({"key": "x", "other": 1})).await;
    assert_eq!(call["error"]["code"], "TOOL_VALIDATION_ERROR");
    assert_eq!(call["metadata"]["dropped_arguments"], json!(["key"]));
    assert!(!call["output"].as_str().unwrap().contains("key"), "{call}");
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholders_use_presets() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    let executor = json!({
        "type": "http", "method": "POST", "url": server.url("/{region}/mail"), "query": {"key": "{key}"},
        "headers": {"x-region": "{region}"}, "body": {"k": "{key}", "to": "{to}"},
    });
    app.register(json!({
        "name": "mail", "input_schema": {"type": "object", "properties": {"to": {}}, "additionalProperties": false},
        "presets": {"key": {"secret": "MAIL_KEY"}, "region": {"value": "eu"}}, "executor": executor,
    }))
    .await;
    assert_eq!(app.call("mail", json!({"to": "a"})).await["status"], "SUCCESS");
    let request = server.requests().pop().unwrap();
    assert_eq!(request.target, "/eu/mail?key=sk-live-4f9a%2F%2B%C3%BC");
    assert_eq!((request.header("x-region"), request.json()), ("eu", json!({"k": SECRET, "to": "a"})));
    let wrong = json!({"name": "wrong", "input_schema": {"type": "object", "properties": {"to": {}}},
        "presets": {"key": {"secret": "MAIL_KEY"}}, "executor": {"type": "http", "url": server.url("/{kye}")}});
    let problem = app.post("/tools", &wrong).await.problem(422);
    assert!(problem.to_string().contains("did you mean {key}?"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unset_secret_is_named_and_the_call_never_runs() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    app.register(json!({
        "name": "mail", "input_schema": {"type": "object"}, "presets": {"key": {"secret": "NOT_THERE"}},
        "executor": {"type": "http", "url": server.url("/")},
    }))
    .await;
    let call = app.call("mail", json!({})).await;
    assert_eq!(call["error"]["code"], "TOOL_EXECUTION_ERROR");
    let expected = "Error executing tool \"mail\": preset \"key\": the secret \"NOT_THERE\" is not set; the operator of \
                    this service can set it as TOOLPOST_SECRET_NOT_THERE";
    assert_eq!(call["output"], expected);
    assert_eq!((call["attempts"].clone(), server.requests().len()), (json!(0), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_tool_gets_a_preset_and_hides_an_invalid_one() {
    let app =
        App::start_with(Backend::Sqlite, Options { extra: crate::support::service::rust_tools(), ..options() }).await;
    let executor = json!({"type": "builtin", "name": "typed"});
    app.register(json!({"name": "here", "presets": {"city": {"value": "Bern"}}, "executor": executor})).await;
    let call = app.call("here", json!({"days": 2})).await;
    assert_eq!(call["structured"], json!({"city": "Bern", "days": 2}), "{call}");
    let executor = json!({"type": "builtin", "name": "picky"});
    let schema = json!({"type": "object"});
    let odd = json!({"name": "odd", "input_schema": schema, "presets": {"n": {"value": 77777}}, "executor": executor});
    app.register(odd).await;
    let call = app.call("odd", json!({})).await;
    assert_eq!(call["output"], "Error executing tool \"odd\": preset \"n\": its value is invalid for the tool");
    assert!(!call.to_string().contains("77777"), "{call}");
}
