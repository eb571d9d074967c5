//! The fast path answers as rmcp does: each request goes both ways, and the responses are compared.

use axum::body::to_bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Request};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolpost::access::Access;
use toolpost::app::App;
use toolpost::config::Config;
use toolpost::mcp::{ClientContext, Endpoint, FastPath, Server, Settings};
use toolpost::memory::Footprint;

use super::{MODERN, modern, posted};
use crate::support::client::send;
use crate::support::{App as Service, Backend, Response};

mod cases;
mod tools;

pub use cases::Case;

/// Both ways of the same service.
pub struct BothWays {
    app: App,
    fast_path: FastPath,
    rmcp: Endpoint,
}

/// The status, the media type and the body of a response.
pub type Comparable = (u16, String, Value);

impl BothWays {
    pub async fn start(configure: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.store.database_url = "sqlite::memory:".to_owned();
        configure(&mut config);
        let builder = tools::tools().into_iter().fold(App::builder(config), |builder, tool| builder.tool(tool));
        let app = builder.start().await.expect("the service starts");
        let settings = Settings::default();
        let server = Server::new(&app);
        let fast_path = FastPath::new(server.clone());
        let rmcp = Endpoint::new(server, &app, &settings, CancellationToken::new());
        Self { app, fast_path, rmcp }
    }

    fn parts(&self, case: &Case) -> Parts {
        let mut request = Request::post("/mcp");
        for (name, value) in &case.headers {
            request = request.header(*name, value.as_slice());
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        let access = Access::operator(self.app.store.stores(), self.app.engine.registry());
        parts.extensions.insert(access);
        parts
    }

    /// Returns the response of the fast path, or `None` if it leaves the request to rmcp.
    pub async fn by_fast_path(&self, case: &Case) -> Option<Comparable> {
        let mut footprint = Footprint::default();
        let request = self.fast_path.read(&self.parts(case), &case.body.clone().into(), &mut footprint)?;
        let answer = self.fast_path.answer(request, footprint, None).await;
        Some((200, "application/json".to_owned(), without_id(&answer.json.joined())))
    }

    /// Returns the response of rmcp.
    pub async fn by_rmcp(&self, case: &Case) -> Comparable {
        let caller = ClientContext { bytes: case.body.len(), ..ClientContext::default() };
        let body = case.body.clone().into();
        let answer = self.rmcp.answer(self.parts(case), body, caller, Footprint::default()).await;
        let media_type = answer.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, media_type.unwrap_or_default(), without_id(&body))
    }

    /// Compares the responses to a request that the fast path answers.
    async fn compare(&self, case: &Case) -> Value {
        let seen = self.by_fast_path(case).await.unwrap_or_else(|| panic!("left to rmcp: {case:?}"));
        assert_eq!(seen, self.by_rmcp(case).await, "{case:?}");
        seen.2
    }
}

