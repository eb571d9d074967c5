//! `toolpost healthcheck`: whether a running service answers, for images that have no other program to ask with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use reqwest::redirect::Policy;

use super::error::CliError;
use super::options::{self, Options};
use super::{Exit, print};

/// Whom to ask.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to ask; /readyz says whether calls can be accepted. /healthz of the address that `serve` would listen on unless
    /// given
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    url: Option<String>,
    /// How long the answer may take, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    let url = match args.url {
        Some(url) => url,
        None => own(options)?,
    };
    let unasked = |error: reqwest::Error| CliError::unusable(format!("nothing can be asked: {error}"));
    let client = reqwest::Client::builder().no_proxy().redirect(Policy::none());
    let client = client.timeout(Duration::from_millis(args.timeout_ms)).build().map_err(unasked)?;
    let request = client.get(&url).build().map_err(|_| {
        CliError::usage(format!("\"{url}\" is no URL")).hint("Give one as in http://127.0.0.1:8080/healthz.")
    })?;
    Ok(match client.execute(request).await {
        Ok(answer) if answer.status().is_success() => {
            print::result(&format!("{url} answers {}", answer.status()))?;
            Exit::Success
        }
        Ok(answer) => is_unhealthy(&format!("{url} answers {}", answer.status())),
        Err(error) if error.is_timeout() => {
            is_unhealthy(&format!("{url} did not answer within {} ms", args.timeout_ms))
        }
        Err(error) => is_unhealthy(&format!("{url} does not answer: {}", innermost(&error.without_url()))),
    })
}

fn is_unhealthy(what: &str) -> Exit {
    print::note(what);
    Exit::Failure
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The service with the same settings.
fn own(options: &Options) -> Result<String, CliError> {
    let listen = match options::variable(&options::environment, "TOOLPOST_LISTEN") {
        Some(listen) => listen,
        None => options.quiet_settings()?.server.listen,
    };
    let address = reached_at(&listen).ok_or_else(|| {
        CliError::usage("the port of the service is not known: it picks a free one")
            .hint("Give --url, as in http://127.0.0.1:8080/healthz.")
    })?;
    Ok(format!("http://{address}/healthz"))
}

/// Where a service is reached that listens there; an unspecified address is reached at the loopback one.
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
    fn a_service_is_asked_where_it_listens() {
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
