//! Import through a running service.

use std::time::Duration;

use crate::domain::json as reading;
use crate::import::Report;
use serde_json::{Value, json};

use super::Openapi;
use super::source::{self, Document};
use crate::cli::error::CliError;
use crate::cli::options::{environment, variable};

/// Timeout of the request.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum length of the response, in bytes.
const MAX_RESPONSE: usize = 16 * 1024 * 1024;

pub async fn import(service: &str, args: &Openapi, document: Document) -> Result<Report, CliError> {
    let text = String::from_utf8(document.bytes)
        .map_err(|_| CliError::usage(format!("{}: the document is not valid UTF-8", args.source)))?;
    let auth: Vec<String> = args.auth.iter().map(ToString::to_string).collect();
    let body = json!({
        "document": text, "url": document.url.as_ref().map(url::Url::as_str), "server": args.server, "auth": auth, "only": args.only,
        "prefix": args.prefix, "replace": args.replace, "dry_run": args.dry_run,
    });
    let url = format!("{}/imports/openapi", service.trim_end_matches('/'));
    let mut request = source::client(TIMEOUT)?.post(&url).json(&body);
    if let Some(key) = variable(&environment, "TOOLPOST_API_KEY") {
        request = request.bearer_auth(key);
    }
    let unreachable = |error: reqwest::Error| {
        CliError::unavailable(format!("cannot reach the service: {}", source::causes(&error)))
            .hint("Set --to to the address that `toolpost serve` prints, or omit it to use the database.")
    };
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_RESPONSE {
            return Err(CliError::unavailable(format!("{url} returned more than {MAX_RESPONSE} bytes")));
        }
    }
    if status.is_success() {
        let not_a_report = |_| CliError::unavailable(format!("{url} did not return a valid import report"));
        return serde_json::from_slice(&bytes).map_err(not_a_report);
    }
    let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or_default();
    let what = reading::shorten(&format!("the service returned HTTP {status}: {detail}"), 2000);
    Err(match status.as_u16() {
        413 => CliError::usage(what).hint("Omit --to to use the database, or write a file with --out."),
        400..500 => CliError::usage(what),
        _ => CliError::unavailable(what),
    })
}
