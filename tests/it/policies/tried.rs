//! What policies would have decided about stored calls.

use serde_json::json;

use super::policy;
use crate::support::shapes::points_at;
use crate::support::{App, Backend};

const SINCE: &str = "2020-01-01T00:00:00.000Z";

on_both_databases!(
    async fn policy_is_tested_on_stored_calls(backend: Backend) {
        let app = App::start(backend).await;
        policy(&app, "no-nine", "args.n == 9", "deny", json!({})).await;
        for n in 1..=9 {
            app.call("echo", json!({"n": n})).await;
        }
        app.call("calculate", json!({"expression": 5})).await;
        let new = json!({"name": "too-large", "when": "args.n > 6", "effect": "approve"});
        let result = app.post("/policies/test", &json!({"policy": new, "since": SINCE})).await.ok();
        let count = |name: &str| result[name].as_u64().unwrap();
        assert_eq!((count("evaluated"), count("allowed"), count("approval")), (9, 6, 2), "{result:#}");
        assert_eq!((count("denied"), count("failed"), count("changed")), (1, 0, 2));
        let first = &result["examples"][0];
        assert_eq!(
            (&first["name"], &first["before"], &first["after"]),
            (&json!("echo"), &json!("allow"), &json!("approve"))
        );
        let body = json!({"policies": [{"name": "x", "when": "args.m", "effect": "deny"}], "since": SINCE, "limit": 4});
        let result = app.post("/policies/test", &body).await.ok();
        assert_eq!((&result["evaluated"], &result["failed"]), (&json!(4), &json!(4)));
        let body = json!({"policies": [], "since": SINCE, "name": "echo"});
        let result = app.post("/policies/test", &body).await.ok();
        assert_eq!((&result["allowed"], &result["changed"]), (&json!(9), &json!(1)), "the denied call would run");
        assert_eq!(app.get("/policies").await.ok()["total"], 1, "nothing changed");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn invalid_policy_test_is_rejected() {
    let app = App::start(Backend::Sqlite).await;
    let wrong = json!({"name": "x", "when": "args.", "effect": "deny"});
    let body = json!({"policies": [wrong], "since": SINCE});
    points_at(&app.post("/policies/test", &body).await.problem(422), "/policies/0/when");
    points_at(
        &app.post("/policies/test", &json!({"policy": wrong, "since": SINCE})).await.problem(422),
        "/policy/when",
    );
    points_at(&app.post("/policies/test", &json!({"since": SINCE})).await.problem(422), "/policy");
    app.post("/policies/test", &json!({"policies": []})).await.problem(422);
}
