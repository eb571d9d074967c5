//! Checks of definitions beyond their JSON shape, at registration.

use url::Url;

use crate::domain::limits::LimitsSpec;
use crate::domain::tool::{RetryOverride, RetrySpec};
use crate::domain::{Groups, ToolDefinition, json, tool};
use crate::schema;

/// Maximum length of a title, in characters.
const LONGEST_TITLE: usize = 200;
/// Maximum number of attempts of one call.
const MOST_ATTEMPTS: u32 = 100;
/// Maximum time for which a result is cached: 30 days.
const LONGEST_TTL_MS: u64 = 30 * 24 * 3_600_000;
/// Maximum length of the name of a context object, in characters.
const LONGEST_CONTEXT_NAME: usize = 128;
/// Maximum declared wait between attempts: one hour.
const LONGEST_BACKOFF_MS: u64 = 3_600_000;
/// Range of the declared lifetime of a response of a `definition_url`: 100 milliseconds to one day.
const URL_TTL_MS: std::ops::RangeInclusive<u64> = 100..=86_400_000;
/// Maximum length of a `definition_url`, in bytes.
const LONGEST_URL: usize = 2048;

/// One fault of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// A pointer to the invalid part (RFC 6901).
    pub pointer: String,
    /// The fault and how to fix it.
    pub message: String,
}

impl Fault {
    /// Creates a fault.
    #[must_use]
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

/// Joins all faults in one line.
#[must_use]
pub fn summary(faults: &[Fault]) -> String {
    let lines: Vec<String> =
        faults.iter().map(|Fault { pointer, message }| format!("{}: {message}", json::place(pointer))).collect();
    lines.join("; ")
}

/// Checks everything about a definition that needs no schema compiler.
pub(super) fn definition(definition: &ToolDefinition) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !tool::is_valid_name(&definition.name) {
        let message = "must have 1 to 128 characters of A-Z, a-z, 0-9, `_`, `.` and `-`";
        faults.push(Fault::at("/name", message));
    }
    if definition.title.as_ref().is_some_and(|title| title.chars().count() > LONGEST_TITLE) {
        faults.push(Fault::at("/title", format!("must have at most {LONGEST_TITLE} characters")));
    }
    for (index, name) in definition.context.iter().enumerate() {
        let is_again = definition.context[..index].contains(name);
        if is_again || name.is_empty() || name.chars().count() > LONGEST_CONTEXT_NAME {
            let message =
                format!("must be the unique name of a context object, with 1 to {LONGEST_CONTEXT_NAME} characters");
            faults.push(Fault::at(format!("/context/{index}"), message));
        }
    }
    for (index, group) in definition.groups.iter().enumerate() {
        if !tool::is_valid_name(group) {
            let message = "a group name must have 1 to 128 characters of A-Z, a-z, 0-9, `_`, `.` and `-`";
            faults.push(Fault::at(format!("/groups/{index}"), message));
        }
    }
    faults.extend(definition_url(definition));
    if let Some(cache) = &definition.cache {
        if !definition.annotations.idempotent {
            let message = "is allowed only for a tool with `annotations.idempotent`; other tools are not retried";
            faults.push(Fault::at("/cache", message));
        }
        if !(1..=LONGEST_TTL_MS).contains(&cache.ttl_ms) {
            faults.push(Fault::at("/cache/ttl_ms", format!("must be 1 to {LONGEST_TTL_MS}")));
        }
    }
    let RetrySpec { max_attempts, initial_backoff_ms, max_backoff_ms, backoff_multiplier, jitter } = definition.retry;
    let retries = RetryOverride {
        max_attempts: Some(max_attempts),
        initial_backoff_ms: Some(initial_backoff_ms),
        max_backoff_ms: Some(max_backoff_ms),
        backoff_multiplier: Some(backoff_multiplier),
        jitter: Some(jitter),
    };
    faults.extend(
        retry(&retries).into_iter().map(|fault| Fault { pointer: format!("/retry{}", fault.pointer), ..fault }),
    );
    faults.extend(
        limits(&definition.limits)
            .into_iter()
            .map(|fault| Fault { pointer: format!("/limits{}", fault.pointer), ..fault }),
    );
    faults
}

