//! Responses to browsers, and limits for pages of other origins.

use reqwest::Method;
use serde_json::json;

use crate::support::client::send;
use crate::support::{App, Backend, Options, Response};

const PAGE: &str = "https://app.example.com";

async fn open_to_a_page() -> App {
    let configure: fn(&mut toolpost::config::Config) = |config| config.server.cors_origins = vec![PAGE.to_owned()];
    App::start_with(Backend::Sqlite, Options { configure: Some(configure), ..Options::default() }).await
}

async fn preflight(app: &App, origin: &str) -> Response {
    let question = app.request(Method::OPTIONS, "/tool-calls").header("origin", origin);
    let question = question.header("access-control-request-method", "POST");
    send(question.header("access-control-request-headers", "authorization, content-type, idempotency-key")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_states_its_media_type() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!({"a": 1})).await;
    let output = format!("/tool-calls/{}/output", call["id"].as_str().unwrap());
    for path in [
        "/tools",
        "/tool-calls",
        "/stats",
        "/healthz",
        "/nowhere",
        "/openapi.json",
        "/docs/",
        "/console/",
        "/console/lib/api.js",
        &output,
    ] {
        let answer = app.get(path).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        let is_console = path.starts_with("/console/");
        let referrers = if is_console { "same-origin" } else { "no-referrer" };
        assert_eq!(answer.header("referrer-policy"), referrers, "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin", "{path}");
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src '") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        let caching = answer.header("cache-control");
        let expected = match path {
            "/openapi.json" | "/docs/" | "/console/" | "/console/lib/api.js" => "no-cache",
            _ if !answer.header("etag").is_empty() => "private, no-cache",
            _ => "no-store",
        };
        assert_eq!(caching, expected, "{path}");
    }
    let problem = app.post_raw("/tool-calls", "{").await;
    assert_eq!((problem.status, problem.header("cache-control")), (400, "no-store"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_output_is_shown_in_a_sandbox() {
    let app = App::on_sqlite().await;
    let call = app.call("echo", json!({"a": "<script>"})).await;
    let answer = app.get(&format!("/tool-calls/{}/output", call["id"].as_str().unwrap())).await;
    assert!(answer.header("content-security-policy").contains("sandbox"));
}

#[tokio::test(flavor = "multi_thread")]
async fn documentation_page_obeys_its_content_policy() {
    let app = App::on_sqlite().await;
    let page = app.get("/docs/").await;
    let policy = page.header("content-security-policy").to_owned();
    assert!(policy.contains("default-src 'self'") && !policy.contains("script-src 'unsafe"), "{policy}");
    let text = page.text();
    let inline = text.split("<script").skip(1).filter(|part| !part.split('>').next().unwrap_or("").contains("src="));
    assert_eq!(inline.count(), 0, "{text}");
    assert!(!text.contains("http://") && !text.contains("https://"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unlisted_origin_cannot_read() {
    let app = App::on_sqlite().await;
    let answer = preflight(&app, PAGE).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (405, ""));
    let answer = send(app.request(Method::GET, "/tools").header("origin", PAGE)).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, ""));
    let app = open_to_a_page().await;
    for origin in ["https://other.example.com", "null", "http://app.example.com", "https://app.example.com.evil.org"] {
        assert_eq!(preflight(&app, origin).await.header("access-control-allow-origin"), "", "{origin}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_origin_can_call_read_and_resume() {
    let app = open_to_a_page().await;
    let answer = preflight(&app, PAGE).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, PAGE));
    assert!(answer.header("access-control-allow-methods").contains("PATCH"));
    for header in ["authorization", "last-event-id", "idempotency-key", "if-match", "prefer", "content-type"] {
        assert!(answer.header("access-control-allow-headers").split(',').any(|one| one.trim() == header), "{header}");
    }
    let call = app.request(Method::POST, "/tool-calls").header("origin", PAGE).header("sec-fetch-site", "cross-site");
    let answer = send(call.json(&json!({"name": "echo"}))).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, PAGE));
    assert_eq!(answer.header("cross-origin-resource-policy"), "cross-origin");
    assert!(answer.header("vary").contains("origin"));
    for header in ["etag", "idempotency-replayed", "location", "preference-applied", "retry-after", "x-request-id"] {
        assert!(answer.header("access-control-expose-headers").split(',').any(|one| one.trim() == header), "{header}");
    }
    let refused = send(app.request(Method::GET, "/tool-calls/x").header("origin", PAGE)).await;
    assert_eq!(refused.header("access-control-allow-origin"), PAGE, "problems can be read too");
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_origin_page_cannot_make_a_browser_change_anything() {
    let app = open_to_a_page().await;
    for from in ["cross-site", "same-site"] {
        let resume = app.request(Method::POST, "/tools/echo/resume").header("sec-fetch-site", from);
        let problem = send(resume.header("origin", "https://evil.example.org")).await.problem(403);
        assert_eq!(problem["code"], "CROSS_ORIGIN");
    }
    for from in ["same-origin", "none"] {
        let resume = app.request(Method::POST, "/tools/echo/resume").header("sec-fetch-site", from);
        assert!(send(resume).await.status < 300, "{from}");
    }
    let link = app.request(Method::GET, "/docs/").header("sec-fetch-site", "cross-site");
    assert_eq!(send(link).await.status, 200, "a link may lead here");
}

#[tokio::test(flavor = "multi_thread")]
async fn preflight_needs_no_key_and_rejections_are_readable() {
    let app = open_to_a_page().await;
    app.key(json!({"scopes": ["admin"]})).await;
    let answer = preflight(&app, PAGE).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, PAGE));
    let other = preflight(&app, "https://other.example.com").await;
    assert_eq!((other.status, other.header("access-control-allow-origin")), (401, ""));
    let refused = send(app.request(Method::GET, "/tools").header("origin", PAGE)).await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, PAGE));
}

