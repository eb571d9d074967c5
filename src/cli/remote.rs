//! A client of a running service: `--server` and `--key`, requests, problems and event streams.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use reqwest::redirect::Policy;
use url::{Host, Url};

use super::error::CliError;
use super::options;
use crate::config::SecretString;

mod call;
mod events;
mod problem;
mod request;

pub use call::{CallView, EventData, content_lines};
pub use events::{ServiceEvent, StreamUpdate, Subscription};
pub use request::Query;

/// Timeout for the connection to the service.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time between two bytes of the service. Its streams send a comment every 15 seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of all commands that can talk to a running service.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Service")]
pub struct ServerArgs {
    /// Talk to the service at this URL instead of the database, such as `http://127.0.0.1:8080` or
    /// `https://example.com/toolpost` [env: TOOLPOST_SERVER]
    #[arg(long, global = true, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    server: Option<String>,
    /// Authenticate with this API key. Other users of this machine can see flags: prefer the variable [env:
    /// TOOLPOST_KEY]
    #[arg(long, global = true, value_name = "KEY", value_parser = secret)]
    key: Option<SecretString>,
}

/// Parses a key. The message is the same for all values, because it is printed.
fn secret(text: &str) -> Result<SecretString, String> {
    if text.trim().is_empty() { Err("a key must not be empty".to_owned()) } else { Ok(SecretString(text.to_owned())) }
}

impl ServerArgs {
    /// Returns the service, or `None` if none is set and the command works on the database.
    pub fn remote(&self) -> Result<Option<Remote>, CliError> {
        let Some(server) = self.server.clone().or_else(|| options::variable("TOOLPOST_SERVER")) else {
            return Ok(None);
        };
        let key = self.key.clone().or_else(|| options::variable("TOOLPOST_KEY").map(SecretString));
        Remote::new(&server, key).map(Some)
    }

    /// Returns the service for a command that cannot work on the database.
    pub fn required(&self, command: &str) -> Result<Remote, CliError> {
        self.remote()?.ok_or_else(|| {
            CliError::usage(format!("`toolpost {command}` requires a running service"))
                .hint("Name it with --server URL or TOOLPOST_SERVER, such as --server http://127.0.0.1:8080.")
        })
    }
}

/// A running service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Remote {
    client: reqwest::Client,
    /// The URL of the service; its path ends with a slash.
    base: Url,
    key: Option<SecretString>,
}

impl Remote {
    fn new(server: &str, key: Option<SecretString>) -> Result<Self, CliError> {
        let base = base_of(server)?;
        crate::executor::http::install_crypto_provider();
        // A redirect would lose the method or the key, so it is an error that names the other URL.
        let builder = reqwest::Client::builder().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        let builder = builder.read_timeout(READ_TIMEOUT).user_agent(concat!("toolpost/", env!("CARGO_PKG_VERSION")));
        // A proxy of the environment cannot reach a service on this machine.
        let builder = if is_on_this_machine(&base) { builder.no_proxy() } else { builder };
        let client = builder.build();
        let client = client.map_err(|error| CliError::unavailable(format!("cannot create an HTTP client: {error}")))?;
        Ok(Self { client, base, key })
    }

    /// Returns the URL of a path below the service. Each segment is encoded.
    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// Returns the URL of the service for messages, without credentials.
    pub fn name(&self) -> String {
        let mut shown = self.base.clone();
        // Fails only for URLs without a host.
        let _ = shown.set_username("").and_then(|()| shown.set_password(None));
        shown.as_str().trim_end_matches('/').to_owned()
    }
}

/// Parses the URL of a service, which can have a path prefix.
fn base_of(server: &str) -> Result<Url, CliError> {
    let invalid = || {
        // The URL is not quoted, because it could contain a password.
        CliError::usage("--server is not a valid http:// or https:// URL")
            .hint("Use the URL of the service, such as http://127.0.0.1:8080 or https://example.com/toolpost.")
    };
    let mut base = Url::parse(server.trim()).map_err(|_| invalid())?;
    if !matches!(base.scheme(), "http" | "https") || base.query().is_some() || base.fragment().is_some() {
        return Err(invalid());
    }
    if !base.path().ends_with('/') {
        let path = format!("{}/", base.path());
        base.set_path(&path);
    }
    Ok(base)
}

fn is_on_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(server: &str) -> Remote {
        Remote::new(server, None).unwrap()
    }

    #[test]
    fn paths_are_below_the_prefix_of_a_gateway() {
        for (server, url) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/tools/a"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/tools/a"),
            ("https://example.com/toolpost", "https://example.com/toolpost/tools/a"),
            ("https://example.com/x/toolpost/", "https://example.com/x/toolpost/tools/a"),
        ] {
            assert_eq!(remote(server).url(&["tools", "a"]).as_str(), url);
        }
        let id = "a/b ?#%é";
        assert_eq!(remote("http://h").url(&["sessions", id]).as_str(), "http://h/sessions/a%2Fb%20%3F%23%25%C3%A9");
    }

    #[test]
    fn wrong_urls_are_rejected_without_being_quoted() {
        for wrong in ["127.0.0.1:8080", "localhost:8080", "ftp://h", "http://h/?a=secret", "http://h/#a", "", "http://"]
        {
            let error = base_of(wrong).unwrap_err();
            assert_eq!(error.exit, super::super::Exit::Usage, "{wrong}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn password_and_key_are_not_shown() {
        let remote = Remote::new("http://ada:secret@h/p", Some(SecretString("tp_secret".into()))).unwrap();
        assert_eq!(remote.name(), "http://h/p");
        let args = ServerArgs { key: remote.key, ..ServerArgs::default() };
        assert!(!format!("{args:?}").contains("secret"));
    }
}
