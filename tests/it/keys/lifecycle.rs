//! The lifecycle of a key: it is created, shown once, used, and ends.

use serde_json::{Value, json};

use super::{keyed, service};
use crate::support::shapes::{names_field, succeeded};
use crate::support::{App, Backend, eventually};

on_both_databases!(
    async fn first_key_closes_an_open_service(backend: Backend) {
        let app = App::start(backend).await;
        succeeded(&app.call("echo", json!({})).await);
        // An open service ignores credentials.
        assert_eq!(app.with_key("sk-of-somebody-else").get("/tools").await.status, 200);
        assert_eq!(app.get("/keys").await.ok(), json!({"keys": [], "next_cursor": null}));
        let (key, id) = app.key(json!({"scopes": ["admin"]})).await;
        let answer = app.get("/tools").await;
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        assert_eq!(answer.problem(401)["code"], "UNAUTHORIZED");
        for open in ["/healthz", "/readyz", "/openapi.json", "/docs/"] {
            assert_eq!(app.get(open).await.status, 200, "{open}");
        }
        app.get("/nowhere").await.problem(404);
        let operator = app.with_key(&key);
        assert_eq!(operator.get("/tools").await.status, 200);
        // The service stays closed when its last key is revoked.
        assert_eq!(operator.delete(&format!("/keys/{id}")).await.status, 204);
        assert_eq!(operator.get("/tools").await.problem(401)["code"], "INVALID_KEY");
        app.get("/tools").await.problem(401);
    }
);

