//! Tells the ends of calls to the URLs that their callers gave: signed (Standard Webhooks), at least once, with the same
//! event id on every try, until the end is taken or [`schedule::TRIES`] are used up.
//!
//! What is due stands in the database alone, so a crash loses nothing and any node goes on with it. A try holds a lease
//! that outlasts it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::domain::Clock;
use crate::executor::HttpClient;
use crate::executor::token::SigningKey;
use crate::store::Store;

mod attempt;
mod desk;
pub mod schedule;
mod slots;

use desk::Desk;

/// How often due callbacks are looked for without a kick: retries, and what a crash or another node left.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Longest URL, in characters.
const MAX_URL_CHARS: usize = 2048;

/// Sends callbacks. One per node.
#[derive(Debug)]
pub struct Callbacks {
    store: Store,
    client: HttpClient,
    key: SigningKey,
    clock: Clock,
}

impl Callbacks {
    /// A sender that is ready.
    #[must_use]
    pub fn new(store: Store, client: HttpClient, key: SigningKey, clock: Clock) -> Self {
        Self { store, client, key, clock }
    }

    /// Sends what is due until `stop`; then tries under way have a moment to end, and others take over what is left.
    /// `kick` says that a call with a callback has ended.
    pub async fn run(self, kick: Arc<Notify>, stop: CancellationToken) {
        let mut desk = Desk::new(self);
        let mut timer = tokio::time::interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut wanted, mut rested) = (false, Instant::now());
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = desk.one_ended() => wanted = true,
                () = kick.notified(), if !wanted => wanted = true,
                _ = timer.tick() => wanted = true,
                // A look is followed by a rest as long as itself: it never takes more than half of a connection.
                () = tokio::time::sleep_until(rested), if wanted => {
                    let began = Instant::now();
                    wanted = false;
                    desk.look().await;
                    rested = Instant::now() + began.elapsed();
                }
            }
        }
        desk.close().await;
    }
}

/// Checks a URL that a caller gives for a callback. Where it leads is judged when it is used.
///
/// # Errors
/// What is wrong with it.
pub fn check_url(text: &str) -> Result<(), String> {
    if text.chars().count() > MAX_URL_CHARS {
        return Err(format!("must have at most {MAX_URL_CHARS} characters"));
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("a URL has no blanks, control characters or backslashes".to_owned());
    }
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    if !["http", "https"].iter().any(|allowed| scheme.eq_ignore_ascii_case(allowed)) {
        return Err("must begin with http:// or https://".to_owned());
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("a user or password does not belong in the URL".to_owned());
    }
    // The parser would take the first segment of `http:///path` for the host.
    if authority.is_empty() {
        return Err("a URL needs a host".to_owned());
    }
    Url::parse(text).map(|_| ()).map_err(|error| format!("not a URL: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_goes_to_a_web_address_without_a_user() {
        let longest = format!("http://h/{}", "é".repeat(MAX_URL_CHARS - 9));
        for good in ["http://h", "HTTPS://Hooks.example.com:8443/a/b?c=d&e=%20#f", "http://[::1]:80/", &longest] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", "begin with http://"),
            ("h.example/x", "begin with http://"),
            ("ftp://h/", "begin with http://"),
            ("http:h", "begin with http://"),
            ("http://", "host"),
            ("http:///x", "host"),
            ("http://?x", "host"),
            ("http://u:p@h/", "user"),
            ("http://@h/", "user"),
            ("http://h\\@e/", "backslashes"),
            ("http://h/a b", "blanks"),
            ("http://h/\u{0}", "control"),
            ("http://h:99999/", "not a URL"),
            ("http://[::1/", "not a URL"),
            ("http://:80/", "not a URL"),
            (&format!("{longest}x"), "at most 2048"),
        ] {
            let told = check_url(bad).unwrap_err();
            assert!(told.contains(why), "{bad}: {told}");
        }
    }
}
