//! The cookie counts as the key, for pages of the service itself.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::client::send;
use crate::support::{App, Backend, Client, Response};

/// A service with an admin key, and the cookie of a console that has signed in with it.
struct SignedIn {
    app: App,
    operator: Client,
    key_id: String,
    cookie: String,
}

impl SignedIn {
    async fn start(backend: Backend) -> Self {
        let app = App::start(backend).await;
        let (key, key_id) = app.key(json!({"scopes": ["admin"], "name": "me"})).await;
        let operator = app.with_key(&key);
        let answer = login(&app, &key).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
        let cookie = answer.header("set-cookie").to_owned();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { app, operator, key_id, cookie }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.app.request(method, path).header("cookie", &self.cookie)
    }

    /// Returns the origin of the service.
    fn origin(&self) -> String {
        self.app.url("")
    }
}

async fn login(app: &App, key: &str) -> Response {
    send(app.request(Method::POST, "/console/login").header("origin", app.url("")).json(&json!({"key": key}))).await
}

on_both_databases!(
    async fn the_cookie_counts_as_its_key(backend: Backend) {
        let console = SignedIn::start(backend).await;
        let me = send(console.request(Method::GET, "/whoami")).await.ok();
        assert_eq!((&me["name"], &me["open"], &me["key_id"]), (&json!("me"), &json!(false), &json!(console.key_id)));
        assert_eq!((&me["scopes"], &me["tools"], &me["tenant"]), (&json!(["admin"]), &Value::Null, &json!("default")));
        let call = json!({"name": "echo", "arguments": {"a": 1}});
        let request = console.request(Method::POST, "/tool-calls").header("origin", console.origin()).json(&call);
        let made = send(request).await.ok();
        assert_eq!(made["status"], "SUCCESS");
        // It ends with the key.
        assert_eq!(console.operator.delete(&format!("/keys/{}", console.key_id)).await.status, 204);
        send(console.request(Method::GET, "/tools")).await.problem(401);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_changes_nothing_with_the_cookie() {
    let console = SignedIn::start(Backend::Sqlite).await;
    let call = json!({"name": "echo", "arguments": {}});
    let post = || console.request(Method::POST, "/tool-calls").json(&call);
    for (header, value) in [
        ("origin", "https://evil.test"),
        ("origin", "null"),
        ("x-no-origin", "at all"),
        ("origin", &console.origin().replace("127.0.0.1", "localhost")),
    ] {
        assert_eq!(send(post().header(header, value)).await.problem(403)["code"], "CROSS_ORIGIN", "{header}: {value}");
    }
    let delete = console.request(Method::DELETE, "/stats").header("origin", "https://evil.test");
    send(delete).await.problem(403);
    assert_eq!(console.operator.get("/tool-calls").await.ok()["tool_calls"], json!([]));
    // A page of another site gets no data either.
    send(console.request(Method::GET, "/tools").header("sec-fetch-site", "cross-site")).await.problem(401);
    // The key itself needs no origin: no browser adds it on its own.
    assert_eq!(console.operator.post("/tool-calls", &call).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_signs_nobody_in() {
    let console = SignedIn::start(Backend::Sqlite).await;
    for key in ["tp_wrong", "x"] {
        let answer = login(&console.app, key).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (401, ""));
    }
    let foreign = console.app.request(Method::POST, "/console/login").header("origin", "https://evil.test");
    send(foreign.json(&json!({"key": "tp_wrong"}))).await.problem(403);
    login(&console.app, "").await.client_problem();
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_removes_the_cookie_and_leaves_the_key() {
    let console = SignedIn::start(Backend::Sqlite).await;
    let answer = send(console.request(Method::POST, "/console/logout").header("origin", console.origin())).await;
    assert_eq!(answer.status, 204);
    assert!(
        answer.header("set-cookie").starts_with("toolpost_key=; Max-Age=0; Path=/"),
        "{}",
        answer.header("set-cookie")
    );
    assert_eq!(console.operator.get("/whoami").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_service_says_so() {
    let app = App::on_sqlite().await;
    let me = app.get("/whoami").await.ok();
    assert_eq!((&me["open"], &me["key_id"]), (&json!(true), &Value::Null));
    let (key, _) = app.key(json!({"scopes": ["read"], "tools": ["echo"], "expires": "1d"})).await;
    app.get("/whoami").await.problem(401);
    let me = app.with_key(&key).get("/whoami").await.ok();
    assert_eq!((&me["scopes"], &me["tools"]), (&json!(["read"]), &json!(["echo"])));
    assert!(me["expires_at"].is_string());
}
