//! Requests to the service: JSON in and JSON out.

use std::time::Duration;

use reqwest::header::{ACCEPT, LOCATION};
use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Remote, problem};
use crate::cli::error::CliError;
use crate::domain::json;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum length of a response, in bytes.
const MAX_RESPONSE: usize = 256 * 1024 * 1024;

/// The parameters of a query, without missing ones.
#[derive(Debug, Default)]
pub struct Query(Vec<(&'static str, String)>);

impl Query {
    /// Adds a parameter, if it has a value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.0.extend(value.map(|value| (name, value.to_string())));
        self
    }
}

impl Remote {
    /// Sends `GET` and returns the JSON of the response.
    pub async fn get(&self, path: &[&str], query: &Query) -> Result<Value, CliError> {
        self.json(self.request(Method::GET, path, query)).await
    }

    /// Sends `GET` and returns the text of the response.
    pub async fn get_text(&self, path: &[&str], query: &Query) -> Result<String, CliError> {
        let bytes = self.bytes(self.request(Method::GET, path, query)).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends JSON with `POST` and returns the JSON of the response.
    pub async fn post(&self, path: &[&str], body: &Value) -> Result<Value, CliError> {
        self.json(self.request(Method::POST, path, &Query::default()).json(body)).await
    }

    /// Sends JSON with `PUT` and returns the JSON of the response.
    pub async fn put(&self, path: &[&str], body: &Value) -> Result<Value, CliError> {
        self.json(self.request(Method::PUT, path, &Query::default()).json(body)).await
    }

    /// Sends `DELETE`.
    pub async fn delete(&self, path: &[&str]) -> Result<(), CliError> {
        self.bytes(self.request(Method::DELETE, path, &Query::default())).await.map(drop)
    }

    /// Converts a response to its type.
    pub fn read<T: DeserializeOwned>(&self, value: Value) -> Result<T, CliError> {
        serde_json::from_value(value).map_err(|error| self.unexpected(&error.to_string()))
    }

    /// Takes a member out of a response and converts it to its type.
    pub fn member<T: DeserializeOwned>(&self, response: &mut Value, name: &str) -> Result<T, CliError> {
        self.read(response.get_mut(name).map(Value::take).unwrap_or_default())
    }

    /// Builds a request with the key.
    pub(super) fn request(&self, method: Method, path: &[&str], query: &Query) -> RequestBuilder {
        let mut url = self.url(path);
        if !query.0.is_empty() {
            url.query_pairs_mut().extend_pairs(&query.0);
        }
        let request = self.client.request(method, url);
        match &self.key {
            Some(key) => request.bearer_auth(&key.0),
            None => request,
        }
    }

    /// Sends a request. A response other than 2xx is an error.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, CliError> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if let Some(other) = response.headers().get(LOCATION).filter(|_| status.is_redirection()) {
            let other = json::shorten(&String::from_utf8_lossy(other.as_bytes()), 500);
            return Err(CliError::usage(format!("{} redirects to {other}", self.name()))
                .hint("Set --server (TOOLPOST_SERVER) to the URL of the service itself."));
        }
        let bytes = self.body(response).await?;
        Err(problem::error(status, &bytes, &self.name()))
    }

    async fn json(&self, request: RequestBuilder) -> Result<Value, CliError> {
        let bytes = self.bytes(request.header(ACCEPT, "application/json")).await?;
        json::parse(&bytes).map_err(|error| self.unexpected(&error.to_string()))
    }

    async fn bytes(&self, request: RequestBuilder) -> Result<Vec<u8>, CliError> {
        let response = self.send(request.timeout(TIMEOUT)).await?;
        self.body(response).await
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, CliError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_RESPONSE {
                return Err(self.unexpected(&format!("it has more than {MAX_RESPONSE} bytes")));
            }
        }
        Ok(bytes)
    }

    /// Returns the error for a response that is not from this service, or from a much newer one.
    pub(super) fn unexpected(&self, reason: &str) -> CliError {
        let reason = json::shorten(reason, 200);
        CliError::unavailable(format!("unexpected response of {}: {reason}", self.name()))
            .hint("Check that --server (TOOLPOST_SERVER) is the URL of the service, with its path prefix.")
    }

    /// Returns the error for a failed connection.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> CliError {
        let name = self.name();
        let message = if error.is_builder() {
            return CliError::usage("--key contains a character that an HTTP header cannot have");
        } else if error.is_timeout() {
            format!("{name} does not respond in time")
        } else {
            format!("cannot reach {name}: {}", innermost(error))
        };
        CliError::unavailable(message)
            .hint("Set --server (TOOLPOST_SERVER) to the URL that `toolpost serve` prints, and check that it runs.")
    }
}

fn innermost(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
