//! Checks of the machine: listen address, open files, clock and trace collector.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use crate::config::Config;
use crate::domain::{Clock, Time};
use crate::telemetry::Tracer;
use crate::telemetry::metrics::process;

use super::super::serve;
use super::Finding;

/// Timeout of requests to other services.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Number of open files below which a service with many connections may run out of them.
const MIN_FILES: u64 = 4096;
/// Difference between clocks above which reported times are confusing, in milliseconds.
const WARN_MS: u64 = 2_000;
/// Maximum age of a signature that receivers accept (Standard Webhooks), in milliseconds.
const TOLERANCE_MS: u64 = 300_000;
/// 2025-01-01T00:00:00Z; an earlier clock was never set.
const NEVER_SET: Time = Time(1_735_689_600_000_000);

/// Checks that the address can be bound, and that `serve` would accept it: without keys, other machines must not reach
/// it.
pub async fn listen(config: &Config, has_keys: Option<bool>) -> Finding {
    let listen = &config.server.listen;
    let found = tokio::net::lookup_host(listen).await.map(Iterator::collect::<Vec<SocketAddr>>);
    let addresses = match found {
        Ok(addresses) if !addresses.is_empty() => addresses,
        Ok(_) => return Finding::fail(format!("\"{listen}\" has no address"), "Set an address and a port."),
        Err(error) => {
            let advice = "Set an address and a port, such as 127.0.0.1:8080 or [::1]:0.";
            return Finding::fail(format!("\"{listen}\": {error}"), advice);
        }
    };
    match std::net::TcpListener::bind(addresses.as_slice()) {
        Ok(_) if serve::is_exposed(&addresses).is_some() => exposed_address(config, has_keys),
        Ok(_) => Finding::ok(format!("{listen} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => match is_alive(&addresses).await {
            true => Finding::warn(
                format!("a service that responds to /healthz already listens on {listen}"),
                "Ignore this if it is the service that you are checking.",
            ),
            false => Finding::fail(
                format!("another program already listens on {listen}"),
                "Stop it, or choose another port with --listen (0 selects a free port).",
            ),
        },
        Err(error) => {
            let advice = match error.kind() {
                ErrorKind::PermissionDenied => "Ports below 1024 are privileged; choose a higher port.",
                _ => "Choose an address of this machine with --listen.",
            };
            Finding::fail(format!("{listen}: {error}"), advice)
        }
    }
}

/// Checks an address that other machines can reach.
fn exposed_address(config: &Config, has_keys: Option<bool>) -> Finding {
    let found = format!("{} is free and reachable from other machines", config.server.listen);
    if config.auth.insecure_no_auth {
        let found = format!("{found} without a key");
        return Finding::warn(
            found,
            "Omit --insecure-no-auth, unless everyone who can reach the service may run every tool.",
        );
    }
    if !config.auth.jwt.issuer.is_empty() {
        return Finding::ok(format!("{found} with a key or a token of the issuer"));
    }
    match has_keys {
        Some(true) => Finding::ok(format!("{found} with a key")),
        Some(false) => Finding::fail(
            format!("{found}, but no API keys exist: `serve` refuses to listen there"),
            "Create a key with `toolpost keys create --scope call`, or listen on 127.0.0.1.",
        ),
        None => Finding::warn(
            format!("{found}; whether API keys exist is unknown"),
            "Fix the database first: without keys `serve` refuses to listen there.",
        ),
    }
}

async fn is_alive(addresses: &[SocketAddr]) -> bool {
    let Some(client) = client() else { return false };
    for address in addresses {
        // A service on an unspecified address also listens on the loopback address.
        let address = match address.ip() {
            ip if ip.is_unspecified() && ip.is_ipv4() => SocketAddr::from(([127, 0, 0, 1], address.port())),
            _ => *address,
        };
        let answer = client.get(format!("http://{address}/healthz")).send().await;
        if answer.is_ok_and(|answer| answer.status().is_success() && answer.headers().contains_key("x-request-id")) {
            return true;
        }
    }
    false
}

fn client() -> Option<reqwest::Client> {
    reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none()).build().ok()
}

