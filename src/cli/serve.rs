//! `toolpost serve`: the service until a signal.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;

use clap::builder::NonEmptyStringValueParser;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolpost::config::Config;
use toolpost::store::{Db, Stores};

use super::Exit;
use super::error::CliError;
use super::options::{self, Options};

/// What only the service is told.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen; 127.0.0.1:8080 unless given, and port 0 picks a free one [env: TOOLPOST_LISTEN]
    #[arg(long, value_name = "ADDR", value_parser = NonEmptyStringValueParser::new())]
    listen: Option<String>,
    /// Ask nobody for a key, also on an address that others can reach: everybody is the operator
    #[arg(long)]
    insecure_no_auth: bool,
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    let mut config = options.settings()?;
    if let Some(listen) = args.listen.or_else(|| options::variable(&options::environment, "TOOLPOST_LISTEN")) {
        config.server.listen = listen;
    }
    // The port is taken before the database is touched: a second service, started by mistake, changes nothing there.
    // Who connects meanwhile waits.
    let addresses = resolve(&config.server.listen).await?;
    config.auth.insecure_no_auth |= args.insecure_no_auth;
    let is_insecure = config.auth.insecure_no_auth;
    let listener = bind(&config.server.listen, &addresses).await?;
    require_auth_unless_loopback(&addresses, is_insecure, &config).await?;
    let address = listener.local_addr().map_err(|error| CliError::unusable(error.to_string()))?;
    let drain = CancellationToken::new();
    toolpost::lifecycle::on_signals(drain.clone())
        .map_err(|error| CliError::unusable(format!("signals cannot be heard: {error}")))?;
    let connections = config.server.max_connections;
    let app = tokio::select! {
        started = super::start(config) => started?,
        () = drain.cancelled() => return Ok(Exit::Success),
    };
    match app.auth.operator() {
        None => tracing::info!("callers have to show a key, or a token of the issuer"),
        Some(_) if is_insecure => tracing::warn!("open to everyone who can reach {address}: no API keys are asked for"),
        // `http::serve` closes it on any other address.
        Some(_) => tracing::warn!("open to everyone on this machine: there are no API keys; the first one closes it"),
    }
    // Files, the database and tools need some as well.
    let wanted = connections as u64 + 1000;
    if let Some(descriptors) = toolpost::lifecycle::raise_descriptors(wanted)
        && descriptors < wanted
    {
        tracing::warn!(
            descriptors,
            connections,
            "fewer file descriptors (ulimit -n) than server.max_connections needs"
        );
    }
    announce(address);
    toolpost::http::serve(app, listener, drain)
        .await
        .map_err(|error| CliError::unusable(format!("the server failed: {error}")))?;
    Ok(Exit::Success)
}

async fn resolve(listen: &str) -> Result<Vec<SocketAddr>, CliError> {
    let found = tokio::net::lookup_host(listen).await.map(Iterator::collect::<Vec<_>>);
    let reason = match found {
        Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
        Ok(_) => "it has no address".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(CliError::usage(format!("cannot listen on \"{listen}\": {reason}"))
        .hint("Give --listen an address and a port, as in 127.0.0.1:8080 or [::1]:0."))
}

/// Without keys, whoever reaches the port can run tools; so only this machine may reach it, unless told otherwise.
async fn require_auth_unless_loopback(
    addresses: &[SocketAddr],
    is_insecure: bool,
    config: &Config,
) -> Result<(), CliError> {
    let Some(address) = is_exposed(addresses).filter(|_| !is_insecure) else { return Ok(()) };
    if !config.auth.jwt.issuer.is_empty() || has_keys(&config.database_url()).await? {
        return Ok(());
    }
    let what = format!("{address} can be reached by others, and there are no API keys: everyone could run every tool");
    Err(CliError::usage(what).hint(
        "Make one with `toolpost keys create --scope call`, listen on 127.0.0.1 behind a gateway that knows who may call, \
         or say --insecure-no-auth if the network is safe.",
    ))
}

/// An address among these that is not this machine's alone.
pub(super) fn is_exposed(addresses: &[SocketAddr]) -> Option<&SocketAddr> {
    addresses.iter().find(|address| !is_loopback(address))
}

/// Only the store is needed: no tools are read, and nothing runs. Where there is no file yet, none is made.
async fn has_keys(database: &str) -> Result<bool, CliError> {
    if database == "sqlite::memory:" || Db::file(database).is_some_and(|file| !file.exists()) {
        return Ok(false);
    }
    let found = async {
        let stores = Stores::open(database).await?;
        let found = stores.has_keys().await;
        stores.close().await;
        found
    };
    found.await.map_err(|error| CliError::store(&error, database))
}

fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

async fn bind(listen: &str, addresses: &[SocketAddr]) -> Result<TcpListener, CliError> {
    TcpListener::bind(addresses).await.map_err(|error| {
        let way_out = match error.kind() {
            ErrorKind::AddrInUse => {
                "Stop what listens there, or choose another port with --listen (0 picks a free one)."
            }
            ErrorKind::PermissionDenied => "Ports below 1024 are the system's; choose a higher one with --listen.",
            _ => "Choose an address of this machine with --listen.",
        };
        CliError::unusable(format!("cannot listen on {listen}: {error}")).hint(way_out)
    })
}

/// The one line on standard output, for whoever waits for it.
fn announce(address: SocketAddr) {
    let mut out = std::io::stdout().lock();
    // A closed standard output is no reason not to serve.
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
    async fn only_this_machine_may_reach_a_service_without_keys() {
        assert!(!refused(&["127.0.0.1:0", "[::1]:0", "127.9.9.9:1", "[::ffff:127.0.0.1]:0"], false).await);
        for address in ["0.0.0.0:0", "[::]:0", "192.168.1.2:80", "[::ffff:10.0.0.1]:0"] {
            assert!(refused(&["127.0.0.1:0", address], false).await, "{address}");
            assert!(!refused(&[address], true).await, "{address}");
        }
    }

    #[tokio::test]
    async fn an_address_without_a_port_is_refused_with_the_way_out() {
        let error = resolve("127.0.0.1").await.unwrap_err().to_string();
        assert!(error.contains("\"127.0.0.1\"") && error.contains("127.0.0.1:8080"), "{error}");
    }
}
