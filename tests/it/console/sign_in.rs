//! The cookie is a session that counts as the key, for pages of the service itself.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::client::send;
use crate::support::{App, Backend, Client, Options, Response, bounded};

/// A service with an admin key, and the cookie of a console that has signed in with it.
struct SignedIn {
    app: App,
    operator: Client,
    key: String,
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
        Self { app, operator, key, key_id, cookie }
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
    async fn cookie_has_the_permissions_of_its_key(backend: Backend) {
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
async fn cross_origin_page_changes_nothing_with_the_cookie() {
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
async fn invalid_key_does_not_sign_in() {
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
async fn cookie_contains_no_key_and_other_values_are_rejected() {
    let console = SignedIn::start(Backend::Sqlite).await;
    let (name, session) = console.cookie.split_once('=').unwrap();
    assert!(name == "toolpost_session" && !console.cookie.contains(&console.key[3..]), "{}", console.cookie);
    let ticket = console.operator.post("/events/ticket", &json!({"path": "/events"})).await.ok();
    let ticket = ticket["ticket"].as_str().unwrap();
    for other in [&console.key, ticket, "tpt_x", ""] {
        let request = console.app.request(Method::GET, "/tools").header("cookie", format!("toolpost_session={other}"));
        send(request).await.problem(401);
    }
    let key = console.app.request(Method::GET, "/tools").header("cookie", format!("toolpost_key={}", console.key));
    send(key).await.problem(401);
    let stream = console.app.request(Method::GET, &format!("/events?ticket={session}"));
    send(stream).await.problem(401);
    let bearer = console.app.with_key(session);
    bearer.get("/tools").await.problem(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn https_session_is_bound_to_one_host() {
    let console = SignedIn::start(Backend::Sqlite).await;
    let login = console.app.request(Method::POST, "/console/login").header("sec-fetch-site", "same-origin");
    let answer = send(login.header("origin", "https://tools.test").json(&json!({"key": console.key}))).await;
    let cookie = answer.header("set-cookie");
    assert!(cookie.starts_with("__Host-toolpost_session=tpt_") && cookie.ends_with("; Secure"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let me = send(console.app.request(Method::GET, "/whoami").header("cookie", cookie)).await.ok();
    assert_eq!(me["key_id"], json!(console.key_id));
}

on_both_databases!(
    async fn sign_out_ends_one_session_of_the_key(backend: Backend) {
        let console = SignedIn::start(backend).await;
        let other = login(&console.app, &console.key).await.header("set-cookie").to_owned();
        let other = other.split(';').next().unwrap();
        // A page of another origin signs nobody out.
        let foreign = console.request(Method::POST, "/console/logout").header("origin", "https://evil.test");
        send(foreign).await.problem(403);
        send(console.request(Method::GET, "/whoami")).await.ok();
        let answer = send(console.request(Method::POST, "/console/logout").header("origin", console.origin())).await;
        let removal = answer.header("set-cookie");
        assert!(answer.status == 204 && removal.starts_with("toolpost_session=; Max-Age=0; Path=/"), "{removal}");
        // Whoever has copied the cookie has nothing.
        let copied = send(console.request(Method::GET, "/whoami")).await.problem(401);
        assert_eq!(copied["code"], "INVALID_KEY");
        send(console.app.request(Method::GET, "/whoami").header("cookie", other)).await.ok();
        assert_eq!(console.operator.get("/whoami").await.status, 200);
        let again = send(console.request(Method::POST, "/console/logout").header("origin", console.origin())).await;
        assert_eq!(again.status, 204);
    }
);

on_both_databases!(
    async fn sign_out_ends_the_streams_of_the_session_on_each_node(backend: Backend) {
        let console = SignedIn::start(backend).await;
        // SQLite has one node.
        let second = match backend {
            Backend::Sqlite => None,
            Backend::Postgres => Some(App::start_at(console.app.database_url(), Options::default()).await),
        };
        let stream = async |app: &App| {
            let answer = app.request(Method::GET, "/events").header("cookie", &console.cookie).send().await.unwrap();
            assert_eq!(answer.status(), 200);
            answer
        };
        let mut open = vec![stream(&console.app).await];
        if let Some(second) = &second {
            open.push(stream(second).await);
        }
        let kept = console.operator.request(Method::GET, "/events").send().await.unwrap();
        let answer = send(console.request(Method::POST, "/console/logout").header("origin", console.origin())).await;
        assert_eq!(answer.status, 204);
        for stream in open {
            bounded("the end of a stream", stream.bytes()).await.unwrap();
        }
        // A stream of the key itself continues.
        console.operator.call("echo", json!({})).await;
        let mut kept = kept;
        bounded("an event", async { while !kept.chunk().await.unwrap().unwrap().starts_with(b"id") {} }).await;
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn address_that_tries_invalid_keys_is_rejected() {
    let console = SignedIn::start(Backend::Sqlite).await;
    let (unused, _) = console.operator.key(json!({"scopes": ["read"]})).await;
    assert_eq!(console.operator.get("/tools").await.status, 200);
    for attempt in 0..10 {
        let answer = match attempt % 2 {
            0 => login(&console.app, &format!("tp_{attempt}")).await,
            _ => console.app.with_key(&format!("tp_{attempt}")).get("/tools").await,
        };
        assert_eq!(answer.problem(401)["code"], "INVALID_KEY", "{attempt}");
    }
    for (answer, what) in [
        (login(&console.app, "tp_10").await, "sign-in"),
        (login(&console.app, &unused).await, "sign-in with a key that was never used"),
        (console.app.with_key("tp_10").get("/tools").await, "invalid key"),
        (console.app.with_key(&unused).get("/tools").await, "key that was never used"),
    ] {
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait), "{what}");
        assert_eq!(answer.problem(429)["code"], "TOO_MANY_REQUESTS", "{what}");
    }
    // Callers whose keys are known continue, because they may share the address of a gateway.
    assert_eq!(console.operator.get("/tools").await.status, 200);
    send(console.request(Method::GET, "/tools")).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_service_says_so() {
    let app = App::on_sqlite().await;
    let me = app.get("/whoami").await.ok();
    assert_eq!((&me["open"], &me["key_id"]), (&json!(true), &Value::Null));
    let (key, _) = app.key(json!({"scopes": ["read"], "tools": ["echo"], "expires": "1d"})).await;
    app.get("/whoami").await.problem(401);
    let me = app.with_key(&key).get("/whoami").await.ok();
    assert_eq!((&me["scopes"], &me["tools"]), (&json!(["read"]), &json!(["echo"])));
    assert!(me["expires_at"].is_string());
}