on_both_databases!(
    async fn key_is_shown_once_and_listed_without_its_secret(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let body = json!({"scopes": ["call", "read"], "tools": ["echo", "mail.*"], "name": "bot", "expires": "30d", "rate": 60});
        let made = operator.post("/keys", &body).await;
        assert_eq!((made.status, made.header("cache-control")), (201, "no-store"));
        let (key, id) = (made.json["key"].as_str().unwrap(), made.json["id"].as_str().unwrap());
        assert!(key.starts_with("tp_") && key.len() == 46, "{key}");
        assert_eq!(made.header("location"), format!("/keys/{id}"));
        let one = operator.get(&format!("/keys/{id}")).await.ok();
        let expected = json!([["call", "read"], ["echo", "mail.*"], "bot", "default", 60, null, null]);
        let shown =
            ["scopes", "tools", "name", "tenant", "rate", "concurrency", "revoked_at"].map(|name| one[name].clone());
        assert_eq!(Value::from(shown.to_vec()), expected);
        assert!(key.starts_with(one["prefix"].as_str().unwrap()));
        let all = operator.get("/keys").await;
        assert!(!all.text().contains(&key[12..]) && !one.to_string().contains(&key[12..]));
        assert_eq!(all.ok()["keys"][0], one);
        let page = operator.get("/keys?limit=1").await.ok();
        let next = operator.get(&format!("/keys?limit=1&cursor={}", page["next_cursor"].as_str().unwrap())).await.ok();
        assert_eq!((&page["keys"][0], &next["next_cursor"]), (&one, &Value::Null));
        assert_ne!(next["keys"][0], one);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn invalid_key_request_is_rejected_with_its_pointer() {
    let (_app, operator) = service(Backend::Sqlite).await;
    for (body, field) in [
        (json!({"scopes": []}), "/scopes"),
        (json!({"scopes": ["fly"]}), "/scopes"),
        (json!({"scopes": ["call"], "tools": ["["]}), "/tools/0"),
        (json!({"scopes": ["call"], "expires": "soon"}), "/expires"),
        (json!({"scopes": ["call"], "rate": 0}), "/rate"),
        (json!({"scopes": ["call"], "tenant": ""}), "/tenant"),
        (json!({"scopes": ["call"], "scope": "x"}), "scope"),
        (json!({}), "scopes"),
    ] {
        names_field(&operator.post("/keys", &body).await.problem(422), field);
    }
}

on_both_databases!(
    async fn key_is_limited_to_its_scopes_and_the_missing_one_is_named(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let caller = keyed(&operator, json!({"scopes": ["call"]})).await;
        let reader = keyed(&operator, json!({"scopes": ["read"]})).await;
        let toolsmith = keyed(&operator, json!({"scopes": ["tools"]})).await;
        let call = caller.call("echo", json!({})).await;
        let path = format!("/tool-calls/{}", call["id"].as_str().unwrap());
        for client in [&caller, &reader, &operator] {
            assert_eq!(client.get(&path).await.status, 200);
        }
        let refused = reader.post("/tool-calls", &json!({"name": "echo"})).await;
        assert_eq!(refused.header("www-authenticate"), "Bearer error=\"insufficient_scope\", scope=\"call\"");
        let problem = refused.problem(403);
        assert_eq!(problem["code"], "SCOPE_MISSING");
        assert!(problem["detail"].as_str().unwrap().contains("`call`"), "{problem}");
        for (client, path, status) in [
            (&caller, "/tool-calls", 403),
            (&caller, "/stats", 403),
            (&caller, "/tools", 200),
            (&reader, "/tool-calls", 200),
            (&reader, "/stats", 200),
            (&reader, "/hooks", 403),
            (&reader, "/keys", 403),
            (&toolsmith, "/tools", 200),
            (&toolsmith, "/tool-calls", 403),
            (&toolsmith, "/keys", 403),
            (&operator, "/keys", 200),
        ] {
            assert_eq!(client.get(path).await.status, status, "{path}");
        }
        // A caller may switch groups in its session. Switching them for all sessions requires the right to manage
        // tools.
        assert_eq!(operator.post("/tool-groups", &json!({"name": "g"})).await.status, 201);
        assert_eq!(caller.post("/sessions", &json!({"id": "s"})).await.status, 201);
        let switch = async |client: &crate::support::Client, path: &str| {
            let request = client.request(reqwest::Method::PATCH, path).json(&json!({"active": false}));
            crate::support::client::send(request).await.status
        };
        assert_eq!(switch(&caller, "/tool-groups/g?session=s").await, 200);
        assert_eq!(switch(&caller, "/tool-groups/g").await, 403);
        assert_eq!(switch(&toolsmith, "/tool-groups/g").await, 200);
        // Unsupported methods require no scope.
        assert_eq!(reader.post("/stats", &json!({})).await.problem(405)["code"], "METHOD_NOT_ALLOWED");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn key_cannot_grant_more_than_its_own_scopes() {
    let (_app, operator) = service(Backend::Sqlite).await;
    let admin = keyed(&operator, json!({"scopes": ["admin"], "tenant": "one", "tools": ["echo", "a.*"]})).await;
    for body in [
        json!({"scopes": ["call"], "tenant": "other", "tools": ["echo"]}),
        json!({"scopes": ["call"], "tenant": "default", "tools": ["echo"]}),
        json!({"scopes": ["call"]}),
        json!({"scopes": ["call"], "tools": ["*"]}),
    ] {
        assert_eq!(admin.post("/keys", &body).await.problem(403)["code"], "FORBIDDEN", "{body}");
    }
    let made = admin.post("/keys", &json!({"scopes": ["call"], "tools": ["a.*"]})).await;
    assert_eq!((made.status, &made.json["tenant"]), (201, &json!("one")));
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_key_is_rejected() {
    let (app, operator) = service(Backend::Sqlite).await;
    let client = keyed(&operator, json!({"scopes": ["call"], "expires": "1s"})).await;
    let ended = eventually("the end of the key", || async {
        let answer = client.get("/tools").await;
        (answer.status != 200).then_some(answer)
    });
    let problem = ended.await.problem(401);
    assert!(problem["detail"].as_str().unwrap().contains("expired"), "{problem}");
    drop(app);
}

on_both_databases!(
    async fn use_of_a_key_is_recorded(backend: Backend) {
        let (_app, operator) = service(backend).await;
        let (key, id) = operator.key(json!({"scopes": ["read"]})).await;
        let path = format!("/keys/{id}");
        assert_eq!(operator.get(&path).await.ok()["last_used_at"], Value::Null);
        assert_eq!(operator.with_key(&key).get("/stats").await.status, 200);
        eventually("the note", || async { operator.get(&path).await.ok()["last_used_at"].is_string().then_some(()) })
            .await;
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn key_revoked_on_one_node_is_rejected_on_another() {
    requires_postgres!();
    let (first, operator) = service(Backend::Postgres).await;
    let second = first.second().await;
    let (key, id) = operator.key(json!({"scopes": ["read"]})).await;
    let there = second.with_key(&key);
    eventually("the key over there", || async { (there.get("/stats").await.status == 200).then_some(()) }).await;
    second.get("/stats").await.problem(401);
    assert_eq!(operator.delete(&format!("/keys/{id}")).await.status, 204);
    // The revocation applies to this node at once, and to the other node after its next refresh.
    operator.with_key(&key).get("/stats").await.problem(401);
    eventually("its end over there", || async { (there.get("/stats").await.status == 401).then_some(()) }).await;
}
