//! Tokens of an issuer: validation, subjects and tenants, and the lookup of the issuer's keys.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolpost::config::Config;

use crate::support::client::send;
use crate::support::shapes::succeeded;
use crate::support::{Answer, Client, HttpTool, ReceivedRequest};

/// Returns the Ed25519 key (RFC 8410) of this seed.
fn signing_key(seed: u8) -> EncodingKey {
    let mut der = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    der.extend([seed; 32]);
    EncodingKey::from_ed_der(&der)
}

fn public_key(seed: u8, name: &str) -> Value {
    let mut jwk = Jwk::from_encoding_key(&signing_key(seed), Algorithm::EdDSA).unwrap();
    jwk.common.key_id = Some(name.to_owned());
    serde_json::to_value(jwk).unwrap()
}

fn now() -> i64 {
    toolpost::domain::Clock::system().now().0 / 1_000_000
}

/// Returns a valid token with these changes to its claims. `null` removes a claim.
fn token(seed: u8, name: &str, change: Value) -> String {
    let mut claims = json!({"iss": "https://issuer.test", "aud": ["toolpost", "other"], "exp": now() + 600, "sub": "me",
        "org": "one", "scope": "openid call read"});
    claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let header = Header { kid: Some(name.to_owned()), ..Header::new(Algorithm::EdDSA) };
    jsonwebtoken::encode(&header, &claims, &signing_key(seed)).unwrap()
}

/// A service with a configured issuer, whose keys it fetches from `/keys`.
pub struct Service {
    client: Client,
    issuer: HttpTool,
    _stop: DropGuard,
}

async fn service(keys: impl Fn(usize) -> Value + Send + Sync + 'static) -> Service {
    let fetches = AtomicUsize::new(0);
    let issuer = HttpTool::start("127.0.0.1", move |_: &ReceivedRequest| {
        Answer::json(&keys(fetches.fetch_add(1, Ordering::Relaxed)))
    })
    .await;
    let (client, stop) = knowing(&issuer.url("/keys"), |_| {}).await;
    Service { client, issuer, _stop: stop }
}

/// Starts a service with other settings.
pub async fn tuned(configure: fn(&mut Config)) -> Service {
    let keys = |_: &ReceivedRequest| Answer::json(&json!({"keys": [public_key(1, "k1")]}));
    let issuer = HttpTool::start("127.0.0.1", keys).await;
    let (client, stop) = knowing(&issuer.url("/keys"), configure).await;
    Service { client, issuer, _stop: stop }
}

impl Service {
    /// Returns a client with a token of this subject.
    pub fn as_subject(&self, subject: &str) -> Client {
        self.client.with_key(&token(1, "k1", json!({"sub": subject})))
    }
}

/// Starts a service that fetches the issuer's keys from this URL.
async fn knowing(jwks_url: &str, configure: fn(&mut Config)) -> (Client, DropGuard) {
    let mut config = Config::default();
    config.store.database_url = "sqlite::memory:".into();
    // Tests send many invalid tokens.
    config.auth.failures = 0;
    let jwt = &mut config.auth.jwt;
    (jwt.issuer, jwt.audience) = ("https://issuer.test".into(), "toolpost".into());
    (jwt.jwks_url, jwt.tenant_claim) = (jwks_url.into(), "org".into());
    configure(&mut config);
    let app = toolpost::app::App::builder(config).start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()));
    let stop = CancellationToken::new();
    tokio::spawn(toolpost::http::serve(app, listener, stop.clone()));
    (client, stop.drop_guard())
}

