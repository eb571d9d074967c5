//! Sources of documents: files, standard input and URLs.

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use crate::executor::http::install_crypto_provider;
use crate::import::document::Bounds;
use url::Url;

use crate::cli::error::CliError;

/// Timeout for fetching a document.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// The bytes of a document.
#[derive(Debug)]
pub struct Document {
    pub bytes: Vec<u8>,
    /// The URL of the document after all redirects.
    pub url: Option<Url>,
}

pub async fn read(source: &str) -> Result<Document, CliError> {
    if source.starts_with("http://") || source.starts_with("https://") {
        return fetch(source).await;
    }
    let bytes = match source {
        "-" => bounded(std::io::stdin().lock()),
        file => std::fs::File::open(file).and_then(bounded),
    };
    let bytes = bytes.map_err(|error| {
        let hint = match Path::new(source).is_dir() {
            true => "Name a file in this folder.",
            false => "Name a file, a URL, or - for standard input.",
        };
        CliError::usage(format!("cannot read {source}: {error}")).hint(hint)
    })?;
    Ok(Document { bytes, url: None })
}

/// Reads one byte more than allowed, so that the caller can detect a document that is too large.
fn bounded(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(Bounds::OWN.bytes as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates an HTTP client without egress rules, because it runs with the rights of the user.
pub fn client(timeout: Duration) -> Result<reqwest::Client, CliError> {
    install_crypto_provider();
    let policy = reqwest::redirect::Policy::limited(MAX_REDIRECTS);
    let agent = concat!("toolpost/", env!("CARGO_PKG_VERSION"));
    let client = reqwest::Client::builder().redirect(policy).timeout(timeout).user_agent(agent).build();
    client.map_err(|error| CliError::unavailable(format!("cannot create an HTTP client: {error}")))
}

async fn fetch(url: &str) -> Result<Document, CliError> {
    let failed = |error: reqwest::Error| CliError::unavailable(format!("cannot fetch {url}: {}", causes(&error)));
    let response = client(TIMEOUT)?.get(url).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(CliError::unavailable(format!("{url} answered HTTP {}", response.status())));
    }
    let from = response.url().clone();
    let bytes = body(response, Bounds::OWN.bytes).await.map_err(failed)?;
    let bytes =
        bytes.ok_or_else(|| CliError::usage(format!("{url} returned more than {} bytes", Bounds::OWN.bytes)))?;
    Ok(Document { bytes, url: Some(from) })
}

/// Reads a body; returns `None` if it has more than `limit` bytes.
pub async fn body(mut response: reqwest::Response, limit: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > limit {
            return Ok(None);
        }
    }
    Ok(Some(bytes))
}

/// Joins an error with its causes.
pub fn causes(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
