//! `toolpost healthcheck`: checks a running service, for container images without an HTTP client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use reqwest::redirect::Policy;

use super::error::CliError;
use super::options::{self, Options};
use super::{Exit, print};

/// Arguments of `toolpost healthcheck`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Request this URL, such as /readyz, which reports whether calls can be accepted [default: /healthz at the address
    /// that `serve` would listen on]
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    url: Option<String>,
    /// Wait at most this many milliseconds for a response
    #[arg(long, value_name = "MS", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    let url = match args.url {
        Some(url) => url,
        None => own(options)?,
    };
    let client = reqwest::Client::builder().no_proxy().redirect(Policy::none());
    let client = client.timeout(Duration::from_millis(args.timeout_ms)).build();
    let client = client.map_err(|error| CliError::unavailable(format!("cannot create an HTTP client: {error}")))?;
    let request = client.get(&url).build().map_err(|_| {
        CliError::usage(format!("\"{url}\" is not a valid URL"))
            .hint("Use a URL such as http://127.0.0.1:8080/healthz.")
    })?;
    let fault = match client.execute(request).await {
        Ok(answer) if answer.status().is_success() => {
            print::result(&format!("{url} responded with {}", answer.status()))?;
            return Ok(Exit::Success);
        }
        Ok(answer) => format!("{url} responded with {}", answer.status()),
        Err(error) if error.is_timeout() => format!("{url} did not respond within {} ms", args.timeout_ms),
        Err(error) => format!("{url} does not respond: {}", innermost(&error.without_url())),
    };
    print::note(&fault);
    Ok(Exit::Failure)
}

fn innermost(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Returns the URL of the service with the same settings.
fn own(options: &Options) -> Result<String, CliError> {
    let listen = match options::variable("TOOLPOST_LISTEN") {
        Some(listen) => listen,
        None => options.quiet_settings()?.server.listen,
    };
    let address = reached_at(&listen).ok_or_else(|| {
        CliError::usage("the port is unknown because `server.listen` uses port 0")
            .hint("Set --url, such as http://127.0.0.1:8080/healthz.")
    })?;
    Ok(format!("http://{address}/healthz"))
}

/// Returns the address of a service with this listen address; an unspecified address becomes the loopback address.
fn reached_at(listen: &str) -> Option<String> {
    let Ok(address) = listen.parse::<SocketAddr>() else { return (!listen.ends_with(":0")).then(|| listen.to_owned()) };
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    (address.port() != 0).then(|| SocketAddr::new(ip, address.port()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_derived_from_the_listen_address() {
        for (listen, reached) in [
            ("127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("0.0.0.0:8080", Some("127.0.0.1:8080")),
            ("[::]:8080", Some("[::1]:8080")),
            ("192.0.2.7:80", Some("192.0.2.7:80")),
            ("localhost:8080", Some("localhost:8080")),
            ("127.0.0.1:0", None),
            ("localhost:0", None),
        ] {
            assert_eq!(reached_at(listen).as_deref(), reached, "{listen}");
        }
    }
}
