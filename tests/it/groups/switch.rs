//! Switching several groups atomically.

use serde_json::json;

use super::{Grouping, service};
use crate::support::Backend;
use crate::support::shapes::{names_field, points_at};

on_both_databases!(
    async fn groups_are_switched_together_and_the_tools_with_them(backend: Backend) {
        let app = service(backend).await;
        assert_eq!(app.listed("").await, ["in_a", "in_b", "in_both", "in_none"]);
        let answer = app.patch("/tool-groups", json!({"deactivate": ["a"]})).await.ok();
        assert_eq!((&answer["total"], &answer["groups"][0]["active"]), (&json!(2), &json!(false)));
        assert_eq!(app.listed("").await, ["in_b", "in_both", "in_none"]);
        app.patch("/tool-groups", json!({"activate": ["a"], "deactivate": ["b"]})).await.ok();
        assert_eq!(app.listed("").await, ["in_a", "in_both", "in_none"]);
        app.patch("/tool-groups", json!({"deactivate": ["a", "b", "a"]})).await.ok();
        assert_eq!(app.listed("").await, ["in_none"]);
        let app = app.restart().await;
        assert_eq!(app.listed("").await, ["in_none"]);
        app.patch("/tool-groups", json!({"activate": ["b"]})).await.ok();
        assert_eq!(app.listed("").await, ["in_b", "in_both", "in_none"]);
        assert_eq!(app.patch("/tool-groups", json!({})).await.ok(), app.get("/tool-groups").await.ok());
    }
);

on_both_databases!(
    async fn unknown_name_switches_nothing(backend: Backend) {
        let app = service(backend).await;
        app.deactivate("b").await;
        let before = app.get("/tool-groups").await.ok();
        for unknown in ["nobody", "", "a\u{0}", "😀"] {
            let body = json!({"activate": ["b", unknown], "deactivate": ["a"]});
            assert_eq!(app.patch("/tool-groups", body).await.problem(404)["code"], "NOT_FOUND");
            app.patch("/tool-groups", json!({"deactivate": ["a", unknown]})).await.problem(404);
        }
        assert_eq!(app.get("/tool-groups").await.ok(), before);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn name_on_both_sides_is_a_422_and_switches_nothing() {
    let app = service(Backend::Sqlite).await;
    let problem = app.patch("/tool-groups", json!({"activate": ["b"], "deactivate": ["a", "b"]})).await.problem(422);
    points_at(&problem, "/deactivate/1");
    assert_eq!(app.active("").await, [("a".to_owned(), true), ("b".to_owned(), true)]);
    names_field(&app.patch("/tool-groups", json!({"activte": ["a"]})).await.problem(422), "activte");
    points_at(&app.patch("/tool-groups", json!({"activate": "a"})).await.problem(422), "/activate");
    points_at(&app.patch("/tool-groups", json!({"activate": [1]})).await.problem(422), "/activate/0");
    app.patch("/tool-groups", json!([])).await.problem(422);
}

on_both_databases!(
    async fn concurrent_switches_are_seen_atomically(backend: Backend) {
        let app = service(backend).await;
        app.deactivate("b").await;
        let switchers = (0..8).map(|n| {
            let client = (*app).clone();
            let (on, off) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
            tokio::spawn(async move {
                let body = json!({"activate": [on], "deactivate": [off]});
                client.patch("/tool-groups", body).await.ok();
                client.active("").await
            })
        });
        for switcher in switchers.collect::<Vec<_>>() {
            let seen = switcher.await.unwrap();
            assert_ne!(seen[0].1, seen[1].1, "{seen:?}");
        }
    }
);
