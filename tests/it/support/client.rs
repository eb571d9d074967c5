//! A thin HTTP client of the service: JSON in; status, headers and JSON out.

use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{EventStream, bounded};

/// A client of one service. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
}

/// A complete response; `json` is null if the body is not JSON.
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub json: Value,
}

impl Client {
    pub fn new(base: &str) -> Self {
        // Only the first test can install it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self { http, base: base.trim_end_matches('/').to_owned() }
    }

    /// Returns a client of the same service that sends this key.
    pub fn with_key(&self, key: &str) -> Self {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, format!("Bearer {key}").parse().unwrap())]);
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).default_headers(headers).build().unwrap();
        Self { http, base: self.base.clone() }
    }

    /// Returns a client of the same service that opens a connection for each request.
    pub fn without_reuse(&self) -> Self {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).pool_max_idle_per_host(0).build().unwrap();
        Self { http, base: self.base.clone() }
    }

    /// Creates a key with the permissions of this client. Returns the key and its id.
    pub async fn key(&self, body: Value) -> (String, String) {
        let answer = self.post("/keys", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let text = |name: &str| answer.json[name].as_str().unwrap().to_owned();
        (text("key"), text("id"))
    }

    /// Returns the URL of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.url(path))
    }

    pub async fn get(&self, path: &str) -> Response {
        send(self.request(Method::GET, path)).await
    }

    /// Reads JSON. While a busy machine keeps the database from answering in time, it tries again.
    pub async fn read(&self, path: &str) -> Value {
        let read = async || Some(self.get(path).await).filter(|answer| answer.status != 503);
        super::eventually(path, read).await.ok()
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        send(self.request(Method::POST, path).json(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Response {
        send(self.request(Method::PUT, path).json(body)).await
    }

    pub async fn delete(&self, path: &str) -> Response {
        send(self.request(Method::DELETE, path)).await
    }

    /// Posts a raw body.
    pub async fn post_raw(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        send(self.request(Method::POST, path).header("content-type", "application/json").body(body)).await
    }

    /// Calls a tool and returns the ToolCall.
    pub async fn call(&self, name: &str, arguments: Value) -> Value {
        self.call_with(json!({"name": name, "arguments": arguments})).await
    }

    /// Sends a call as a full request body and returns the ToolCall.
    pub async fn call_with(&self, body: Value) -> Value {
        self.post("/tool-calls", &body).await.ok()
    }

    /// Sends a batch and returns its ToolCalls.
    pub async fn batch(&self, body: Value) -> Vec<Value> {
        let answer = self.post("/tool-calls", &body).await.ok();
        answer["results"].as_array().unwrap_or_else(|| panic!("no results in {answer}")).clone()
    }

    /// Returns the stored ToolCall.
    pub async fn stored(&self, id: &str) -> Value {
        self.read(&format!("/tool-calls/{id}")).await
    }

    pub async fn stats(&self, name: &str) -> Value {
        self.read(&format!("/tools/{name}/stats")).await
    }

    /// Opens an event stream.
    pub async fn events(&self, path: &str) -> EventStream {
        self.events_from(self.request(Method::GET, path)).await
    }

    /// Opens an event stream after the event `last`.
    pub async fn events_after(&self, path: &str, last: &str) -> EventStream {
        self.events_from(self.request(Method::GET, path).header("last-event-id", last)).await
    }

    /// Posts calls and reads their events from the response.
    pub async fn call_streamed(&self, body: &Value) -> EventStream {
        self.events_from(self.request(Method::POST, "/tool-calls").json(body)).await
    }

    pub async fn events_from(&self, request: RequestBuilder) -> EventStream {
        let request = request.header("accept", "text/event-stream");
        let answer = bounded("an event stream", request.send()).await.unwrap();
        assert_eq!(answer.status(), 200);
        let media_type = answer.headers()["content-type"].to_str().unwrap();
        assert!(media_type.starts_with("text/event-stream"), "{media_type}");
        assert!(answer.headers().contains_key("x-request-id"));
        EventStream::new(answer.bytes_stream())
    }
}

/// Sends a request and reads the complete response.
pub async fn send(request: RequestBuilder) -> Response {
    let whole = async {
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.bytes().await.unwrap().to_vec();
        let json = serde_json::from_slice(&body).unwrap_or_default();
        Response { status, headers, body, json }
    };
    bounded("an answer", whole).await
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn etag(&self) -> &str {
        let etag = self.header("etag");
        assert!(!etag.is_empty(), "no ETag in {:?}", self.headers);
        etag
    }

    /// Checks that the status is 200 and returns the JSON body.
    pub fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json
    }

    /// Checks that the response is a complete problem (RFC 9457) with this status, and returns it.
    pub fn problem(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.any_problem()
    }

    /// Checks as [`Response::problem`] for any status from 400 to 499.
    pub fn client_problem(self) -> Value {
        assert!((400..500).contains(&self.status), "{} {}", self.status, self.text());
        self.any_problem()
    }

    /// Checks as [`Response::problem`] for any error status.
    pub fn problem_of_any_status(self) -> Value {
        assert!(self.status >= 400, "{} {}", self.status, self.text());
        self.any_problem()
    }

    fn any_problem(self) -> Value {
        assert_eq!(self.header("content-type"), "application/problem+json");
        for text in ["type", "title", "detail", "code", "request_id"] {
            assert!(self.json[text].is_string(), "{text} in {}", self.text());
        }
        assert_eq!(self.json["status"], self.status);
        assert_eq!(self.json["request_id"], self.header("x-request-id"));
        self.json
    }
}
