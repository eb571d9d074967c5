//! Definitions that are rejected for reasons other than their schemas.

use serde_json::{Value, json};

use crate::support::App;
use crate::support::app::echo_tool;
use crate::support::shapes::{names_field, points_at};

async fn refused(app: &App, definition: &Value) -> Value {
    app.post("/tools", definition).await.problem(422)
}

fn with(field: &str, value: Value) -> Value {
    let mut tool = echo_tool("mine", json!({"type": "object"}));
    tool[field] = value;
    tool
}

#[tokio::test(flavor = "multi_thread")]
async fn name_has_letters_digits_and_three_marks() {
    let app = App::on_sqlite().await;
    for name in ["", "a b", "a/b", "é", "a\u{0}", "😀", "a\n", "a:b", &"n".repeat(129)] {
        points_at(&refused(&app, &with("name", json!(name))).await, "/name");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn name_can_have_128_characters() {
    let app = App::on_sqlite().await;
    for name in [format!("{}._-", "aZ9".repeat(41)), "n".repeat(128), ".".into()] {
        app.register(with("name", json!(name))).await;
        assert_eq!(app.call(&name, json!({})).await["status"], "SUCCESS", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_field_is_named() {
    let app = App::on_sqlite().await;
    names_field(&refused(&app, &with("desciption", json!("d"))).await, "desciption");
    let limits = refused(&app, &with("limits", json!({"timout_ms": 5}))).await;
    names_field(&limits, "timout_ms");
    points_at(&limits, "/limits");
    names_field(&refused(&app, &with("annotations", json!({"readonly": true}))).await, "readonly");
    names_field(&refused(&app, &with("executor", json!({"type": "builtin", "name": "echo", "nmae": 1}))).await, "nmae");
    app.get("/tools/mine").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn field_of_the_wrong_type_is_named() {
    let app = App::on_sqlite().await;
    points_at(&refused(&app, &with("description", json!(5))).await, "/description");
    points_at(&refused(&app, &with("tags", json!([1]))).await, "/tags");
    points_at(&refused(&app, &with("annotations", json!({"read_only": "yes"}))).await, "/annotations/read_only");
    points_at(&refused(&app, &with("limits", json!({"timeout_ms": -1}))).await, "/limits/timeout_ms");
    points_at(&refused(&app, &with("limits", json!({"timeout_ms": "5"}))).await, "/limits/timeout_ms");
    points_at(&refused(&app, &with("output_check", json!("loud"))).await, "/output_check");
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_kind_is_a_text() {
    let app = App::on_sqlite().await;
    for kind in [json!(0), json!(1), json!(["bearer"])] {
        let auth = json!({"type": kind, "token": {"secret": "X"}});
        let executor = json!({"type": "http", "url": "http://192.0.2.1", "auth": auth});
        points_at(&refused(&app, &with("executor", executor)).await, "/executor/auth/type");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_name_or_executor_is_named() {
    let app = App::on_sqlite().await;
    for field in ["name", "executor"] {
        let mut tool = echo_tool("mine", json!({"type": "object"}));
        tool.as_object_mut().unwrap().remove(field);
        names_field(&refused(&app, &tool).await, field);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_executor_is_rejected() {
    let app = App::on_sqlite().await;
    points_at(&refused(&app, &with("executor", json!({"type": "magic"}))).await, "/executor");
    points_at(&refused(&app, &with("executor", json!({"type": "builtin", "name": "magic"}))).await, "/executor");
    points_at(&refused(&app, &with("executor", json!({"type": "http"}))).await, "/executor");
    points_at(&refused(&app, &with("executor", json!({"type": "http", "url": "nowhere"}))).await, "/executor");
}

#[tokio::test(flavor = "multi_thread")]
async fn process_cannot_be_registered_over_http() {
    let app = App::on_sqlite().await;
    let definition = with("executor", json!({"type": "process", "argv": ["/bin/true"]}));
    app.post("/tools", &definition).await.client_problem();
    app.get("/tools/mine").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_replacement_leaves_the_tool_unchanged() {
    let app = App::on_sqlite().await;
    app.echo_of("mine", json!({"a": {"type": "integer"}})).await;
    let before = app.get("/tools/mine").await.ok();
    app.put("/tools/mine", &with("input_schema", json!({"type": "nonsense"}))).await.problem(422);
    assert_eq!(app.get("/tools/mine").await.ok(), before);
    assert_eq!(app.call("mine", json!({"a": 1})).await["status"], "SUCCESS");
}

#[tokio::test(flavor = "multi_thread")]
async fn non_object_body_is_rejected() {
    let app = App::on_sqlite().await;
    for body in [json!([]), json!("x"), json!(null), json!(5)] {
        app.post("/tools", &body).await.client_problem();
    }
}
