//! Importing by a running service.

use std::time::Duration;

use serde_json::{Value, json};
use toolpost::domain::json as reading;
use toolpost::import::Report;

use super::Openapi;
use super::source::{self, Document};
use crate::cli::error::CliError;
use crate::cli::options::{environment, variable};

/// How long a service may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Most bytes of its answer.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

pub async fn import(service: &str, asked: &Openapi, document: Document) -> Result<Report, CliError> {
    let text = String::from_utf8(document.bytes)
        .map_err(|_| CliError::usage(format!("{}: the document is not UTF-8", asked.source)))?;
    let auth: Vec<String> = asked.auth.iter().map(ToString::to_string).collect();
    let body = json!({
        "document": text, "url": document.url.as_ref().map(url::Url::as_str), "server": asked.server, "auth": auth, "only": asked.only,
        "prefix": asked.prefix, "replace": asked.replace, "dry_run": asked.dry_run,
    });
    let url = format!("{}/imports/openapi", service.trim_end_matches('/'));
    let mut request = source::client(PATIENCE)?.post(&url).json(&body);
    if let Some(key) = variable(&environment, "TOOLPOST_API_KEY") {
        request = request.bearer_auth(key);
    }
    let unreachable = |error: reqwest::Error| {
        CliError::unusable(format!("the service cannot be asked: {}", source::causes(&error)))
            .hint("Give --to the address that `toolpost serve` prints, or leave it out to use the database.")
    };
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LARGEST_ANSWER {
            return Err(CliError::unusable(format!("{url} answers more than {LARGEST_ANSWER} bytes")));
        }
    }
    if status.is_success() {
        let not_a_report = |_| CliError::unusable(format!("{url} answered something that is no report of an import"));
        return serde_json::from_slice(&bytes).map_err(not_a_report);
    }
    let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or_default();
    let what = reading::shorten(&format!("the service answered HTTP {status}: {detail}"), 2000);
    Err(match status.as_u16() {
        413 => CliError::usage(what).hint("Leave --to out to use the database, or write a file with --out."),
        400..500 => CliError::usage(what),
        _ => CliError::unusable(what),
    })
}
