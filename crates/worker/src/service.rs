//! The requests of a worker to the service.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, StatusCode, Url, redirect};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolpost_core::domain::Agent;
use uuid::Uuid;

use crate::output::ResultBody;
use crate::{FieldError, WorkerError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time for the answer to a claim, in addition to its own wait.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(30);
/// Below the time after which gateways close idle connections. A claim keeps its connection busy.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
const MAX_DETAIL_CHARS: usize = 500;

/// A request that has failed.
#[derive(Debug, Clone)]
pub(crate) enum RequestError {
    /// The service was not reached, or asks for another try.
    Unavailable {
        /// Description for the log.
        message: String,
        /// The delay that the service asks for.
        retry_after: Option<Duration>,
        /// Whether the service provably did not act on the request.
        is_unsent: bool,
    },
    /// The service refused the request.
    Refused(Refusal),
}

/// The response of a refused request (RFC 9457).
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Refusal {
    #[serde(skip)]
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) detail: String,
    #[serde(default)]
    pub(crate) errors: Vec<FieldError>,
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unavailable { message, .. } => formatter.write_str(message),
            Self::Refused(Refusal { status, code, detail, .. }) => write!(formatter, "{status} {code}: {detail}"),
        }
    }
}

impl RequestError {
    fn of_transport(error: &reqwest::Error) -> Self {
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(next) = cause {
            message.push_str(&format!(": {next}"));
            cause = next.source();
        }
        Self::Unavailable { message, retry_after: None, is_unsent: error.is_connect() }
    }

    /// Returns the error of a request whose effect is not known.
    pub(crate) fn lost(message: &str) -> Self {
        Self::Unavailable { message: message.to_owned(), retry_after: None, is_unsent: false }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            Self::Refused(_) => None,
        }
    }
}

impl From<Refusal> for WorkerError {
    fn from(refusal: Refusal) -> Self {
        let Refusal { status, code, detail, .. } = refusal;
        match status {
            401 | 403 => Self::KeyRefused { status, detail },
            _ => Self::Refused { status, code, detail },
        }
    }
}

/// A claimed call.
#[derive(Deserialize)]
pub(crate) struct ClaimedCall {
    pub(crate) id: Uuid,
    pub(crate) call_id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
    #[serde(default)]
    pub(crate) context: Map<String, Value>,
    #[serde(default)]
    pub(crate) agent: Option<Agent>,
    #[serde(default)]
    pub(crate) session: Option<String>,
    pub(crate) attempt: u32,
    pub(crate) deadline_ms: u64,
    pub(crate) lease_ms: u64,
    pub(crate) token: String,
}

#[derive(Deserialize)]
struct ClaimResponse {
    calls: Vec<ClaimedCall>,
}

/// The answer to a heartbeat: the calls that the worker no longer has.
#[derive(Debug, Deserialize)]
pub(crate) struct HeartbeatResponse {
    pub(crate) cancelled: Vec<Uuid>,
    pub(crate) lost: Vec<Uuid>,
}

#[derive(Deserialize)]
struct Receipt {
    #[serde(default)]
    ignored: bool,
}

/// The fate of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResultEffect {
    /// It is recorded.
    Recorded,
    /// It came too late to count.
    Ignored,
    /// The service cannot accept it now.
    Retry,
    /// The token is not valid for the call.
    Refused,
}

#[derive(Deserialize)]
struct Receipts {
    results: Vec<SharedReceipt>,
}

#[derive(Deserialize)]
struct SharedReceipt {
    outcome: ResultEffect,
}

/// The service, as one worker of one queue reaches it.
#[derive(Debug)]
pub(crate) struct Service {
    http: reqwest::Client,
    base: Url,
    key: Option<HeaderValue>,
    queue: String,
    worker: String,
}

