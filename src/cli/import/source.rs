//! Where a document is read from: a file, standard input, a URL.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use toolpost::executor::http::install_crypto_provider;
use toolpost::import::document::Bounds;
use url::Url;

use crate::cli::error::CliError;

/// How long a server has for a document.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most redirects on the way to a document.
const MOST_REDIRECTS: usize = 5;

/// A document as it was read.
#[derive(Debug)]
pub struct Document {
    pub bytes: Vec<u8>,
    /// Where it is from, after all redirects.
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
        let error = CliError::usage(format!("{source} cannot be read: {error}"));
        let is_folder = Path::new(source).is_dir();
        error.hint(if is_folder { "Name the document in it." } else { "Name a file, a URL, or - for standard input." })
    })?;
    Ok(Document { bytes, url: None })
}

/// One byte more than is allowed is enough to see that it is too much.
fn bounded(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(Bounds::OWN.bytes as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A client of the caller's own: what it may reach is the caller's business.
pub fn client(timeout: Duration) -> Result<reqwest::Client, CliError> {
    install_crypto_provider();
    let policy = reqwest::redirect::Policy::limited(MOST_REDIRECTS);
    let agent = concat!("toolpost/", env!("CARGO_PKG_VERSION"));
    let client = reqwest::Client::builder().redirect(policy).timeout(timeout).user_agent(agent).build();
    client.map_err(|error| CliError::unusable(format!("no HTTP client can be made: {error}")))
}

async fn fetch(url: &str) -> Result<Document, CliError> {
    let failed = |error: reqwest::Error| CliError::unusable(format!("{url} cannot be fetched: {}", causes(&error)));
    let mut response = client(PATIENCE)?.get(url).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(CliError::unusable(format!("{url} answered HTTP {}", response.status())));
    }
    let (from, mut bytes) = (response.url().clone(), Vec::new());
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > Bounds::OWN.bytes {
            return Err(CliError::usage(format!("{url} answers more than {} bytes", Bounds::OWN.bytes)));
        }
    }
    Ok(Document { bytes, url: Some(from) })
}

/// An error with what is behind it.
pub fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
