//! How policies are declared, over the API and in the settings.

use serde_json::json;
use toolpost::domain::policy::{PolicyDefinition, PolicyEffect};

use super::policy;
use crate::support::shapes::{failed, is_time, names, points_at, succeeded};
use crate::support::{App, Backend, Options};

on_both_databases!(
    async fn policies_are_created_read_replaced_and_deleted(backend: Backend) {
        let app = App::start(backend).await;
        let created = policy(&app, "a", "tool.name == 'echo'", "deny", json!({"reason": "no"})).await;
        assert_eq!(created.header("location"), "/policies/a");
        assert_eq!((&created.json["source"], &created.json["enabled"]), (&json!("api"), &json!(true)));
        assert!(is_time(&created.json["created_at"]));
        let again = app.post("/policies", &json!({"name": "a", "when": "true", "effect": "deny"})).await.problem(409);
        assert_eq!(again["code"], "POLICY_EXISTS");
        let read = app.get("/policies/a").await.ok();
        assert_eq!(read, created.json);
        let mut changed = read.clone();
        changed["enabled"] = false.into();
        let put = app.put("/policies/a", &changed).await.ok();
        assert_eq!((&put["enabled"], &put["created_at"]), (&json!(false), &read["created_at"]));
        succeeded(&app.call("echo", json!({})).await);
        app.put("/policies/b", &json!({"when": "false", "effect": "allow", "priority": 3})).await.ok();
        let app = app.restart().await;
        assert_eq!(names(&app.get("/policies").await.ok()["policies"]), ["b", "a"]);
        assert_eq!(app.delete("/policies/a").await.status, 204);
        app.delete("/policies/a").await.problem(404);
        app.get("/policies/a").await.problem(404);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn invalid_expression_is_rejected_with_its_position() {
    let app = App::start(Backend::Sqlite).await;
    for (when, position) in [
        ("args.n >", "line 1"),
        ("true &&\n nonsense.x", "line 2, column 2"),
        ("foo(1)", "unknown function"),
        ("", "line 1"),
        (&"(".repeat(4000), "nest"),
    ] {
        let refused = app.post("/policies", &json!({"name": "a", "when": when, "effect": "deny"})).await.problem(422);
        points_at(&refused, "/when");
        assert!(refused["errors"][0]["message"].as_str().unwrap().contains(position), "{refused}");
    }
    for (body, pointer) in [
        (json!({"name": "a b", "when": "true", "effect": "deny"}), "/name"),
        (json!({"name": "a", "when": "true", "effect": "maybe"}), "/effect"),
        (json!({"name": "a", "when": "true", "effect": "deny", "prio": 1}), "/prio"),
        (json!({"name": "a", "when": 5, "effect": "deny"}), "/when"),
    ] {
        points_at(&app.post("/policies", &body).await.problem(422), pointer);
    }
    points_at(
        &app.put("/policies/a", &json!({"name": "b", "when": "true", "effect": "deny"})).await.problem(422),
        "/name",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_policies_come_first_and_cannot_be_changed() {
    let options = Options {
        configure: Some(|config| {
            let when = "has(args.n)".to_owned();
            let (name, effect) = ("fixed".to_owned(), PolicyEffect::Deny);
            config.policies = vec![PolicyDefinition { name, when, effect, priority: -5, reason: None, enabled: true }];
        }),
        ..Options::default()
    };
    let app = App::start_with(Backend::Sqlite, options).await;
    policy(&app, "own", "true", "allow", json!({"priority": 100})).await;
    let listed = app.get("/policies").await.ok();
    assert_eq!(names(&listed["policies"]), ["fixed", "own"]);
    assert_eq!(listed["policies"][0]["source"], "config");
    failed(&app.call("echo", json!({"n": 1})).await, "POLICY_DENIED");
    let change = json!({"when": "false", "effect": "deny"});
    assert_eq!(app.put("/policies/fixed", &change).await.problem(409)["code"], "POLICY_READ_ONLY");
    assert_eq!(app.delete("/policies/fixed").await.problem(409)["code"], "POLICY_READ_ONLY");
}
