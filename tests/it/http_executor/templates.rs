//! `{placeholders}` in the URL, the headers, the query and the body.

use serde_json::{Value, json};

use crate::support::app::http_tool;
use crate::support::shapes::succeeded;
use crate::support::{Answer, App, Backend, HttpTool, ReceivedRequest};

/// Returns the request of a call whose tool has this executor. `{SERVER}` in the URL is the server's address.
async fn sent(executor: Value, arguments: Value) -> ReceivedRequest {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(Answer::text("ok")).await);
    let mut executor = executor;
    executor["url"] = server.url(executor["url"].as_str().unwrap()).into();
    app.register(http_tool("t", executor)).await;
    succeeded(&app.call("t", arguments).await);
    server.request()
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8().unwrap().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn path_argument_is_one_segment() {
    let request = sent(json!({"url": "/cities/{city}/weather", "method": "GET"}), json!({"city": "a/b c?d#é&%"})).await;
    assert_eq!(request.method, "GET");
    let segments: Vec<&str> = request.target.split('/').collect();
    assert_eq!((segments[1], segments[3], segments.len()), ("cities", "weather", 4), "{}", request.target);
    assert_eq!(percent_encoding::percent_decode_str(segments[2]).decode_utf8().unwrap(), "a/b c?d#é&%");
    assert!(!request.target.contains(['?', '#', ' ']), "{}", request.target);
}

#[tokio::test(flavor = "multi_thread")]
async fn path_argument_cannot_leave_its_segment() {
    for evil in ["..", "../../admin", ".", "..%2fadmin"] {
        let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(Answer::text("ok")).await);
        app.register(http_tool("t", json!({"url": server.url("/a/b/{x}/c"), "method": "GET"}))).await;
        app.call("t", json!({"x": evil})).await;
        let escaped = server.requests().into_iter().find(|request| !request.target.starts_with("/a/b/"));
        assert!(escaped.is_none(), "{evil}: {escaped:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn query_arguments_are_encoded() {
    let executor = json!({"url": "/search", "method": "GET", "query": {"q": "{text}", "n": "{n}", "fixed": "yes"}});
    let request = sent(executor, json!({"text": "a&b=c d+é#", "n": 5})).await;
    let (_, query) = request.target.split_once('?').unwrap();
    let pairs: Vec<(&str, String)> =
        query.split('&').map(|pair| pair.split_once('=').unwrap()).map(|(key, value)| (key, decoded(value))).collect();
    for pair in [("q", "a&b=c d+é#"), ("n", "5"), ("fixed", "yes")] {
        assert!(pairs.contains(&(pair.0, pair.1.to_owned())), "{pair:?} in {query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn query_arguments_in_the_url_are_encoded() {
    let request = sent(json!({"url": "/search?q={text}&x=1", "method": "GET"}), json!({"text": "a&b=c"})).await;
    let (_, query) = request.target.split_once('?').unwrap();
    assert_eq!(query.split('&').map(decoded).collect::<Vec<_>>(), ["q=a&b=c", "x=1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn header_takes_arguments() {
    let executor = json!({"url": "/", "headers": {"X-City": "in {city}", "X-Fixed": "yes"}});
    let request = sent(executor, json!({"city": "Rome"})).await;
    assert_eq!((request.header("x-city"), request.header("x-fixed")), ("in Rome", "yes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn header_argument_cannot_inject_headers() {
    let (app, server) = (App::with_egress(Backend::Sqlite).await, HttpTool::answering(Answer::text("ok")).await);
    app.register(http_tool("t", json!({"url": server.url("/"), "headers": {"X-City": "{city}"}}))).await;
    for evil in ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\u{0}"] {
        app.call("t", json!({"city": evil})).await;
    }
    assert!(server.requests().iter().all(|request| request.header("x-evil").is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn body_takes_arguments_as_json() {
    let executor =
        json!({"url": "/", "method": "PUT", "body": {"q": "{text}", "nested": [{"say": "«{text}»"}], "fixed": 1}});
    let text = "he said \"hi\"\n\\ 😀\u{0}";
    let request = sent(executor, json!({"text": text})).await;
    assert_eq!(request.method, "PUT");
    assert_eq!(request.json(), json!({"q": text, "nested": [{"say": format!("«{text}»")}], "fixed": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn argument_cannot_contain_placeholders() {
    let executor = json!({"url": "/", "body": {"a": "{a}", "b": "{b}"}});
    let request = sent(executor, json!({"a": "{b}", "b": "x"})).await;
    assert_eq!(request.json(), json!({"a": "{b}", "b": "x"}));
}