/// Returns the faults of a definition's URL and of its lifetime.
fn definition_url(definition: &ToolDefinition) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some(text) = &definition.definition_url {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        match url {
            _ if text.len() > LONGEST_URL => {
                faults.push(Fault::at("/definition_url", format!("must have at most {LONGEST_URL} bytes")));
            }
            None => faults.push(Fault::at("/definition_url", "must be an http:// or https:// URL")),
            Some(url) if !url.username().is_empty() || url.password().is_some() => {
                faults.push(Fault::at("/definition_url", "must not contain a user or password"));
            }
            Some(_) => {}
        }
    }
    match definition.definition_ttl_ms {
        Some(_) if definition.definition_url.is_none() => {
            faults.push(Fault::at("/definition_ttl_ms", "is allowed only with a `definition_url`"));
        }
        Some(ttl) if !URL_TTL_MS.contains(&ttl) => {
            let message = format!("must be {} to {}", URL_TTL_MS.start(), URL_TTL_MS.end());
            faults.push(Fault::at("/definition_ttl_ms", message));
        }
        _ => {}
    }
    faults
}

/// Returns a fault for each unknown group. Other checks report invalid names.
#[must_use]
pub fn unknown_groups(named: &[String], groups: &Groups) -> Vec<Fault> {
    let is_unknown = |(_, name): &(usize, &String)| tool::is_valid_name(name) && !groups.contains_key(*name);
    let fault = |(place, name): (usize, &String)| {
        let nearest = schema::nearest(name, groups.keys().map(String::as_str));
        let hint = nearest.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
        Fault::at(format!("/groups/{place}"), format!("unknown group \"{name}\"{hint}"))
    };
    named.iter().enumerate().filter(is_unknown).map(fault).collect()
}

/// Returns the faults of declared retries, with pointers relative to them.
#[must_use]
pub fn retry(retry: &RetryOverride) -> Vec<Fault> {
    let mut faults = Vec::new();
    if retry.max_attempts.is_some_and(|attempts| !(1..=MOST_ATTEMPTS).contains(&attempts)) {
        faults.push(Fault::at("/max_attempts", format!("must be 1 to {MOST_ATTEMPTS}")));
    }
    for (pointer, wait) in
        [("/initial_backoff_ms", retry.initial_backoff_ms), ("/max_backoff_ms", retry.max_backoff_ms)]
    {
        if wait.is_some_and(|wait| wait > LONGEST_BACKOFF_MS) {
            faults.push(Fault::at(pointer, format!("must be at most {LONGEST_BACKOFF_MS}")));
        }
    }
    if retry.backoff_multiplier.is_some_and(|factor| !(1.0..=100.0).contains(&factor)) {
        faults.push(Fault::at("/backoff_multiplier", "must be 1 to 100"));
    }
    if retry.jitter.is_some_and(|jitter| !(0.0..=1.0).contains(&jitter)) {
        faults.push(Fault::at("/jitter", "must be 0 to 1"));
    }
    faults
}

/// Returns the faults of declared limits, with pointers relative to them.
#[must_use]
pub fn limits(limits: &LimitsSpec) -> Vec<Fault> {
    let mut faults = Vec::new();
    let least_one = [
        ("/timeout_ms", limits.timeout_ms),
        ("/idle_timeout_ms", limits.idle_timeout_ms),
        ("/queue_timeout_ms", limits.queue_timeout_ms),
        ("/max_concurrency", limits.max_concurrency.map(u64::from)),
        ("/max_output_bytes", limits.max_output_bytes),
        ("/max_output_lines", limits.max_output_lines),
    ];
    for (pointer, _) in least_one.into_iter().filter(|(_, value)| *value == Some(0)) {
        faults.push(Fault::at(pointer, "must be at least 1"));
    }
    // The API describes these members as `int64` and `int32`.
    let most = |pointer| if pointer == "/max_concurrency" { i64::from(i32::MAX) } else { i64::MAX }.unsigned_abs();
    for (pointer, _) in
        least_one.into_iter().filter(|(pointer, value)| value.is_some_and(|value| value > most(*pointer)))
    {
        faults.push(Fault::at(pointer, format!("must be at most {}", most(pointer))));
    }
    faults
}
