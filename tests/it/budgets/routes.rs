//! The routes of budgets.

use serde_json::json;

use super::{DAY, budget, usage};
use crate::support::shapes::{failed, names_field, succeeded};
use crate::support::{App, Backend};

on_both_databases!(
    async fn budgets_are_created_replaced_and_deleted(backend: Backend) {
        let app = App::start(backend).await;
        let created = budget(&app, "b", json!({"max_calls": 1, "max_cost": 2.5})).await;
        assert_eq!(created.header("location"), "/budgets/b");
        let body = json!({"name": "b", "window_ms": DAY, "max_calls": 1});
        assert_eq!(app.post("/budgets", &body).await.problem(409)["code"], "BUDGET_EXISTS");
        succeeded(&app.call("echo", json!({})).await);
        failed(&app.call("echo", json!({})).await, "BUDGET_EXCEEDED");
        // A budget can be read, changed and sent back. Its use stays.
        let mut read = app.get("/budgets/b").await.ok();
        assert_eq!(read["calls"], json!({"used": 1, "reserved": 0, "limit": 1}));
        assert_eq!((&read["cost"]["limit"], &read["unit"]), (&json!(2.5), &json!("calls")));
        read["max_calls"] = json!(2);
        app.put("/budgets/b", &read).await.ok();
        succeeded(&app.call("echo", json!({})).await);
        assert_eq!(usage(&app, "b").await, json!([2, 0, 2]));
        assert_eq!(app.get("/budgets").await.ok()["total"], 1);
        assert_eq!(app.delete("/budgets/b").await.status, 204);
        assert_eq!(app.get("/budgets/b").await.status, 404);
        succeeded(&app.call("echo", json!({})).await);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn invalid_budgets_are_rejected_with_the_field() {
    let app = App::on_sqlite().await;
    for (body, field) in [
        (json!({"window_ms": 1, "max_calls": 1}), "/name"),
        (json!({"name": "b", "max_calls": 1}), "/window_ms"),
        (json!({"name": "b", "window_ms": 0, "max_calls": 1}), "/window_ms"),
        (json!({"name": "b", "window_ms": 1}), "/max_calls"),
        (json!({"name": "b", "window_ms": 1, "max_calls": -1}), "/max_calls"),
        (json!({"name": "b", "window_ms": 1, "max_cost": -0.5}), "/max_cost"),
        (json!({"name": "b", "window_ms": 1, "max_calls": 1, "match": {"tools": ["a["]}}), "/match/tools/0"),
        (json!({"name": "b", "window_ms": 1, "max_calls": 1, "match": {"sessions": ["a[b]"]}}), "/match/sessions/0"),
        (json!({"name": "b", "window_ms": 1, "max_calls": 1, "match": {"groups": []}}), "/match/groups"),
        (json!({"name": "a b", "window_ms": 1, "max_calls": 1}), "/name"),
        (json!({"name": "b", "window": 1, "window_ms": 1, "max_calls": 1}), "/window"),
    ] {
        let response = app.post("/budgets", &body).await;
        assert_eq!(response.status, 422, "{body}");
        names_field(&response.json, field);
    }
    let tool = json!({"name": "t", "input_schema": {"type": "object"}, "cost": -1,
        "executor": {"type": "builtin", "name": "echo"}});
    names_field(&app.post("/tools", &tool).await.json, "/cost");
}
