//! Creating, reading and updating one group.

use serde_json::{Value, json};

use super::Grouping;
use crate::support::shapes::{is_time, names_field, points_at};
use crate::support::{App, Backend};

on_both_databases!(
    async fn group_is_created_read_changed_and_survives_a_restart(backend: Backend) {
        let app = App::start(backend).await;
        let body = json!({"name": "mail", "description": "Mail 😀\u{7f}", "active": false, "manageable": true});
        let made = app.post("/tool-groups", &body).await;
        assert_eq!((made.status, made.header("location")), (201, "/tool-groups/mail"), "{}", made.text());
        assert!(is_time(&made.json["created_at"]) && is_time(&made.json["updated_at"]));
        for (field, value) in body.as_object().unwrap() {
            assert_eq!(&made.json[field], value, "{field}");
        }
        assert_eq!(made.json["tools"], json!([]));
        assert_eq!(app.get("/tool-groups/mail").await.ok(), made.json);
        assert_eq!(app.get("/tool-groups").await.ok(), json!({"groups": [made.json], "total": 1}));

        app.grouped("send", &["mail"]).await;
        let change = json!({"description": "New", "active": true, "manageable": false});
        let changed = app.patch("/tool-groups/mail", change).await.ok();
        assert_eq!((&changed["description"], &changed["active"]), (&json!("New"), &json!(true)));
        assert_eq!((&changed["manageable"], &changed["tools"]), (&json!(false), &json!(["send"])));
        assert_eq!(changed["created_at"], made.json["created_at"]);
        assert_eq!(app.patch("/tool-groups/mail", json!({"description": "Newer"})).await.ok()["active"], true);
        let app = app.restart().await;
        assert_eq!(app.get("/tool-groups/mail").await.ok()["description"], "Newer");
        assert_eq!(app.get("/tools/send").await.ok()["groups"], json!(["mail"]));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn group_is_active_and_unmanageable_by_default() {
    let app = App::on_sqlite().await;
    app.groups(&["g"]).await;
    let group = app.get("/tool-groups/g").await.ok();
    assert_eq!((&group["active"], &group["manageable"]), (&json!(true), &json!(false)));
    assert_eq!(group["description"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn existing_group_is_a_409_and_stays_unchanged() {
    let app = App::on_sqlite().await;
    app.groups(&["g"]).await;
    let before = app.get("/tool-groups").await.ok();
    let problem = app.post("/tool-groups", &json!({"name": "g", "active": false})).await.problem(409);
    assert_eq!(problem["code"], "GROUP_EXISTS");
    assert_eq!(app.get("/tool-groups").await.ok(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_group_is_a_404() {
    let app = App::on_sqlite().await;
    for name in ["nobody", "%00", "%F0%9F%98%80", "a%2Fb"] {
        let path = format!("/tool-groups/{name}");
        app.get(&path).await.problem(404);
        app.patch(&path, json!({"active": true})).await.problem(404);
        app.delete(&path).await.problem(404);
    }
    assert_eq!(app.active("").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_group_is_rejected_with_its_pointer() {
    let app = App::on_sqlite().await;
    let refused = |body: Value| {
        let app = &app;
        async move { app.post("/tool-groups", &body).await.problem(422) }
    };
    for name in ["", "a b", "a,b", "a/b", "é", "a\u{0}", &"n".repeat(129)] {
        points_at(&refused(json!({ "name": name })).await, "/name");
    }
    points_at(&refused(json!({"name": 5})).await, "/name");
    points_at(&refused(json!({"name": "g", "active": "yes"})).await, "/active");
    points_at(&refused(json!({"name": "g", "description": "x".repeat(10_001)})).await, "/description");
    names_field(&refused(json!({"name": "g", "activ": true})).await, "activ");
    names_field(&refused(json!({"active": true})).await, "name");
    refused(json!([])).await;
    app.groups(&["g"]).await;
    names_field(&app.patch("/tool-groups/g", json!({"name": "h"})).await.problem(422), "name");
    points_at(&app.patch("/tool-groups/g", json!({"active": 1})).await.problem(422), "/active");
    app.get("/tool-groups?sesion=x").await.problem(422);
    assert_eq!(app.active("").await, [("g".to_owned(), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_concurrent_creations_of_a_group_is_a_201() {
    let app = App::on_sqlite().await;
    let makers = (0..8).map(|_| {
        let client = (*app).clone();
        tokio::spawn(async move { client.post("/tool-groups", &json!({"name": "g"})).await.status })
    });
    let mut statuses = Vec::new();
    for maker in makers.collect::<Vec<_>>() {
        statuses.push(maker.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
}
