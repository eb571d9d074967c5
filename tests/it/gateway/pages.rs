//! Links stay under the prefix, and rejections are problem documents, whether nginx or the service rejects.

use serde_json::json;
use url::Url;

use super::behind;
use crate::support::{App, Client};

/// Fetches the target of a link in a response.
async fn found(client: &Client, base: &Url, link: &str) -> String {
    let target = base.join(link).unwrap();
    assert!(target.path().starts_with("/toolpost/"), "{link} leads to {target}");
    let answer = client.get(target.path().trim_start_matches("/toolpost")).await;
    assert_eq!(answer.status, 200, "{target}");
    answer.text()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn documentation_page_works_under_the_prefix() {
    let (_app, nginx) = behind().await;
    let client = nginx.client();
    // The client follows `Location` as browsers do.
    let page = client.get("/docs").await;
    assert_eq!((page.status, &page.header("content-type")[..9]), (200, "text/html"));
    let base = Url::parse(&client.url("/docs/")).unwrap();
    let text = page.text();
    let links = regex::Regex::new(r#"(?:href|src)="([^"]+)""#).unwrap();
    let links: Vec<&str> = links.captures_iter(&text).map(|found| found.get(1).unwrap().as_str()).collect();
    assert!(links.len() >= 4, "{text}");
    let mut scripts = String::new();
    for link in links.into_iter().filter(|link| !link.starts_with("data:")) {
        let text = found(&client, &base, link).await;
        if link.contains("initializer") {
            scripts.push_str(&text);
        }
    }
    assert!(scripts.contains("\"../openapi.json\""), "{scripts}");
    let document = found(&client, &base, "../openapi.json").await;
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let server = Url::parse(&client.url("/openapi.json")).unwrap();
    let server = server.join(document["servers"][0]["url"].as_str().unwrap()).unwrap();
    found(&client, &server, "tools").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn location_leads_back_through_the_gateway() {
    let (_app, nginx) = behind().await;
    let client = nginx.client();
    // The calls have not ended when the response is sent.
    let wait = json!({"name": "wait", "arguments": {"ms": 60_000}, "wait": "accepted"});
    let batch = json!({"calls": [{"name": "wait", "arguments": {"ms": 60_000}}, {"name": "echo"}], "wait": "accepted"});
    for (path, body, status) in [
        ("/tool-calls", wait, 202),
        ("/tool-calls", batch, 202),
        ("/tools", crate::support::app::echo_tool("mine", json!({"type": "object"})), 201),
        ("/sessions", json!({}), 201),
    ] {
        let answer = client.post(path, &body).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        let location = answer.header("location");
        let behind = location.strip_prefix("/toolpost/").unwrap_or_else(|| panic!("{location}"));
        client.get(&format!("/{behind}")).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn bodies_are_bounded_by_the_service_and_not_by_nginx() {
    let (_app, nginx) = behind().await;
    let client = nginx.client();
    let call = |bytes: usize| json!({"name": "echo", "arguments": {"text": "x".repeat(bytes)}});
    let large = client.post("/tool-calls", &call(3 << 20)).await.ok();
    assert_eq!(large["status"], "SUCCESS");
    let problem = client.post("/tool-calls", &call(5 << 20)).await.problem(413);
    assert_eq!(problem["code"], "PAYLOAD_TOO_LARGE");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn clients_of_mcp_are_served_under_the_prefix() {
    let (_app, nginx) = behind().await;
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let headers = [("accept", "application/json, text/event-stream")];
    let answer = nginx.client().post_with("/mcp", &headers, &message).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("serverInfo"), "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn unavailable_service_is_a_problem() {
    let (app, nginx): (App, _) = behind().await;
    let client = nginx.client();
    client.get("/healthz").await.ok();
    drop(app);
    let problem = crate::support::eventually("the service's end", async || {
        let answer = client.get("/healthz").await;
        (answer.status == 502).then_some(answer)
    });
    assert_eq!(problem.await.problem(502)["code"], "GATEWAY");
}
