//! The client address in the log: taken from a trusted proxy, or else from the connection.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use super::nginx::Nginx;
use crate::support::{Backend, Node, bounded};

const NGINX: &str = "127.0.0.1";
/// A client address that differs from nginx and from the usual test client.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

async fn node(settings: &[(&str, &str)]) -> Node {
    let log = [("TOOLPOST__LOG__FORMAT", "json"), ("TOOLPOST__LOG__FILTER", "info,toolpost=debug")];
    Node::start(Backend::Sqlite, &[&log, settings].concat()).await
}

/// Sends a request from [`CLIENT`] whose headers all claim another address.
async fn ask(base: &str, request_id: &str) {
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).local_address(CLIENT).build().unwrap();
    let request = http
        .get(format!("{base}/tools"))
        .header("x-request-id", request_id)
        .header("x-forwarded-for", "203.0.113.9")
        .header("x-forwarded-for", "203.0.113.10, 127.0.0.1")
        .header("x-real-ip", "203.0.113.11")
        .header("forwarded", "for=203.0.113.12");
    assert_eq!(bounded("an answer", request.send()).await.unwrap().status(), 200);
}

/// Stops the node and returns the logged clients of these requests.
async fn clients<const N: usize>(mut node: Node, requests: [&str; N]) -> [String; N] {
    node.signal("TERM");
    let log = node.end().await.err;
    requests.map(|request| {
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut lines = lines.filter(|line| line["message"] == "answered" && line["request_id"] == request);
        let line = lines.next().unwrap_or_else(|| panic!("no line of {request} in {log}"));
        line["client"].as_str().unwrap_or_else(|| panic!("{line}")).to_owned()
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn only_a_trusted_proxy_determines_the_client() {
    let node = node(&[("TOOLPOST__SERVER__TRUSTED_PROXIES", NGINX)]).await;
    let nginx = Nginx::before(&node).await;
    ask(&nginx.url(), "through").await;
    ask(&node.url(""), "directly").await;
    assert_eq!(clients(node, ["through", "directly"]).await, [CLIENT.to_string(), CLIENT.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn client_of_an_untrusted_proxy_is_the_proxy() {
    let node = node(&[]).await;
    let nginx = Nginx::before(&node).await;
    ask(&nginx.url(), "through").await;
    ask(&node.url(""), "directly").await;
    assert_eq!(clients(node, ["through", "directly"]).await, [NGINX.to_owned(), CLIENT.to_string()]);
}
