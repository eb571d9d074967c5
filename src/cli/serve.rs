//! `toolpost serve`: the service until a signal.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;

use clap::builder::NonEmptyStringValueParser;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Exit;
use super::error::CliError;
use super::options::{self, Options};

/// What only the service is told.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to listen; 127.0.0.1:8080 unless given, and port 0 picks a free one [env: TOOLPOST_LISTEN]
    #[arg(long, value_name = "ADDR", value_parser = NonEmptyStringValueParser::new())]
    listen: Option<String>,
    /// Listen on an address that others can reach although nobody has to show a key
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
    refuse_strangers(&addresses, args.insecure_no_auth)?;
    let listener = bind(&config.server.listen, &addresses).await?;
    let address = listener.local_addr().map_err(|error| CliError::unusable(error.to_string()))?;
    let drain = CancellationToken::new();
    toolpost::lifecycle::on_signals(drain.clone())
        .map_err(|error| CliError::unusable(format!("signals cannot be heard: {error}")))?;
    let connections = config.server.max_connections;
    let app = tokio::select! {
        started = super::start(config) => started?,
        () = drain.cancelled() => return Ok(Exit::Good),
    };
    if is_loopback(&address) {
        tracing::info!("open to everyone on this machine: this version has no API keys");
    } else {
        tracing::warn!("open to everyone who can reach {address}: this version has no API keys");
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
    Ok(Exit::Good)
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
fn refuse_strangers(addresses: &[SocketAddr], insecure_no_auth: bool) -> Result<(), CliError> {
    match addresses.iter().find(|address| !is_loopback(address)) {
        Some(address) if !insecure_no_auth => {
            let what = format!(
                "{address} can be reached by others, and this version has no API keys: everyone could run every tool"
            );
            Err(CliError::usage(what).hint(
                "Listen on 127.0.0.1 behind a gateway that knows who may call, or say --insecure-no-auth if the network is safe.",
            ))
        }
        _ => Ok(()),
    }
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

    fn refused(addresses: &[&str], insecure: bool) -> bool {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        refuse_strangers(&addresses, insecure).is_err()
    }

    #[test]
    fn only_this_machine_may_reach_a_service_without_keys() {
        assert!(!refused(&["127.0.0.1:0", "[::1]:0", "127.9.9.9:1", "[::ffff:127.0.0.1]:0"], false));
        for address in ["0.0.0.0:0", "[::]:0", "192.168.1.2:80", "[::ffff:10.0.0.1]:0"] {
            assert!(refused(&["127.0.0.1:0", address], false), "{address}");
            assert!(!refused(&[address], true), "{address}");
        }
    }

    #[tokio::test]
    async fn an_address_without_a_port_is_refused_with_the_way_out() {
        let error = resolve("127.0.0.1").await.unwrap_err().to_string();
        assert!(error.contains("\"127.0.0.1\"") && error.contains("127.0.0.1:8080"), "{error}");
    }
}
