//! Checks of definitions beyond their JSON shape, at registration.

use url::Url;

use toolpost_core::domain::approval::{ApprovalSpec, MAX_APPROVALS, MAX_EXPIRES_MS};
use toolpost_core::domain::budget::MAX_COST;
use toolpost_core::domain::limits::LimitsSpec;
use toolpost_core::domain::tool::{RetryOverride, RetrySpec, WorkerSpec};
use toolpost_core::domain::{Groups, ToolDefinition, json, tool};
use toolpost_core::schema;
use toolpost_tool::executor::http::check_url;

/// Maximum length of a title, in characters.
const LONGEST_TITLE: usize = 200;
/// Maximum number of attempts of one call.
const MAX_ATTEMPTS: u32 = 100;
/// Maximum time for which a result is cached: 30 days.
const LONGEST_TTL_MS: u64 = 30 * 24 * 3_600_000;
/// Maximum length of the name of a context object, in characters.
const LONGEST_CONTEXT_NAME: usize = 128;
/// Maximum declared wait between attempts: one hour.
const LONGEST_BACKOFF_MS: u64 = 3_600_000;
/// Range of the declared lifetime of a response of a `definition_url`: 100 milliseconds to one day.
const URL_TTL_MS: std::ops::RangeInclusive<u64> = 100..=86_400_000;
/// Range of the time for which a worker has a call without a heartbeat: one second to one hour.
const LEASE_MS: std::ops::RangeInclusive<u64> = 1000..=3_600_000;
/// Maximum length of a `definition_url`, in bytes.
const LONGEST_URL: usize = 2048;

/// An invalid field of a definition or of a request.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[schema(as = FieldError)]
pub struct Fault {
    /// The position in the body, as a JSON Pointer (RFC 6901).
    pub pointer: String,
    /// The reason why the field is invalid.
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
        faults.iter().map(|Fault { pointer, message }| format!("{}: {message}", json::pointer_text(pointer))).collect();
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
    let within = |member: &str, faults: Vec<Fault>| {
        let at = |Fault { pointer, message }| Fault::at(format!("{member}{pointer}"), message);
        faults.into_iter().map(at).collect::<Vec<_>>()
    };
    faults.extend(definition.approval.as_ref().map(|spec| within("/approval", approval(spec))).unwrap_or_default());
    if definition.cost.is_some_and(|cost| !(0.0..=MAX_COST).contains(&cost)) {
        faults.push(Fault::at("/cost", format!("must be 0 to {MAX_COST}")));
    }
    faults.extend(within("/retry", retry_spec(&definition.retry)));
    faults.extend(within("/limits", limits(&definition.limits)));
    faults
}

/// Returns the faults of the queue of a `worker` tool.
pub fn worker(spec: &WorkerSpec) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !tool::is_valid_name(&spec.queue) {
        let message = "must have 1 to 128 characters of A-Z, a-z, 0-9, `_`, `.` and `-`";
        faults.push(Fault::at("/executor/queue", message));
    }
    if !LEASE_MS.contains(&spec.lease_ms) {
        faults.push(Fault::at("/executor/lease_ms", format!("must be {} to {}", LEASE_MS.start(), LEASE_MS.end())));
    }
    faults
}

/// Returns the faults of a declared approval, with pointers relative to it.
fn approval(spec: &ApprovalSpec) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !(1..=MAX_EXPIRES_MS).contains(&spec.expires_ms) {
        faults.push(Fault::at("/expires_ms", format!("must be 1 to {MAX_EXPIRES_MS}")));
    }
    if !(1..=MAX_APPROVALS).contains(&spec.min_approvals) {
        faults.push(Fault::at("/min_approvals", format!("must be 1 to {MAX_APPROVALS}")));
    }
    if let Some(Err(message)) = spec.notify_url.as_deref().map(check_url) {
        faults.push(Fault::at("/notify_url", message));
    }
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
    let fault = |(index, name): (usize, &String)| {
        let nearest = schema::nearest(name, groups.keys().map(String::as_str));
        let hint = nearest.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
        Fault::at(format!("/groups/{index}"), format!("unknown group \"{name}\"{hint}"))
    };
    named.iter().enumerate().filter(is_unknown).map(fault).collect()
}

/// Returns the faults of retries that replace some of a tool's, with pointers relative to them.
#[must_use]
pub fn retry(retry: &RetryOverride) -> Vec<Fault> {
    retry_spec(&retry.over(&RetrySpec::default()))
}

fn retry_spec(retry: &RetrySpec) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !(1..=MAX_ATTEMPTS).contains(&retry.max_attempts) {
        faults.push(Fault::at("/max_attempts", format!("must be 1 to {MAX_ATTEMPTS}")));
    }
    for (pointer, wait) in
        [("/initial_backoff_ms", retry.initial_backoff_ms), ("/max_backoff_ms", retry.max_backoff_ms)]
    {
        if wait > LONGEST_BACKOFF_MS {
            faults.push(Fault::at(pointer, format!("must be at most {LONGEST_BACKOFF_MS}")));
        }
    }
    if !(1.0..=100.0).contains(&retry.backoff_multiplier) {
        faults.push(Fault::at("/backoff_multiplier", "must be 1 to 100"));
    }
    if !(0.0..=1.0).contains(&retry.jitter) {
        faults.push(Fault::at("/jitter", "must be 0 to 1"));
    }
    faults
}

/// Returns the faults of declared limits, with pointers relative to them.
#[must_use]
pub fn limits(limits: &LimitsSpec) -> Vec<Fault> {
    // The API describes these members as `int64` and `int32`.
    let (int32, int64) = (u64::from(i32::MAX.unsigned_abs()), i64::MAX.unsigned_abs());
    let members = [
        ("/timeout_ms", limits.timeout_ms, int64),
        ("/idle_timeout_ms", limits.idle_timeout_ms, int64),
        ("/queue_timeout_ms", limits.queue_timeout_ms, int64),
        ("/max_concurrency", limits.max_concurrency.map(u64::from), int32),
        ("/max_output_bytes", limits.max_output_bytes, int64),
        ("/max_output_lines", limits.max_output_lines, int64),
    ];
    let zero = members.iter().filter(|(_, value, _)| *value == Some(0));
    let large = members.iter().filter(|(_, value, max)| value.is_some_and(|value| value > *max));
    let at_least = zero.map(|(pointer, ..)| Fault::at(*pointer, "must be at least 1"));
    at_least.chain(large.map(|(pointer, _, max)| Fault::at(*pointer, format!("must be at most {max}")))).collect()
}