/// Parses a response without the id of its call. Texts that are not JSON stay as they are.
fn without_id(body: &[u8]) -> Value {
    let text = String::from_utf8_lossy(body).into_owned();
    let json: Value = serde_json::from_str(&text).unwrap_or_default();
    let id = json.pointer("/result/_meta/toolpost~1call_id").and_then(Value::as_str);
    assert_eq!(id.map_or(36, str::len), 36, "{text}");
    // A truncated output names the call, too.
    let text = id.map_or_else(|| text.clone(), |id| text.replace(id, "ID"));
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn fast_path_requests_equal_rmcp() {
    let ways = BothWays::start(|_| {}).await;
    for case in cases::taken() {
        ways.compare(&case).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fast_path_results_equal_rmcp() {
    let ways = BothWays::start(|_| {}).await;
    for case in cases::results() {
        let answer = ways.compare(&case).await;
        assert!(answer["result"]["content"].is_array() || answer["error"]["code"] == -32602, "{case:?}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusual_requests_are_left_to_rmcp() {
    let ways = BothWays::start(|_| {}).await;
    for case in cases::left() {
        let mut footprint = Footprint::default();
        let read = ways.fast_path.read(&ways.parts(&case), &case.body.clone().into(), &mut footprint);
        assert!(read.is_none(), "{case:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nesting_is_limited_as_by_rmcp() {
    let ways = BothWays::start(|_| {}).await;
    let mut taken = 0;
    for levels in 115..=130 {
        let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let case = Case::legacy("tools/call", &format!(r#"{{"name":"echo","arguments":{{"a":{nested}}}}}"#));
        match ways.by_fast_path(&case).await {
            Some(seen) => {
                assert_eq!(seen, ways.by_rmcp(&case).await, "{levels}");
                taken = levels;
            }
            None => assert_eq!(ways.by_rmcp(&case).await.0, 400, "{levels}"),
        }
    }
    assert!((115..130).contains(&taken), "{taken}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_those_of_rmcp() {
    let call = Case::legacy("tools/call", r#"{"name":"echo","arguments":{}}"#);
    let ways = BothWays::start(|config| config.server.max_in_flight_mib = 1).await;
    let mut large = Footprint::default();
    large.take(ways.app.engine.memory(), 128 * 1024).unwrap();
    let answer = ways.compare(&call).await;
    assert_eq!(answer["error"]["data"]["code"], "OVERLOADED", "{answer}");
    drop(large);
    ways.app.engine.drain(std::time::Duration::ZERO).await;
    let answer = ways.compare(&call).await;
    assert_eq!(answer["error"]["data"]["code"], "SHUTTING_DOWN", "{answer}");
}

/// Returns the headers of a response without its date and its id.
fn stable(answer: &Response) -> HeaderMap {
    let is_stable = |name: &HeaderName| !matches!(name.as_str(), "date" | "x-request-id");
    answer
        .headers
        .iter()
        .filter(|(name, _)| is_stable(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

on_both_databases!(
    async fn responses_have_the_same_headers_on_both_ways(backend: Backend) {
        let service = Service::start(backend).await;
        let call = json!({"name": "calculate", "arguments": {"expression": "6 * 7"}});
        let unknown = json!({"name": "nothing", "arguments": {}});
        for (method, params) in [("tools/call", &call), ("tools/call", &unknown), ("tools/list", &json!({}))] {
            let old = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params});
            let requests = [posted(&service, &old), modern(&service, method, params.clone(), json!({}))];
            for request in requests {
                let slow = request.try_clone().unwrap().build().unwrap();
                let mut slow = reqwest::RequestBuilder::from_parts(reqwest::Client::new(), slow).build().unwrap();
                // The weights change nothing, but the fast path does not read them.
                slow.headers_mut().insert("accept", "application/json;q=1, text/event-stream".parse().unwrap());
                let slow = send(reqwest::RequestBuilder::from_parts(reqwest::Client::new(), slow)).await;
                let fast = send(request).await;
                assert_eq!((fast.status, stable(&fast)), (slow.status, stable(&slow)), "{}", fast.text());
                assert_eq!(without_id(&fast.body), without_id(&slow.body));
            }
        }
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_recorded_as_any_other() {
    let service = Service::on_sqlite().await;
    let answer =
        send(modern(&service, "tools/call", json!({"name": "wait", "arguments": {"ms": "1"}}), json!({}))).await;
    assert_eq!(answer.header("content-type"), "application/json");
    let id = answer.ok()["result"]["_meta"]["toolpost/call_id"].clone();
    let stored = service.stored(id.as_str().unwrap()).await;
    assert_eq!((&stored["status"], &stored["arguments"]), (&json!("SUCCESS"), &json!({"ms": "1"})));
    let old =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait", "arguments": {"ms": 1}}});
    send(posted(&service, &old).header("mcp-protocol-version", "2025-06-18")).await.ok();
    assert_eq!(service.stats("wait").await["success_count"], 2);
    assert_eq!(MODERN, "2026-07-28");
}

#[tokio::test(flavor = "multi_thread")]
async fn list_follows_changes_of_the_tools() {
    let service = Service::on_sqlite().await;
    let list = || async {
        let list = send(modern(&service, "tools/list", json!({}), json!({}))).await.ok();
        list["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "new_tool")
    };
    assert!(!list().await);
    service.echo_of("new_tool", json!({})).await;
    assert!(list().await);
    service.delete("/tools/new_tool").await;
    assert!(!list().await);
}
