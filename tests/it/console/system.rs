//! `GET /system`: the nodes, and the settings without their secrets.

use serde_json::{Value, json};

use crate::support::{App, Backend, Options};

on_both_databases!(
    async fn nodes_are_shown_with_their_calls(backend: Backend) {
        let app = App::start(backend).await;
        let call = app.accepted(json!({"name": "wait", "arguments": {"ms": 60_000}, "wait": "accepted"})).await;
        let system = crate::support::eventually("the call runs", || async {
            let system = app.get("/system").await.ok();
            (system["nodes"][0]["running"] == 1).then_some(system)
        })
        .await;
        assert_eq!(system["nodes"].as_array().unwrap().len(), 1);
        assert_eq!((&system["nodes"][0]["is_this"], &system["nodes"][0]["is_lost"]), (&json!(true), &json!(false)));
        assert_eq!(system["nodes"][0]["id"], system["node"]);
        let kind = if backend == Backend::Sqlite { "sqlite" } else { "postgres" };
        assert_eq!((&system["database"], &system["journal"]["healthy"]), (&json!(kind), &json!(true)));
        assert_eq!(system["version"], env!("CARGO_PKG_VERSION"));
        app.post(&format!("/tool-calls/{call}/cancel"), &json!({})).await;
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_shown_without_secrets() {
    let configure: fn(&mut toolpost::config::Config) = |config| {
        config.secrets.encryption_keys.0 = "one:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_owned();
        let object = json!({"token": "hidden-value"}).as_object().cloned().unwrap();
        config.context.0.insert("shop".to_owned(), object);
        config.retention.calls_ms = 777_000_000;
    };
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(configure), ..Options::default() }).await;
    let system = app.get("/system").await.ok();
    let text = system.to_string();
    assert!(!text.contains("AAAAAAAA") && !text.contains("hidden-value"), "{text}");
    let settings = system["settings"].as_array().unwrap();
    let value = |name: &str| -> &Value { &settings.iter().find(|one| one["name"] == name).unwrap()["value"] };
    assert_eq!(value("secrets.encryption_keys"), "…");
    assert_eq!(value("retention.calls_ms"), &json!(777_000_000));
    assert_eq!(value("context"), &json!(["shop"]));
    assert_eq!(system["retention"]["calls_ms"], json!(777_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn system_page_is_for_the_operator_only() {
    let app = App::on_sqlite().await;
    let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
    let operator = app.with_key(&admin);
    for (body, status) in [
        (json!({"scopes": ["read"]}), 403),
        (json!({"scopes": ["admin"], "tools": ["echo"]}), 403),
        (json!({"scopes": ["admin"], "tenant": "other"}), 403),
        (json!({"scopes": ["admin"]}), 200),
    ] {
        let (key, _) = operator.key(body.clone()).await;
        assert_eq!(app.with_key(&key).get("/system").await.status, status, "{body}");
    }
}
