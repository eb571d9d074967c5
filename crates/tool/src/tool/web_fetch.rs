//! `web_fetch`: fetches a web page in a form that a model can read, through the guard for outgoing connections.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use url::Url;

use super::{DefinitionBuilder, InvalidArgument, Run, Tool, ToolError, object};
use crate::executor::HttpClient;
use crate::executor::http::{Fault, Page};
use toolpost_core::domain::truncation::grouped;
use toolpost_core::domain::{ContentBlock, Outcome};

mod convert;
mod kind;
mod preflight;

use kind::Kind;

/// Maximum size of a page, in bytes.
const MAX_PAGE_BYTES: usize = 5 * 1024 * 1024;

/// Limits concurrent conversions, which need much memory and time.
static CONVERSIONS: Semaphore = Semaphore::const_new(2);

/// The tool `web_fetch` with the HTTP client that all tools share, and its guard.
#[derive(Debug, Clone)]
pub struct WebFetch(pub HttpClient);

/// Fetches a URL with GET and returns its content: a web page as Markdown, as plain text or as its HTML; JSON and other
/// text unchanged; an image as an image. Redirects are followed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebFetchArgs {
    /// The URL, starting with http:// or https://.
    #[schemars(length(min = 1, max = 8192))]
    pub url: String,
    /// The format in which to return a web page.
    #[serde(default)]
    pub format: Format,
}

/// The format in which to return a web page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Format {
    /// Markdown with headings, links and tables.
    #[default]
    Markdown,
    /// Only the text.
    Text,
    /// The unchanged HTML.
    Html,
}

impl Tool for WebFetch {
    const NAME: &'static str = "web_fetch";
    type Args = WebFetchArgs;
    type Output = Outcome;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Fetch a web page")
            .category("web")
            .tag("http")
            .example(json!({"url": "https://example.com/"}), "# Example Domain\n\nThis domain is for use in…")
            .example(json!({"url": "https://api.example.com/items.json"}), "{\"items\":[]}")
            .read_only()
    }

    fn validate(&self, args: &WebFetchArgs) -> Result<(), Vec<InvalidArgument>> {
        address(&args.url).map(drop).map_err(|message| vec![InvalidArgument::at("/url", message)])
    }

    async fn call(&self, args: WebFetchArgs, run: Run) -> Result<Outcome, ToolError> {
        let url = address(&args.url)?;
        let page = self.0.page(url, MAX_PAGE_BYTES).await.map_err(|Fault { message, retryable, .. }| {
            let error = ToolError::new(message);
            if retryable { error.retryable() } else { error }
        })?;
        // The semaphore is never closed.
        let permit = CONVERSIONS.acquire().await;
        run.blocking(move |_| {
            // Held until the conversion is done, even if the call has ended before.
            let _permit = permit;
            outcome(page, args.format)
        })
        .await
    }
}

/// Parses and checks a URL.
fn address(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text.trim()).map_err(|error| {
        format!("is not a valid URL ({error}); give the full URL, as in \"https://example.com/page\"")
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("is {}: only http: and https: can be fetched", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user name or a password".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// Converts a page to the outcome.
fn outcome(page: Page, format: Format) -> Result<Outcome, ToolError> {
    let mut details = object([
        ("url", json!(page.url.as_str())),
        ("status", json!(page.status)),
        ("content_type", json!(page.media_type)),
        ("bytes", json!(page.bytes.len())),
    ]);
    let outcome = match Kind::of(&page) {
        Kind::Html => {
            let html = kind::decode(&page);
            if let Some(title) = convert::title(&html) {
                details.insert("title".to_owned(), title.into());
            }
            Outcome::text(match format {
                Format::Html => html,
                Format::Markdown | Format::Text => {
                    preflight::check(&html).map_err(|preflight::TooComplex| {
                        let hint = "fetch it unchanged with \"format\": \"html\"";
                        ToolError::new(format!("the page is too large or too deeply nested to be converted; {hint}"))
                    })?;
                    convert::convert(&html, format == Format::Text)?
                }
            })
        }
        Kind::Text => Outcome::text(kind::decode(&page)),
        Kind::Image => {
            let data = STANDARD.encode(&page.bytes);
            Outcome::blocks(vec![ContentBlock::Image { data, mime_type: page.media_type }])
        }
        Kind::Other => {
            let what = if page.media_type.is_empty() { "of an unknown type" } else { &page.media_type };
            let bytes = grouped(page.bytes.len());
            let message =
                format!("{} is {what} ({bytes} bytes); only web pages, text, JSON and images can be read", page.url);
            return Err(ToolError::new(message));
        }
    };
    Ok(Outcome { details, ..outcome })
}

#[cfg(test)]
mod tests;
