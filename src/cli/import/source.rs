//! Sources of documents: files, standard input and URLs.

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
        let error = CliError::usage(format!("cannot read {source}: {error}"));
        let is_folder = Path::new(source).is_dir();
        error.hint(if is_folder {
            "Name a file in this folder."
        } else {
            "Name a file, a URL, or - for standard input."
        })
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
    let mut response = client(TIMEOUT)?.get(url).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(CliError::unavailable(format!("{url} answered HTTP {}", response.status())));
    }
    let (from, mut bytes) = (response.url().clone(), Vec::new());
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > Bounds::OWN.bytes {
            return Err(CliError::usage(format!("{url} returned more than {} bytes", Bounds::OWN.bytes)));
        }
    }
    Ok(Document { bytes, url: Some(from) })
}

/// Joins an error with its causes.
pub fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