impl Service {
    /// Creates a client of the service at `url`.
    pub(crate) fn new(url: &str, key: Option<&str>, queue: String, worker: String) -> Result<Self, WorkerError> {
        let invalid = |reason: String| WorkerError::InvalidUrl { url: url.to_owned(), reason };
        let base = Url::parse(url).map_err(|error| invalid(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(invalid("it must begin with http:// or https://".into()));
        }
        let key = key.map(|key| HeaderValue::try_from(format!("Bearer {key}"))).transpose();
        let key = key.map_err(|_| WorkerError::InvalidSetting("the key has characters that no key has".into()))?;
        install_crypto_provider();
        let http = reqwest::Client::builder()
            .user_agent(concat!("toolpost-rust-worker/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            // A redirected POST would become a GET.
            .redirect(redirect::Policy::none());
        // Without TLS, the system needs no root certificates.
        let http = if base.scheme() == "http" { http.tls_certs_only([]) } else { http }.build();
        let http = http.map_err(|error| WorkerError::Client(error.to_string()))?;
        Ok(Self { http, base, key, queue, worker })
    }

    /// Registers the tools of the worker.
    pub(crate) async fn register(&self, tools: &[Value]) -> Result<(), RequestError> {
        #[derive(Serialize)]
        struct Offer<'a> {
            worker: &'a str,
            tools: &'a [Value],
        }
        let request = self.request(Method::PUT, &["workers", &self.queue, "tools"]);
        let request = request.timeout(REQUEST_TIMEOUT).json(&Offer { worker: &self.worker, tools });
        self.send(request).await.map(drop)
    }

    /// Claims up to `max` calls, and waits for one if the queue is empty.
    pub(crate) async fn claim(&self, max: usize, wait: Duration) -> Result<Vec<ClaimedCall>, RequestError> {
        #[derive(Serialize)]
        struct Claim<'a> {
            worker: &'a str,
            max: usize,
            wait_ms: u64,
        }
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let request = self.request(Method::POST, &["workers", &self.queue, "claim"]).timeout(wait + CLAIM_TIMEOUT);
        let answer = self.send(request.json(&Claim { worker: &self.worker, max, wait_ms })).await?;
        Ok(read::<ClaimResponse>(&answer)?.calls)
    }

    /// Renews the leases of calls.
    pub(crate) async fn heartbeat(&self, calls: &[Uuid]) -> Result<HeartbeatResponse, RequestError> {
        #[derive(Serialize)]
        struct Heartbeat<'a> {
            worker: &'a str,
            calls: &'a [Uuid],
        }
        let request = self.request(Method::POST, &["workers", &self.queue, "heartbeat"]).timeout(HEARTBEAT_TIMEOUT);
        read(&self.send(request.json(&Heartbeat { worker: &self.worker, calls })).await?)
    }

    /// Posts a report of a call.
    pub(crate) async fn report(&self, call: &ClaimedCall, body: Vec<u8>) -> Result<(), RequestError> {
        self.send(self.of_call(call, "progress", "application/json", body)).await.map(drop)
    }

    /// Posts the result of a call. Returns `true` if it came too late to count.
    pub(crate) async fn result(&self, call: &ClaimedCall, body: &ResultBody) -> Result<bool, RequestError> {
        let request = self.of_call(call, "result", &body.media_type, body.bytes.clone());
        Ok(read::<Receipt>(&self.send(request).await?)?.ignored)
    }

    /// Posts results in one request: the id, the token and the JSON of each. Returns the effects in the same order.
    pub(crate) async fn results(&self, results: &[(Uuid, &str, &[u8])]) -> Result<Vec<ResultEffect>, RequestError> {
        let mut body = format!("{{\"worker\":{},\"results\":[", Value::from(self.worker.as_str())).into_bytes();
        for (index, (id, token, result)) in results.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            body.extend(format!("{separator}{{\"id\":\"{id}\",\"token\":{}", Value::from(*token)).into_bytes());
            if !result.is_empty() {
                body.extend(b",\"result\":");
                body.extend(*result);
            }
            body.push(b'}');
        }
        body.extend(b"]}");
        let request = self.request(Method::POST, &["workers", &self.queue, "results"]).timeout(REQUEST_TIMEOUT);
        let answer = self.send(request.header(CONTENT_TYPE, "application/json").body(body)).await?;
        Ok(read::<Receipts>(&answer)?.results.into_iter().map(|receipt| receipt.outcome).collect())
    }

    fn of_call(&self, call: &ClaimedCall, what: &str, media_type: &str, body: Vec<u8>) -> RequestBuilder {
        let url = self.url(&["tool-calls", &call.id.to_string(), what]);
        let request = self.http.post(url).timeout(REQUEST_TIMEOUT).bearer_auth(&call.token);
        request.header(CONTENT_TYPE, media_type).body(body)
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let request = self.http.request(method, self.url(path));
        match &self.key {
            Some(key) => request.header(AUTHORIZATION, key.clone()),
            None => request,
        }
    }

    /// Returns the address of a path, also below the prefix of a gateway.
    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    async fn send(&self, request: RequestBuilder) -> Result<Vec<u8>, RequestError> {
        let response = request.send().await.map_err(|error| RequestError::of_transport(&error))?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.bytes().await.map_err(|error| RequestError::of_transport(&error))?.to_vec();
        if status.is_success() {
            return Ok(body);
        }
        Err(refused(status, retry_after.map(Duration::from_secs), &body))
    }
}

