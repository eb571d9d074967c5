//! Imported tools in the registry, on both databases.

use serde_json::{Value, json};

use super::{import, names, of_paths};
use crate::support::{App, Backend, Options};

fn two() -> Value {
    of_paths(json!({"/a": {"get": {"operationId": "a", "summary": "The a."}}, "/b": {"post": {"operationId": "b"}}}))
}

fn body(extra: Value) -> Value {
    let mut body = json!({"document": two(), "server": "https://h.example"});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

on_both_databases!(
    async fn import_registers_new_tools_and_changes_no_other(backend: Backend) {
        let app = App::start(backend).await;
        let other = json!({"type": "http", "url": "https://elsewhere.example"});
        app.register(json!({"name": "b", "input_schema": {"type": "object"}, "executor": other})).await;
        let report = import(&app, body(json!({}))).await;
        assert_eq!((names(&report, "created"), report["title"].as_str()), (vec!["a".to_owned()], Some("t")));
        assert_eq!(report["refused"][0]["operation"], "POST /b");
        assert!(report["refused"][0]["reason"].as_str().unwrap().contains("`replace`"), "{report}");
        assert_eq!(app.get("/tools/b").await.ok()["executor"]["url"], "https://elsewhere.example");

        let report = import(&app, body(json!({"replace": true}))).await;
        assert_eq!(
            (names(&report, "replaced"), names(&report, "unchanged")),
            (vec!["b".to_owned()], vec!["a".to_owned()])
        );
        assert_eq!((&report["created"], &report["refused"]), (&json!([]), &json!([])));
        let (a, b) = (app.get("/tools/a").await.ok(), app.get("/tools/b").await.ok());
        assert_eq!((&a["revision"], &b["revision"], &b["source"]), (&json!(1), &json!(2), &json!("api")));
        assert_eq!(b["executor"]["url"], "https://h.example/b");

        let app = app.restart().await;
        let report = import(&app, body(json!({}))).await;
        assert_eq!(names(&report, "unchanged"), ["a", "b"], "{report}");
    }
);

on_both_databases!(
    async fn repeated_import_on_another_node_has_the_tools_immediately(backend: Backend) {
        if backend == Backend::Sqlite {
            // Only one service can use a SQLite file.
            return;
        }
        let app = App::start(backend).await;
        let second = app.second().await;
        import(&app, body(json!({}))).await;
        let report = import(&second, body(json!({}))).await;
        assert_eq!(names(&report, "unchanged"), ["a", "b"], "{report}");
    }
);

on_both_databases!(
    async fn dry_run_has_the_same_report_and_changes_nothing(backend: Backend) {
        let app = App::start(backend).await;
        let before = app.get("/tools").await.ok();
        let dry = import(&app, body(json!({"dry_run": true, "prefix": "shop"}))).await;
        assert_eq!(names(&dry, "created"), ["shop_a", "shop_b"]);
        assert_eq!(app.get("/tools").await.ok(), before);
        assert_eq!(import(&app, body(json!({"prefix": "shop"}))).await, dry);
        assert_eq!(app.get("/tools").await.ok()["total"].as_u64(), before["total"].as_u64().map(|total| total + 2));
    }
);

on_both_databases!(
    async fn many_operations_are_registered_in_few_changes(backend: Backend) {
        let app = App::start(backend).await;
        let paths: serde_json::Map<String, Value> =
            (0..600).map(|at| (format!("/p{at}"), json!({"get": {"operationId": format!("op{at}")}}))).collect();
        let version = app.store().tools_version().await.unwrap();
        let report =
            import(&app, json!({"document": of_paths(Value::Object(paths)), "server": "https://h.example"})).await;
        assert_eq!((names(&report, "created").len(), &report["refused"]), (600, &json!([])));
        assert_eq!(app.store().tools_version().await.unwrap(), version + 2);
        assert_eq!(app.get("/tools/op599").await.status, 200);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn shadowing_tool_is_reported() {
    let app = App::on_sqlite().await;
    let paths = json!({"/e": {"get": {"operationId": "echo"}}});
    let report = import(&app, json!({"document": of_paths(paths), "server": "https://h.example"})).await;
    assert_eq!(names(&report, "created"), ["echo"]);
    assert!(report["warnings"][0]["message"].as_str().unwrap().contains("shadows a tool"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_tools_are_listed_and_the_rest_is_registered() {
    let app = App::start_with(Backend::Sqlite, Options::default()).await;
    let header = json!([{"name": "a b", "in": "header", "required": true, "schema": {"type": "string"}}]);
    let paths = json!({"/bad": {"get": {"operationId": "bad", "parameters": header}}, "/x#y": {"get": {"operationId": "fragment"}},
        "/good": {"get": {"operationId": "good"}}});
    let report = import(&app, json!({"document": of_paths(paths), "server": "https://h.example"})).await;
    assert_eq!(names(&report, "created"), ["fragment", "good"]);
    let reasons: Vec<&str> =
        report["refused"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert!(reasons.len() == 1 && reasons[0].contains("not a valid header name"), "{reasons:?}");
}