#[tokio::test(flavor = "multi_thread")]
async fn token_of_the_issuer_is_a_caller_of_its_tenant() {
    let service = service(|_| json!({"keys": [public_key(1, "k1"), {"kty": "unknown", "kid": "x"}]})).await;
    let rejected = service.client.get("/tools").await;
    assert_eq!(rejected.problem(401)["code"], "UNAUTHORIZED");
    let one = service.client.with_key(&token(1, "k1", json!({})));
    let call = one.call("echo", json!({})).await;
    succeeded(&call);
    let path = format!("/tool-calls/{}", call["id"].as_str().unwrap());
    assert_eq!(one.get(&path).await.status, 200);
    let other = service.client.with_key(&token(1, "k1", json!({"org": "other", "scope": ["read", "x"]})));
    other.get(&path).await.problem(404);
    assert_eq!(other.post("/tool-calls", &json!({"name": "echo"})).await.problem(403)["code"], "SCOPE_MISSING");
    assert_eq!(service.issuer.requests().len(), 1, "its keys are kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_token_ends_its_streams() {
    let service = tuned(|config| config.auth.jwt.leeway_s = 0).await;
    let token = token(1, "k1", json!({"exp": now() + 4}));
    let mut events = service.client.with_key(&token).events("/events").await;
    assert_eq!(events.rest().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn ticket_ends_with_the_token_that_created_it() {
    let service = tuned(|config| config.auth.jwt.leeway_s = 0).await;
    let client = service.client.with_key(&token(1, "k1", json!({"exp": now() + 4})));
    let ticket = client.post("/events/ticket", &json!({"path": "/events"})).await.ok();
    let path = format!("/events?ticket={}", ticket["ticket"].as_str().unwrap());
    let mut events = service.client.events(&path).await;
    client.call("echo", json!({"m": 1})).await;
    events.until(|event| event.is_result()).await;
    assert_eq!(events.rest().await, []);
    service.client.get(&path).await.problem(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn console_session_of_a_token_has_its_permissions() {
    let service = tuned(|_| {}).await;
    let login = json!({"key": token(1, "k1", json!({"sub": "me"}))});
    let answer = service.client.post("/console/login", &login).await;
    let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
    let with_cookie = |method: Method, path: &str| {
        let request = service.client.request(method, path).header("cookie", &cookie);
        request.header("origin", service.client.url(""))
    };
    let me = send(with_cookie(Method::GET, "/whoami")).await.ok();
    assert_eq!((&me["tenant"], &me["scopes"], &me["open"]), (&json!("one"), &json!(["call", "read"]), &json!(false)));
    // A ticket that it requests belongs to the same subject.
    let request = with_cookie(Method::POST, "/events/ticket").json(&json!({"path": "/events"}));
    let ticket = send(request).await.ok();
    let mut events = service.client.events(&format!("/events?ticket={}", ticket["ticket"].as_str().unwrap())).await;
    let call = with_cookie(Method::POST, "/tool-calls").json(&json!({"name": "echo", "arguments": {}}));
    succeeded(&send(call).await.ok());
    events.until(|event| event.is_result()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_or_expired_tokens_are_rejected() {
    let service = service(|_| json!({"keys": [public_key(1, "k1")]})).await;
    let refused = async |token: String| {
        let problem = service.client.with_key(&token).get("/tools").await.problem(401);
        assert_eq!(problem["code"], "INVALID_KEY", "{problem}");
        problem["detail"].as_str().unwrap().to_owned()
    };
    for (change, word) in [
        (json!({"exp": now() - 100}), "expired"),
        (json!({"exp": null}), "lacks"),
        (json!({"nbf": now() + 100}), "not valid yet"),
        (json!({"aud": "another"}), "another service"),
        (json!({"aud": null}), "lacks"),
        (json!({"iss": "https://other.test"}), "another issuer"),
        (json!({"iss": null}), "lacks"),
        (json!({"org": null}), "tenant"),
        (json!({"org": 5}), "tenant"),
    ] {
        let detail = refused(token(1, "k1", change.clone())).await;
        assert!(detail.contains(word), "{change}: {detail}");
    }
    // The signature is from another key.
    refused(token(2, "k1", json!({}))).await;
    // Tokens without a signature, and with the public key as a shared secret.
    let claims = token(1, "k1", json!({})).split('.').nth(1).unwrap().to_owned();
    refused(format!("eyJhbGciOiJub25lIn0.{claims}.")).await;
    let public = public_key(1, "k1")["x"].as_str().unwrap().to_owned();
    let claims = json!({"iss": "https://issuer.test", "aud": "toolpost", "exp": now() + 600, "org": "one"});
    let header = Header { kid: Some("k1".into()), ..Header::new(Algorithm::HS256) };
    refused(jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(public.as_bytes())).unwrap()).await;
    for bad in ["", "x", "a.b.c", "sk-123", &"a.".repeat(2_000)] {
        let answer = service.client.with_key(bad).get("/tools").await;
        assert_eq!(answer.status, 401, "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_key_refetches_the_issuer_but_not_for_every_token() {
    // The issuer changes its keys after the first request.
    let keys = |fetch| if fetch == 0 { public_key(1, "k1") } else { public_key(2, "k2") };
    let service = service(move |fetch| json!({"keys": [keys(fetch)]})).await;
    assert_eq!(service.client.with_key(&token(1, "k1", json!({}))).get("/tools").await.status, 200);
    for name in ["k2", "k3", "k4"] {
        let refused = service.client.with_key(&token(2, name, json!({}))).get("/tools").await;
        assert_eq!(refused.problem(401)["code"], "INVALID_KEY");
    }
    assert_eq!(service.issuer.requests().len(), 1, "it was asked not long ago");
    assert_eq!(service.client.with_key(&token(1, "k1", json!({}))).get("/tools").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_issuer_is_not_blamed_on_the_token() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (client, _stop) = knowing(&format!("http://{free}/keys"), |_| {}).await;
    let answer = client.with_key(&token(1, "k1", json!({}))).get("/tools").await;
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.problem(503)["code"], "ISSUER_UNAVAILABLE");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_would_admit_everyone_are_rejected_at_start() {
    let start = async |change: fn(&mut Config)| {
        let mut config = Config::default();
        config.store.database_url = "sqlite::memory:".into();
        let jwt = &mut config.auth.jwt;
        (jwt.issuer, jwt.audience) = ("https://issuer.test".into(), "toolpost".into());
        jwt.jwks_url = "https://issuer.test/keys".into();
        change(&mut config);
        toolpost::app::App::builder(config).start().await.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(start(|config| config.auth.jwt.audience.clear()).await.contains("auth.jwt.audience"));
    assert!(start(|config| config.auth.jwt.algorithms = vec!["HS256".into()]).await.contains("auth.jwt.algorithms"));
    assert!(start(|config| config.auth.jwt.algorithms.clear()).await.contains("auth.jwt.algorithms"));
    assert!(start(|config| config.auth.jwt.jwks_url = "file:///etc/passwd".into()).await.contains("auth.jwt.jwks_url"));
}

#[tokio::test(flavor = "multi_thread")]
async fn subject_is_counted_across_its_tokens() {
    let service = tuned(|config| config.auth.jwt.rate = 2).await;
    let status = async |change: Value| {
        let client = service.client.with_key(&token(1, "k1", change));
        let answer = client.get("/stats").await;
        if answer.status == 429 {
            let seconds: u64 = answer.header("retry-after").parse().unwrap();
            assert!((1..=60).contains(&seconds), "{seconds}");
            assert_eq!(answer.problem(429)["code"], "TOO_MANY_REQUESTS");
            return 429;
        }
        answer.status
    };
    // New tokens of the same subject share its limit.
    for (exp, expected) in [(601, 200), (602, 200), (603, 429), (604, 429)] {
        assert_eq!(status(json!({"exp": now() + exp})).await, expected);
    }
    assert_eq!(status(json!({"sub": "you"})).await, 200);
    assert_eq!(status(json!({"org": "two"})).await, 200, "the same name at another tenant is somebody else");
    // Tokens without a subject share one limit.
    for expected in [200, 200, 429] {
        assert_eq!(status(json!({"sub": null})).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_claims_set_the_limits_of_its_subject() {
    let service = tuned(|config| {
        let jwt = &mut config.auth.jwt;
        (jwt.rate, jwt.rate_claim) = (1, "tp_rate".into());
        (jwt.concurrency, jwt.concurrency_claim) = (0, "tp_concurrency".into());
    })
    .await;
    let of = |change: Value| service.client.with_key(&token(1, "k1", change));
    let many = of(json!({"sub": "many", "tp_rate": 3, "tp_concurrency": 1}));
    for expected in [200, 200, 200, 429] {
        assert_eq!(many.get("/stats").await.status, expected);
    }
    let one_at_once = of(json!({"sub": "one", "tp_rate": 0, "tp_concurrency": 1}));
    let _only = one_at_once.events("/events").await;
    assert_eq!(one_at_once.get("/stats").await.problem(429)["code"], "TOO_MANY_REQUESTS");
    // A claim that is not a number is ignored.
    let odd = of(json!({"sub": "odd", "tp_rate": "many"}));
    for expected in [200, 429] {
        assert_eq!(odd.get("/stats").await.status, expected);
    }
}

/// Returns a token with this header and a valid signature.
fn token_with_header(header: &Value) -> String {
    let claims = token(1, "k1", json!({})).split('.').nth(1).unwrap().to_owned();
    let message = format!("{}.{claims}", BASE64_URL_SAFE_NO_PAD.encode(header.to_string()));
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &signing_key(1), Algorithm::EdDSA).unwrap();
    format!("{message}.{signature}")
}

#[tokio::test(flavor = "multi_thread")]
async fn token_with_a_critical_extension_is_rejected() {
    let service = service(|_| json!({"keys": [public_key(1, "k1")]})).await;
    let status = async |crit: Option<Value>| {
        let mut header = json!({"alg": "EdDSA", "typ": "JWT", "kid": "k1", "exp": now() + 600, "b64": true});
        if let Some(crit) = crit {
            header["crit"] = crit;
        }
        let answer = service.client.with_key(&token_with_header(&header)).get("/tools").await;
        if answer.status != 200 {
            assert_eq!(answer.problem(401)["code"], "INVALID_KEY");
            return 401;
        }
        answer.status
    };
    assert_eq!(status(None).await, 200, "the same token without it is accepted");
    for crit in
        [json!(["exp"]), json!(["b64"]), json!(["x"]), json!([]), json!("exp"), json!({"exp": 1}), json!([5]), json!(5)]
    {
        assert_eq!(status(Some(crit.clone())).await, 401, "{crit}");
    }
    // A `null` value is malformed, too.
    assert_eq!(status(Some(Value::Null)).await, 401);
}
