//! Metrics cover all tenants and are therefore reserved for the operator.

use serde_json::json;

use crate::support::app::echo_tool;
use crate::support::{App, Backend};

on_both_databases!(
    async fn only_the_operator_reads_metrics_of_all_tenants(backend: Backend) {
        let app = App::start(backend).await;
        // Public while the service has no keys.
        assert!(app.metrics().await.get("toolpost_database_up").is_some());
        let (admin, _) = app.key(json!({"scopes": ["admin"]})).await;
        let admin = app.with_key(&admin);
        let (tenant, _) = admin.key(json!({"scopes": ["admin"], "tenant": "acme"})).await;
        let tenant = app.with_key(&tenant);
        tenant.register(echo_tool("acme_only", json!({"type": "object"}))).await;
        tenant.call("acme_only", json!({})).await;
        let (reader, _) = admin.key(json!({"scopes": ["read"]})).await;
        for client in [&admin, &app.with_key(&reader)] {
            client.counted(&[(r#"toolpost_calls_total{tool="acme_only",outcome="SUCCESS"}"#, 1.0)]).await;
        }
        for (key, code) in [
            (json!({"scopes": ["admin"], "tenant": "acme"}), "FORBIDDEN"),
            (json!({"scopes": ["read"], "tenant": "acme"}), "FORBIDDEN"),
            (json!({"scopes": ["read"], "tools": ["echo"]}), "FORBIDDEN"),
            (json!({"scopes": ["call", "tools"]}), "SCOPE_MISSING"),
        ] {
            let (key, _) = admin.key(key.clone()).await;
            let answer = app.with_key(&key).get("/metrics").await;
            assert!(!answer.text().contains("acme_only"), "{}", answer.text());
            assert_eq!(answer.problem(403)["code"], code);
        }
        assert_eq!(app.get("/metrics").await.problem(401)["code"], "UNAUTHORIZED");
        // Rejected requests are counted as well.
        let refused =
            |code: u16| format!(r#"toolpost_http_requests_total{{method="GET",route="/metrics",status="{code}"}}"#);
        let (forbidden, unauthorized) = (refused(403), refused(401));
        admin.counted(&[(forbidden.as_str(), 4.0), (unauthorized.as_str(), 1.0)]).await;
    }
);
