//! Visible properties of presets: names and kinds.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn hidden_presets_are_in_no_shown_schema() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    mail(&app, &server).await;
    let shown = app.get("/tools/mail").await.ok();
    let visible = json!({"type": "object", "required": ["to"], "additionalProperties": false,
        "properties": {"to": {"type": "string"}, "unit": {"type": "string", "default": "C"}}});
    assert_eq!(shown["input_schema"], visible);
    assert_eq!(
        shown["presets"],
        json!({
            "key": {"kind": "secret", "secret": "MAIL_KEY", "overridable": false},
            "region": {"kind": "value", "overridable": false}, "unit": {"kind": "value", "overridable": true},
        })
    );
    assert_eq!(app.get("/tools/mail/presets").await.ok(), shown["presets"]);
    for format in ["openai", "openai-responses", "openai-strict", "anthropic", "gemini", "mcp", "prompt"] {
        let list = app.get(&format!("/tools?format={format}")).await;
        assert_eq!(list.status, 200);
        assert!(list.text().contains("\"to\"") || list.text().contains("to"), "{format}");
        for name in ["\"key\"", "region", "eu-central", "MAIL_KEY"] {
            assert!(!list.text().contains(name), "{name} in {format}: {}", list.text());
        }
    }
    let refused = app.call("mail", json!({})).await;
    assert_eq!(refused["error"]["details"]["expected_schema"], visible);
    let valid = app.post("/tools/mail/validate", &json!({"arguments": {"to": "a", "key": 1}})).await.ok();
    assert_eq!((valid["valid"].clone(), valid["arguments"].clone()), (json!(true), json!({"to": "a", "unit": "C"})));
    assert!(app.get("/tools?q=region").await.ok()["tools"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_can_be_read_and_put_back_with_its_values() {
    let (app, server) = (service(Backend::Sqlite).await, server().await);
    let mut read = mail(&app, &server).await;
    read["description"] = "Another one.".into();
    let put = app.put("/tools/mail", &read).await.ok();
    assert_eq!(put["presets"], read["presets"]);
    app.call("mail", json!({"to": "a@b"})).await;
    let sent = last(&server)["arguments"].clone();
    assert_eq!(sent, json!({"to": "a@b", "unit": "C", "key": SECRET, "region": "eu-central"}));
    read["presets"]["region"] = json!({"value": "us-east"});
    read["presets"].as_object_mut().unwrap().remove("key");
    app.put("/tools/mail", &read).await.ok();
    app.call("mail", json!({"to": "a@b"})).await;
    assert_eq!(last(&server)["arguments"], json!({"to": "a@b", "unit": "C", "region": "us-east"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_preset_is_rejected_with_its_pointer_and_not_repeated() {
    let app = service(Backend::Sqlite).await;
    for (presets, pointer) in [
        (json!({"key": "sk-hidden"}), "/presets/key"),
        (json!({"key": {"secret": {"sk-hidden": 1}}}), "/presets/key/secret"),
        (json!({"key": {"secret": "sk-hidden"}}), "/presets/key/secret"),
        (json!({"n": {"value": "sk-hidden"}}), "/presets/n/value"),
        (json!({"other": {"value": "sk-hidden", "overridable": true}}), "/presets/other"),
    ] {
        let schema = json!({"type": "object", "properties": {"key": {}, "n": {"type": "integer"}}});
        let executor = json!({"type": "builtin", "name": "echo"});
        let tool = json!({"name": "t", "input_schema": schema, "presets": presets, "executor": executor});
        let problem = app.post("/tools", &tool).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        assert!(!problem.to_string().contains("sk-hidden"), "{problem}");
    }
    app.get("/tools/t").await.problem(404);
}
