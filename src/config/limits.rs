//! Every limit that can be set: what it bounds, and what becomes of more. The reference in `docs/limits.md` is made of it.

use std::fmt::Write;

use serde_json::Value;

use super::Config;

/// What becomes of what is beyond a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitAction {
    /// It is refused with this status and this code.
    Reject(u16, &'static str),
    /// The call ends with this code.
    EndCall(&'static str),
    /// Something else, in words.
    Other(&'static str),
}

/// A limit.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Its setting.
    pub setting: &'static str,
    /// What it bounds.
    pub bounds: &'static str,
    /// What becomes of more.
    pub beyond: LimitAction,
}

const fn limit(setting: &'static str, bounds: &'static str, beyond: LimitAction) -> Limit {
    Limit { setting, bounds, beyond }
}

use LimitAction::{EndCall, Other, Reject};

/// Connections are closed without a word where nobody has asked anything.
const CLOSED: LimitAction = Other("the connection is closed");
const FORGOTTEN: LimitAction = Other("it is forgotten");
const KILLED: LimitAction = Other("the kernel refuses it, or the program is ended; the call ends as the program does");

/// All of them.
pub const CATALOG: &[Limit] = &[
    limit("server.max_connections", "Connections at once", Reject(503, "OVERLOADED")),
    limit("server.idle_timeout_ms", "How long a connection may ask nothing", CLOSED),
    limit("server.header_timeout_ms", "How long the headers of a request may take", Reject(408, "REQUEST_TIMEOUT")),
    limit("server.max_header_bytes", "Address and headers of a request", Reject(431, "REQUEST_HEAD_TOO_LARGE")),
    limit("server.body_timeout_ms", "How long a request body may take", Reject(408, "REQUEST_TIMEOUT")),
    limit("server.max_body_bytes", "A request body, but of an import", Reject(413, "PAYLOAD_TOO_LARGE")),
    limit("server.max_batch_calls", "Calls of one request", Reject(413, "BATCH_TOO_LARGE")),
    limit("server.write_timeout_ms", "How long a client may read nothing of what there is for it", CLOSED),
    limit("server.max_in_flight_mib", "Memory of all calls on their way", Reject(503, "OVERLOADED")),
    limit("server.max_backlog", "Calls at once that wait to be recorded", Reject(503, "OVERLOADED")),
    limit("server.burst", "The same in a rush", Reject(503, "OVERLOADED")),
    limit("server.burst_ms", "How long a rush may last", Reject(503, "OVERLOADED")),
    limit("server.drain_ms", "How long running calls may take to end when the service stops", EndCall("SHUTTING_DOWN")),
    limit("store.patience_ms", "How long a caller waits for a database that is away", Reject(503, "STORE_UNAVAILABLE")),
    limit("queue.max_length", "Accepted calls that nobody waits for", Reject(503, "OVERLOADED")),
    limit(
        "queue.max_running",
        "Those of them that run at once",
        Other("it waits for its place, as long as `queue_timeout_ms`"),
    ),
    limit("limits.timeout_ms", "An attempt of a call, unless it is declared", EndCall("TOOL_TIMEOUT")),
    limit("limits.async_timeout_ms", "The same of an `async` tool", EndCall("TOOL_TIMEOUT")),
    limit("limits.idle_timeout_ms", "Silence of a running call, unless it is declared", EndCall("TOOL_TIMEOUT")),
    limit("limits.queue_timeout_ms", "Wait for a place, unless it is declared", EndCall("TOOL_TIMEOUT")),
    limit("limits.max_timeout_ms", "What can be declared as `timeout_ms`", Other("this holds instead")),
    limit(
        "limits.max_output_bytes",
        "What a model is shown of an output",
        Other("it is cut; the whole is kept and served"),
    ),
    limit("limits.max_output_lines", "The same in lines", Other("it is cut; the whole is kept and served")),
    limit("pause.after_timeouts", "Timeouts of one tool in a row", EndCall("TOOL_PAUSED")),
    limit("tools.limits.NAME.rate_per_minute", "Calls of the tool NAME a minute", EndCall("OVERLOADED")),
    limit("streams.silence_ms", "Silence of arguments that come piece by piece", EndCall("ARGUMENTS_TRUNCATED")),
    limit("auth.rate", "Requests a minute of a key", Reject(429, "TOO_MANY_REQUESTS")),
    limit("auth.concurrency", "Requests at once of a key", Reject(429, "TOO_MANY_REQUESTS")),
    limit("auth.jwt.rate", "Requests a minute of a subject of the issuer", Reject(429, "TOO_MANY_REQUESTS")),
    limit("auth.jwt.concurrency", "Requests at once of a subject", Reject(429, "TOO_MANY_REQUESTS")),
    limit("events.max_subscribers", "Event streams at once", Reject(503, "OVERLOADED")),
    limit(
        "events.max_subscribers_per_key",
        "Event streams at once of a key or subject",
        Reject(429, "TOO_MANY_STREAMS"),
    ),
    limit("tenants.max_tools", "Registered tools of a tenant", Reject(429, "TOO_MANY_TOOLS")),
    limit("tenants.max_groups", "Groups of tools of a tenant", Reject(429, "TOO_MANY_GROUPS")),
    limit("tenants.max_hooks", "Registered hooks of a tenant", Reject(429, "TOO_MANY_HOOKS")),
    limit("tenants.max_sessions", "Sessions of a tenant", Reject(429, "TOO_MANY_SESSIONS")),
    limit("tenants.max_keys", "Keys of a tenant that are not revoked", Reject(429, "TOO_MANY_KEYS")),
    limit("sessions.idle_ms", "How long a session may be idle", FORGOTTEN),
    limit("instances.idle_ms", "How long a session may do nothing with what a tool keeps for it", FORGOTTEN),
    limit("cache.max_mib", "Memory of results that are kept", Other("the least used ones go")),
    limit("mcp.sessions", "Sessions of MCP clients before 2026-07-28", Other("the client is served without one")),
    limit("process.limits.cpu_ms", "CPU time of each process of a tool", KILLED),
    limit("process.limits.memory_bytes", "Memory of each of its processes", KILLED),
    limit("process.limits.processes", "Processes of a tool at once", KILLED),
    limit("process.limits.file_bytes", "Each file that a tool's process writes", KILLED),
    limit("process.limits.open_files", "Open files of each of its processes", KILLED),
];

/// Numbers among the settings that bound nothing that a caller could have more of.
pub const OTHERS: &[&str] = &[
    "node.heartbeat_ms",
    "node.lease_ms",
    "pause.cooldown_ms",
    "retention.calls_ms",
    "retention.events_ms",
    "retention.batch",
    "retention.pause_ms",
    "auth.jwt.leeway_s",
    "mcp_servers.start_wait_ms",
    "mcp_servers.start_timeout_ms",
    "mcp_servers.call_wait_ms",
    "mcp_servers.poll_ms",
    "mcp_servers.initial_backoff_ms",
    "mcp_servers.max_backoff_ms",
    "mcp_servers.give_up_after",
];

/// What cannot be set: what bounds it, and what becomes of more.
const FIXED: &[(&str, &str, &str)] = &[
    ("Nesting of a JSON body", "128 levels", "400 `INVALID_JSON`"),
    ("Headers of a request", "100", "431 `REQUEST_HEAD_TOO_LARGE`"),
    ("A body that is read after its answer", "256 KiB and 10 s", "the answer says `Connection: close`"),
    ("An id, a session's name, an idempotency key", "512 characters", "422 `INVALID_REQUEST`"),
    ("A schema", "256 KiB, 64 levels, 10,000 nodes, and as many when it is unfolded", "422 `INVALID_REQUEST`"),
    ("Arguments that come piece by piece", "1 MiB", "413 `PAYLOAD_TOO_LARGE`"),
    ("Reports of a running call that are not recorded yet", "4 MiB", "503 `OVERLOADED`"),
    ("A model's stream that is piped in", "256 MiB, 1,024 calls, 15 minutes of silence", "it ends with `stream_error`"),
    ("Documents that are imported at once", "2", "503 `OVERLOADED`"),
    (
        "A document that is imported, in a body or from its URL",
        "32 MiB; 2,000,000 values where it is YAML",
        "413 `PAYLOAD_TOO_LARGE`; 422 `INVALID_REQUEST`",
    ),
    ("Operations of an imported document", "2,000", "422 `INVALID_REQUEST`"),
    ("What a tool outside answers", "16 MiB", "the call ends as `TOOL_EXECUTION_ERROR`"),
    (
        "An image of a result",
        "2,000 pixels a side and 5 MiB; 64 million pixels before it is read",
        "it is scaled down, or becomes a text",
    ),
    ("What a reader of events may be behind", "256 commits, or 256 events of one call", "it is cut off, and resumes"),
    ("Callbacks on their way at once", "64, 8 to a host, 4 to a URL", "the others wait"),
    ("A page of calls", "500 calls, and 8 MiB of arguments and results", "it has fewer, and `next_cursor` goes on"),
    ("Hooks after calls at once", "64, and as many waiting as 32 MiB hold", "they are dropped, counted and logged"),
    ("Upstream MCP servers; tools of one of them", "100; 2,000", "409; the others are left out"),
    ("Series of metrics by tool", "1,000 tools", "they share one"),
];

/// `docs/limits.md`.
#[must_use]
pub fn reference() -> String {
    let mut text = include_str!("limits.md").to_owned();
    let defaults = defaults();
    text.push_str("\n| setting | default | what it bounds | beyond it |\n|---|---|---|---|\n");
    for Limit { setting, bounds, beyond } in CATALOG {
        let default = value_at(&defaults, setting).map_or_else(|| "none".to_owned(), ToString::to_string);
        let _ = writeln!(text, "| `{setting}` | {default} | {bounds} | {} |", in_words(*beyond));
    }
    text.push_str("\nWhere the explanation in `src/defaults.toml` says so, 0 is no bound. A key, and a subject by the claims that `auth.jwt` names, can have\nbounds of its own in place of the settings; `limits` of tools, calls and sessions come before those of `[limits]`.\n");
    text.push_str("\n## Fixed\n\n| what | at most | beyond it |\n|---|---|---|\n");
    for (what, most, beyond) in FIXED {
        let _ = writeln!(text, "| {what} | {most} | {beyond} |");
    }
    text
}

fn in_words(beyond: LimitAction) -> String {
    match beyond {
        Reject(status @ (429 | 503), code) => format!("{status} `{code}`, `Retry-After`"),
        Reject(status, code) => format!("{status} `{code}`"),
        EndCall(code) => format!("the call ends as `{code}`"),
        Other(words) => words.to_owned(),
    }
}

/// The settings as they are where nothing is set.
#[must_use]
pub fn defaults() -> Value {
    let built = Config::defaults_source().build().and_then(config::Config::try_deserialize);
    built.unwrap_or_default()
}

/// The setting of this name, if there is one.
#[must_use]
pub fn value_at<'v>(settings: &'v Value, setting: &str) -> Option<&'v Value> {
    settings.pointer(&format!("/{}", setting.replace('.', "/")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// All numbers, with their places.
    fn numbers(value: &Value, place: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let dot = if place.is_empty() { "" } else { "." };
                    numbers(value, &format!("{place}{dot}{name}"), found);
                }
            }
            Value::Number(_) => drop(found.insert(place.to_owned())),
            _ => {}
        }
    }

    #[test]
    fn every_number_among_the_settings_is_a_limit_of_the_list_or_said_to_be_none() {
        let mut found = BTreeSet::new();
        numbers(&defaults(), "", &mut found);
        assert!(found.len() > 40, "{found:?}");
        // The one that has no default, as no tool is named.
        found.insert("tools.limits.NAME.rate_per_minute".to_owned());
        let listed = CATALOG.iter().map(|limit| limit.setting).chain(OTHERS.iter().copied());
        let listed: Vec<String> = listed.map(str::to_owned).collect();
        assert_eq!(listed.len(), listed.iter().collect::<BTreeSet<_>>().len(), "one is there twice");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), found);
    }
}