/// Distinguishes a refusal from a response after which the request is sent again.
fn refused(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> RequestError {
    let text = || String::from_utf8_lossy(body).chars().take(MAX_DETAIL_CHARS).collect();
    let refusal = serde_json::from_slice(body).unwrap_or_else(|_| Refusal { detail: text(), ..Refusal::default() });
    let refusal = Refusal { status: status.as_u16(), ..refusal };
    let is_passing = matches!(refusal.status, 408 | 425 | 429) || status.is_server_error();
    if is_passing || refusal.code == "TOOL_CHANGED" {
        let is_unsent = matches!(refusal.status, 429 | 503);
        let message = RequestError::Refused(refusal).to_string();
        return RequestError::Unavailable { message, retry_after, is_unsent };
    }
    RequestError::Refused(refusal)
}

/// Reads an answer. Arguments may be nested as deeply as the service accepts them.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, RequestError> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    deserializer.disable_recursion_limit();
    T::deserialize(&mut deserializer).map_err(|error| {
        let message = format!("the answer is not that of a Toolpost service: {error}");
        RequestError::Unavailable { message, retry_after: None, is_unsent: false }
    })
}

/// Installs ring as the TLS provider of the process, once. Creating a client without a provider panics.
fn install_crypto_provider() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // An error means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(url: &str) -> Result<Service, WorkerError> {
        Service::new(url, Some("tp_key"), "q".into(), "w".into())
    }

    #[test]
    fn paths_are_below_the_prefix_of_the_address() {
        for (base, expected) in [
            ("http://host:1", "http://host:1/workers/q/claim"),
            ("https://host/a/b/", "https://host/a/b/workers/q/claim"),
            ("https://host/a", "https://host/a/workers/q/claim"),
        ] {
            assert_eq!(service(base).unwrap().url(&["workers", "q", "claim"]).as_str(), expected);
        }
    }

    #[test]
    fn invalid_addresses_are_errors() {
        for url in ["", "localhost:8080", "ftp://host", "http://", "mailto:a@b"] {
            assert!(matches!(service(url), Err(WorkerError::InvalidUrl { .. })), "{url}");
        }
    }

    #[test]
    fn only_passing_failures_are_retried() {
        let of = |status: u16, body: &str| refused(StatusCode::from_u16(status).unwrap(), None, body.as_bytes());
        for status in [408, 429, 500, 502, 503] {
            assert!(matches!(of(status, "{}"), RequestError::Unavailable { .. }), "{status}");
        }
        for status in [301, 400, 401, 403, 404, 409, 413, 422] {
            assert!(matches!(of(status, "<html>"), RequestError::Refused(_)), "{status}");
        }
        assert!(matches!(of(409, r#"{"code":"TOOL_CHANGED"}"#), RequestError::Unavailable { .. }));
        let RequestError::Refused(refusal) = of(401, r#"{"code":"UNAUTHORIZED","detail":"no key"}"#) else { panic!() };
        assert_eq!(WorkerError::from(refusal), WorkerError::KeyRefused { status: 401, detail: "no key".into() });
    }
}