/// Checks that the limit of open files allows enough connections.
pub fn open_files() -> Finding {
    match process::stats().max_fds {
        Some(max) if max < MIN_FILES => Finding::warn(
            format!("{max} at most, including connections"),
            "Raise the limit: `ulimit -n 65536`, or LimitNOFILE= of the systemd unit.",
        ),
        Some(max) => Finding::ok(format!("{max} at most")),
        None => Finding::ok("without a limit"),
    }
}

/// Checks that the clock is plausible. `database` is the time of the database.
pub fn clock(database: Option<Time>) -> Finding {
    judged(Clock::system().now(), database)
}

fn judged(now: Time, database: Option<Time>) -> Finding {
    const ADVICE: &str = "Synchronize the clocks of this machine and of the database with NTP.";
    if now < NEVER_SET {
        return Finding::fail(format!("it says {now}"), ADVICE);
    }
    let Some(database) = database else { return Finding::ok(now.to_string()) };
    let apart_ms = now.millis_since(database).max(database.millis_since(now));
    let found = format!("{now}, {apart_ms} ms from the database's");
    match apart_ms {
        TOLERANCE_MS.. => Finding::fail(found, ADVICE),
        WARN_MS.. => Finding::warn(found, ADVICE),
        _ => Finding::ok(found),
    }
}

/// Checks that the configured trace collector accepts an empty request.
pub async fn traces(config: &Config) -> Option<Finding> {
    let endpoint = config.telemetry.otlp_endpoint.trim();
    if endpoint.is_empty() {
        return None;
    }
    if let Err(reason) = Tracer::new(&config.telemetry.otlp_endpoint, &config.telemetry.service_name) {
        return Some(Finding::fail(reason, "Fix `telemetry.otlp_endpoint` or OTEL_EXPORTER_OTLP_ENDPOINT."));
    }
    let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let request = client()?.post(&url).header("content-type", "application/x-protobuf").body(Vec::new());
    let advice = "Check that a collector accepts OTLP over HTTP there (often port 4318); calls run without it.";
    Some(match request.send().await {
        Ok(answer) if answer.status().is_success() => Finding::ok(format!("{endpoint} accepts traces")),
        Ok(answer) => Finding::warn(format!("{endpoint} responded with {}", answer.status()), advice),
        Err(error) => Finding::warn(format!("{endpoint}: {}", error.without_url()), advice),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn exposed_address_requires_keys_as_in_serve() {
        let mut config = Config::default();
        let status = |config: &Config| [Some(true), Some(false), None].map(|keys| exposed_address(config, keys).status);
        assert_eq!(status(&config), [Verdict::Ok, Verdict::Fail, Verdict::Warn]);
        "https://issuer.example".clone_into(&mut config.auth.jwt.issuer);
        assert_eq!(status(&config), [Verdict::Ok; 3]);
        config.auth.insecure_no_auth = true;
        assert_eq!(status(&config), [Verdict::Warn; 3]);
    }

    #[test]
    fn clock_is_compared_with_the_database() {
        let now = Time::parse("2026-03-01T00:00:00Z").unwrap();
        let status = |database| judged(now, database).status;
        assert_eq!(judged(Time(0), None).status, Verdict::Fail);
        assert_eq!((status(None), status(Some(now))), (Verdict::Ok, Verdict::Ok));
        assert_eq!(status(Some(now.plus_millis(WARN_MS))), Verdict::Warn);
        assert_eq!(status(Some(now.plus_millis(TOLERANCE_MS))), Verdict::Fail);
        assert_eq!(judged(now.plus_millis(TOLERANCE_MS), Some(now)).status, Verdict::Fail);
    }
}
