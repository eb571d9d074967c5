//! The machine and its surroundings: the address, open files, the clock, the collector.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use toolpost::config::Config;
use toolpost::domain::{Clock, Time};
use toolpost::telemetry::metrics::process;

use super::super::serve;
use super::Check;

/// How long somebody else may take to answer.
const ANSWER: Duration = Duration::from_secs(3);
/// Fewer open files than this are few for a service with connections.
const FEW_FILES: u64 = 4096;
/// Clocks that are further apart than this look odd in what is told.
const ODD_MS: u64 = 2_000;
/// Receivers refuse signatures that are older or newer than this (Standard Webhooks).
const TOLERANCE_MS: u64 = 300_000;
/// 2025-01-01T00:00:00Z: a clock before it was never set.
const NEVER_SET: Time = Time(1_735_689_600_000_000);

/// Whether the address can be listened at, and whether `serve` would: without keys, others must not reach it.
pub async fn listen(config: &Config, has_keys: Option<bool>) -> Check {
    const NAME: &str = "listen address";
    let listen = &config.server.listen;
    let found = tokio::net::lookup_host(listen).await.map(Iterator::collect::<Vec<SocketAddr>>);
    let addresses = match found {
        Ok(addresses) if !addresses.is_empty() => addresses,
        Ok(_) => return Check::fail(NAME, format!("\"{listen}\" has no address"), "Give an address and a port."),
        Err(error) => {
            let advice = "Give an address and a port, as in 127.0.0.1:8080 or [::1]:0.";
            return Check::fail(NAME, format!("\"{listen}\": {error}"), advice);
        }
    };
    match std::net::TcpListener::bind(addresses.as_slice()) {
        Ok(_) if serve::is_exposed(&addresses).is_some() => of_open(config, has_keys),
        Ok(_) => Check::ok(NAME, format!("{listen} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => match is_alive(&addresses).await {
            true => Check::warn(
                NAME,
                format!("a service that answers /healthz listens at {listen} already"),
                "If that is this one, all is well.",
            ),
            false => Check::fail(
                NAME,
                format!("something else listens at {listen} already"),
                "Stop it, or choose another port with --listen (0 picks a free one).",
            ),
        },
        Err(error) => {
            let advice = match error.kind() {
                ErrorKind::PermissionDenied => "Ports below 1024 are the system's; choose a higher one.",
                _ => "Choose an address of this machine with --listen.",
            };
            Check::fail(NAME, format!("{listen}: {error}"), advice)
        }
    }
}

/// An address that others can reach.
fn of_open(config: &Config, has_keys: Option<bool>) -> Check {
    const NAME: &str = "listen address";
    let found = format!("{} is free, and others can reach it", config.server.listen);
    if config.auth.insecure_no_auth {
        let found = format!("{found} without a key");
        return Check::warn(
            NAME,
            found,
            "Leave --insecure-no-auth out, unless everyone who reaches it may run every tool.",
        );
    }
    if !config.auth.jwt.issuer.is_empty() {
        return Check::ok(NAME, format!("{found} with a key, or a token of the issuer"));
    }
    match has_keys {
        Some(true) => Check::ok(NAME, format!("{found} with a key")),
        Some(false) => Check::fail(
            NAME,
            format!("{found}, but there are no API keys: `serve` refuses to listen there"),
            "Make one with `toolpost keys create --scope call`, or listen on 127.0.0.1.",
        ),
        None => Check::warn(
            NAME,
            format!("{found}; whether there are API keys is not known"),
            "Mend the database first: without keys `serve` refuses to listen there.",
        ),
    }
}

async fn is_alive(addresses: &[SocketAddr]) -> bool {
    let Some(client) = client() else { return false };
    for address in addresses {
        // An unspecified address is reached at the loopback one.
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
    reqwest::Client::builder().timeout(ANSWER).redirect(reqwest::redirect::Policy::none()).build().ok()
}

/// Whether there may be enough connections.
pub fn open_files() -> Check {
    const NAME: &str = "open files";
    match process::stats().max_fds {
        Some(most) if most < FEW_FILES => Check::warn(
            NAME,
            format!("{most} at most, connections included"),
            "Raise it: `ulimit -n 65536`, or LimitNOFILE= of the unit.",
        ),
        Some(most) => Check::ok(NAME, format!("{most} at most")),
        None => Check::ok(NAME, "without a limit"),
    }
}

/// Whether the clock can be right. `database` is what the database's says.
pub fn clock(database: Option<Time>) -> Check {
    judged(Clock::system().now(), database)
}

fn judged(now: Time, database: Option<Time>) -> Check {
    const NAME: &str = "clock";
    const ADVICE: &str = "Have it set by NTP, on this machine and on the database's.";
    if now < NEVER_SET {
        return Check::fail(NAME, format!("it says {now}"), ADVICE);
    }
    let Some(database) = database else { return Check::ok(NAME, now.to_string()) };
    let apart_ms = now.millis_since(database).max(database.millis_since(now));
    let found = format!("{now}, {apart_ms} ms from the database's");
    match apart_ms {
        TOLERANCE_MS.. => Check::fail(NAME, found, ADVICE),
        ODD_MS.. => Check::warn(NAME, found, ADVICE),
        _ => Check::ok(NAME, found),
    }
}

/// Whether the collector of traces takes an empty one, if there is to be one.
pub async fn traces(config: &Config) -> Option<Check> {
    const NAME: &str = "traces";
    let endpoint = config.telemetry.otlp_endpoint.trim();
    if endpoint.is_empty() {
        return None;
    }
    if let Err(reason) = toolpost::telemetry::Tracer::new(&config.telemetry) {
        return Some(Check::fail(NAME, reason, "Mend `telemetry.otlp_endpoint` or OTEL_EXPORTER_OTLP_ENDPOINT."));
    }
    let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let request = client()?.post(&url).header("content-type", "application/x-protobuf").body(Vec::new());
    let advice = "See that a collector takes OTLP over HTTP there (often port 4318); calls run without it.";
    Some(match request.send().await {
        Ok(answer) if answer.status().is_success() => Check::ok(NAME, format!("{endpoint} takes them")),
        Ok(answer) => Check::warn(NAME, format!("{endpoint} answers {}", answer.status()), advice),
        Err(error) => Check::warn(NAME, format!("{endpoint}: {}", error.without_url()), advice),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn an_address_that_others_reach_needs_keys_as_the_service_itself_says() {
        let mut config = Config::default();
        let status = |config: &Config| [Some(true), Some(false), None].map(|keys| of_open(config, keys).status);
        assert_eq!(status(&config), [Verdict::Ok, Verdict::Fail, Verdict::Warn]);
        "https://issuer.example".clone_into(&mut config.auth.jwt.issuer);
        assert_eq!(status(&config), [Verdict::Ok; 3]);
        config.auth.insecure_no_auth = true;
        assert_eq!(status(&config), [Verdict::Warn; 3]);
    }

    #[test]
    fn a_clock_is_judged_by_itself_and_by_the_databases() {
        let now = Time::parse("2026-03-01T00:00:00Z").unwrap();
        let status = |database| judged(now, database).status;
        assert_eq!(judged(Time(0), None).status, Verdict::Fail);
        assert_eq!((status(None), status(Some(now))), (Verdict::Ok, Verdict::Ok));
        assert_eq!(status(Some(now.plus_millis(ODD_MS))), Verdict::Warn);
        assert_eq!(status(Some(now.plus_millis(TOLERANCE_MS))), Verdict::Fail);
        assert_eq!(judged(now.plus_millis(TOLERANCE_MS), Some(now)).status, Verdict::Fail);
    }
}
