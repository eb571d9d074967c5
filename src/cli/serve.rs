//! `toolpost serve`: runs the service until a signal.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;

use crate::app::{App, Builder};
use crate::config::Config;
use crate::store::Db;
use clap::builder::NonEmptyStringValueParser;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Exit;
use super::error::CliError;
use super::options::{self, Options};

/// Arguments of `toolpost serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Listen on this address; port 0 selects a free port [default: 127.0.0.1:8080] [env: TOOLPOST_LISTEN]
    #[arg(long, value_name = "ADDR", value_parser = NonEmptyStringValueParser::new())]
    listen: Option<String>,
    /// Disable authentication, even on a non-loopback address; every request acts as the operator
    #[arg(long)]
    insecure_no_auth: bool,
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    let mut config = options.settings()?;
    options::set_listen(&mut config, args.listen);
    config.auth.insecure_no_auth |= args.insecure_no_auth;
    until_signal(config, App::builder, |_, _| ()).await
}

/// Runs a service until a signal. `started` gets its address, and a token that is cancelled by the signal.
pub(super) async fn until_signal(
    config: Config,
    build: impl FnOnce(Config) -> Builder,
    started: impl FnOnce(SocketAddr, CancellationToken),
) -> Result<Exit, CliError> {
    // The port is bound before the database is opened, so that a second service started by mistake changes nothing
    // there. Connections wait until the start is complete.
    let addresses = resolve(&config.server.listen).await?;
    let is_insecure = config.auth.insecure_no_auth;
    let listener = bind(&config.server.listen, &addresses).await?;
    require_auth_unless_loopback(&addresses, is_insecure, &config).await?;
    let address = listener.local_addr().map_err(|error| CliError::unavailable(error.to_string()))?;
    let drain = CancellationToken::new();
    super::cancel_on_signals(&drain)?;
    let connections = config.server.max_connections;
    let app = tokio::select! {
        started = super::start(config, build) => started?,
        () = drain.cancelled() => return Ok(Exit::Success),
    };
    match app.auth.operator() {
        None => tracing::info!("authentication required: API keys or tokens of the configured issuer"),
        Some(_) if is_insecure => {
            tracing::warn!("authentication is disabled: anyone who can reach {address} is the operator")
        }
        // `http::serve` requires authentication on any other address.
        Some(_) => {
            tracing::warn!("no API keys exist: anyone on this machine is the operator until the first key is created")
        }
    }
    // Files, the database and tools need descriptors as well.
    let required = connections as u64 + 1000;
    if let Some(descriptors) = crate::lifecycle::raise_descriptors(required)
        && descriptors < required
    {
        tracing::warn!(
            descriptors,
            connections,
            "the limit of file descriptors (ulimit -n) is too low for server.max_connections"
        );
    }
    announce(address);
    started(address, drain.clone());
    crate::http::serve(app, listener, drain)
        .await
        .map_err(|error| CliError::unavailable(format!("the server failed: {error}")))?;
    Ok(Exit::Success)
}

async fn resolve(listen: &str) -> Result<Vec<SocketAddr>, CliError> {
    let found = tokio::net::lookup_host(listen).await.map(Iterator::collect::<Vec<_>>);
    let reason = match found {
        Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
        Ok(_) => "the host has no address".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(CliError::usage(format!("cannot listen on \"{listen}\": {reason}"))
        .hint("Set --listen to an address and a port, such as 127.0.0.1:8080 or [::1]:0."))
}

/// Refuses to start without API keys on an address that other machines can reach, unless authentication is disabled.
async fn require_auth_unless_loopback(
    addresses: &[SocketAddr],
    is_insecure: bool,
    config: &Config,
) -> Result<(), CliError> {
    let Some(address) = is_exposed(addresses).filter(|_| !is_insecure) else { return Ok(()) };
    if !config.auth.jwt.issuer.is_empty() || has_keys(config).await? {
        return Ok(());
    }
    let message =
        format!("{address} is reachable from other machines and there are no API keys: anyone could run any tool");
    Err(CliError::usage(message).hint(
        "Create a key with `toolpost keys create --scope call`, listen on 127.0.0.1 behind a gateway that \
         authenticates callers, or set --insecure-no-auth if the network is trusted.",
    ))
}

/// Returns the first address that other machines can reach.
pub(super) fn is_exposed(addresses: &[SocketAddr]) -> Option<&SocketAddr> {
    addresses.iter().find(|address| !address.ip().to_canonical().is_loopback())
}

/// Returns `true` if API keys exist. Creates no database file.
async fn has_keys(config: &Config) -> Result<bool, CliError> {
    let database = config.database_url();
    if database == "sqlite::memory:" || Db::file(&database).is_some_and(|file| !file.exists()) {
        return Ok(false);
    }
    super::query(config, async |stores| stores.has_keys().await).await
}

async fn bind(listen: &str, addresses: &[SocketAddr]) -> Result<TcpListener, CliError> {
    TcpListener::bind(addresses).await.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => {
                "Stop the program that listens there, or choose another port with --listen (0 selects a free port)."
            }
            ErrorKind::PermissionDenied => "Ports below 1024 are privileged; choose a higher port with --listen.",
            _ => "Choose an address of this machine with --listen.",
        };
        CliError::unavailable(format!("cannot listen on {listen}: {error}")).hint(hint)
    })
}

/// Prints the only line on standard output, for programs that wait for the start.
fn announce(address: SocketAddr) {
    let mut out = std::io::stdout().lock();
    // The service runs even if standard output is closed.
    let _ = writeln!(out, "toolpost listening on http://{address}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(addresses: &[&str], insecure: bool) -> bool {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let mut config = Config::default();
        config.store.database_url = "sqlite::memory:".into();
        require_auth_unless_loopback(&addresses, insecure, &config).await.is_err()
    }

    #[tokio::test]
    async fn exposed_service_without_keys_is_rejected() {
        assert!(!refused(&["127.0.0.1:0", "[::1]:0", "127.9.9.9:1", "[::ffff:127.0.0.1]:0"], false).await);
        for address in ["0.0.0.0:0", "[::]:0", "192.168.1.2:80", "[::ffff:10.0.0.1]:0"] {
            assert!(refused(&["127.0.0.1:0", address], false).await, "{address}");
            assert!(!refused(&[address], true).await, "{address}");
        }
    }

    #[tokio::test]
    async fn address_without_a_port_is_rejected_with_a_hint() {
        let error = resolve("127.0.0.1").await.unwrap_err().to_string();
        assert!(error.contains("\"127.0.0.1\"") && error.contains("127.0.0.1:8080"), "{error}");
    }
}