/// Sends a ping to `/mcp` as a page of this origin, which the browser declares as cross-site.
async fn post_to_mcp(app: &App, origin: &str) -> Response {
    let ping = app.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    let ping = ping.header("origin", origin).header("sec-fetch-site", "cross-site");
    send(ping.json(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_judges_origins_itself_and_answers_with_the_same_headers() {
    const OF_MCP: &str = "https://agent.example.com";
    let configure: fn(&mut toolpost::config::Config) = |config| {
        config.server.cors_origins = vec![PAGE.to_owned()];
        config.mcp.allowed_origins = vec![format!("{OF_MCP}:443")];
    };
    let app = App::start_with(Backend::Sqlite, Options { configure: Some(configure), ..Options::default() }).await;
    for origin in [PAGE, OF_MCP] {
        let answer = post_to_mcp(&app, origin).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, origin));
        let question = app.request(Method::OPTIONS, "/mcp").header("origin", origin);
        let answer = send(question.header("access-control-request-method", "POST")).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, origin));
    }
    assert_eq!(preflight(&app, OF_MCP).await.header("access-control-allow-origin"), "", "for /mcp alone");
    let here = post_to_mcp(&app, "http://localhost:3000").await;
    assert_eq!((here.status, here.header("x-content-type-options")), (200, "nosniff"));
    for header in ["content-security-policy", "referrer-policy", "cross-origin-resource-policy", "cache-control"] {
        assert!(!here.header(header).is_empty(), "{header}");
    }
    for origin in ["https://evil.example.org", "null"] {
        let problem = post_to_mcp(&app, origin).await.problem(403);
        assert!(problem["detail"].as_str().unwrap().contains("allowed_origins"), "{problem}");
    }
    let nameless = app.request(Method::POST, "/mcp").header("sec-fetch-site", "cross-site");
    assert_eq!(send(nameless.json(&json!({}))).await.problem(403)["code"], "CROSS_ORIGIN");
}
