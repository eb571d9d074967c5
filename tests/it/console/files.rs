//! The files of the page, at every path and below a prefix.

use std::fs;

use reqwest::{Method, redirect};
use serde_json::json;

use crate::gateway::Nginx;
use crate::support::client::send;
use crate::support::fixture::project_file;
use crate::support::{App, Client};

/// Returns the response to a browser that opens a page.
async fn opened(client: &Client, path: &str) -> (u16, String) {
    let browser = reqwest::Client::builder().redirect(redirect::Policy::none()).build().unwrap();
    let request = browser.get(client.url(path)).header("accept", "text/html,application/xhtml+xml");
    let response = request.send().await.unwrap();
    let location = response.headers().get("location").map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), location.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn root_redirects_browsers_to_the_console() {
    let app = App::on_sqlite().await;
    assert_eq!(opened(&app, "/").await, (302, "console/".to_owned()));
    app.get("/").await.problem(404);
    let (key, _) = app.key(json!({"scopes": ["read"]})).await;
    assert_eq!(opened(&app, "/").await, (302, "console/".to_owned()), "the page itself needs no key");
    assert_eq!(opened(&app, "/console").await.0, 200);
    assert_eq!(app.get("/tools").await.status, 401);
    assert_eq!(app.with_key(&key).get("/tools").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn each_screen_has_a_path_that_finds_its_files() {
    let app = App::on_sqlite().await;
    let nginx = Nginx::before(&app).await;
    let client = nginx.client();
    for path in [
        "/console",
        "/console/",
        "/console/calls",
        "/console/calls/tc_1",
        "/console/tools/fs.read_file.js",
        "/console/sign-in",
    ] {
        let page = client.get(path).await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        let text = page.text();
        let base = text.split_once("<base href=\"").and_then(|(_, rest)| rest.split_once('"')).expect("a base").0;
        let here = url::Url::parse(&client.url(path)).unwrap();
        let script = here.join(base).unwrap().join("app.js").unwrap();
        assert_eq!(script.path(), "/toolpost/console/app.js", "{path}");
        let answer = client.get("/console/app.js").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "text/javascript; charset=utf-8"));
    }
    client.get("/console/missing.js").await.problem(404);
    client.get("/console/lib/missing.js").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn page_may_load_only_files_of_the_service() {
    let app = App::on_sqlite().await;
    for path in ["/console/", "/console/app.js", "/console/style.css"] {
        let policy = app.get(path).await.header("content-security-policy").to_owned();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_sent_as_in_the_source_compressed_and_cached() {
    let app = App::on_sqlite().await;
    let plain = app.get("/console/app.js").await;
    let request = || app.request(Method::GET, "/console/app.js");
    let compressed = send(request().header("accept-encoding", "gzip")).await;
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert_eq!(compressed.header("etag"), plain.header("etag"));
    let mut text = String::new();
    let bytes = compressed.body.as_slice();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(bytes), &mut text).unwrap();
    assert_eq!(text, plain.text());
    assert_eq!(text, fs::read_to_string(project_file("console/app.js")).unwrap());
    let again = send(request().header("if-none-match", plain.header("etag"))).await;
    assert_eq!((again.status, again.text().as_str()), (304, ""));
}
