//! Callers cannot create new series.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::json;

use crate::support::{App, Backend};

on_both_databases!(
    async fn unknown_name_makes_no_series(backend: Backend) {
        let app = App::start(backend).await;
        app.call("nope", json!({})).await;
        app.get("/nowhere").await.problem(404);
        // Creates the series of these requests, as far as they have one.
        app.get("/tools/nope").await.problem(404);
        app.request(Method::from_bytes(b"BREW").unwrap(), "/tools").send().await.unwrap();
        app.counted(&[(r#"toolpost_calls_total{tool="unknown",outcome="TOOL_NOT_FOUND"}"#, 1.0)]).await;
        let series = async || app.metrics().await.samples.into_keys().collect::<BTreeSet<_>>();
        let before = series().await;
        for n in 0..20 {
            let name = format!("invented_{n}");
            app.call_with(json!({"name": name, "id": format!("invented_id_{n}")})).await;
            app.call_with(json!({"name": name, "session": null, "arguments": "{"})).await;
            app.get(&format!("/invented_{n}")).await.problem(404);
            app.get(&format!("/tools/{name}")).await.problem(404);
            let method = Method::from_bytes(format!("INVENTED{n}").as_bytes()).unwrap();
            app.request(method, "/tools").send().await.unwrap();
        }
        let found = app.counted(&[(r#"toolpost_calls_total{tool="unknown",outcome="TOOL_NOT_FOUND"}"#, 41.0)]).await;
        assert_eq!(found.samples.into_keys().collect::<BTreeSet<_>>(), before);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn escaped_name_is_a_label() {
    let app = App::on_sqlite().await;
    app.echo_of("a.b-c_D", json!({})).await;
    app.call("a.b-c_D", json!({})).await;
    app.counted(&[(r#"toolpost_calls_total{tool="a.b-c_D",outcome="SUCCESS"}"#, 1.0)]).await;
}
