//! The catalog of all limits, from which `docs/reference/limits.md` is generated.

use serde_json::Value;

use super::Config;

/// The effect of exceeding a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitAction {
    /// The request is rejected with this status and code.
    Reject(u16, &'static str),
    /// The call ends with this code.
    EndCall(&'static str),
    /// Another effect, as text.
    Other(&'static str),
}

/// A configurable limit.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The path of its setting.
    pub setting: &'static str,
    /// The limited resource.
    pub bounds: &'static str,
    /// The effect of exceeding it.
    pub beyond: LimitAction,
}

const fn limit(setting: &'static str, bounds: &'static str, beyond: LimitAction) -> Limit {
    Limit { setting, bounds, beyond }
}

use LimitAction::{EndCall, Other, Reject};

const CLOSED: LimitAction = Other("the connection is closed");
const SESSION_DELETED: LimitAction = Other("the session is deleted");
const KILLED: LimitAction =
    Other("the kernel rejects the allocation or ends the program; the call ends with the program");

/// All configurable limits.
pub const CATALOG: &[Limit] = &[
    limit("server.max_connections", "Open connections", Reject(503, "OVERLOADED")),
    limit("server.idle_timeout_ms", "Time without a request on a connection", CLOSED),
    limit("server.header_timeout_ms", "Time to receive the headers of a request", Reject(408, "REQUEST_TIMEOUT")),
    limit("server.max_header_bytes", "Address and headers of a request", Reject(431, "REQUEST_HEAD_TOO_LARGE")),
    limit("server.body_timeout_ms", "Time to receive a request body", Reject(408, "REQUEST_TIMEOUT")),
    limit("server.max_body_bytes", "Request body (except imports)", Reject(413, "PAYLOAD_TOO_LARGE")),
    limit("server.max_batch_calls", "Calls in one request", Reject(413, "BATCH_TOO_LARGE")),
    limit("server.write_timeout_ms", "Time in which a client does not read its response", CLOSED),
    limit("server.max_in_flight_mib", "Memory of requests in flight", Reject(503, "OVERLOADED")),
    limit("server.max_backlog", "Calls waiting to be recorded", Reject(503, "OVERLOADED")),
    limit("server.burst", "Calls waiting to be recorded during a burst", Reject(503, "OVERLOADED")),
    limit("server.burst_ms", "Duration of a burst", Reject(503, "OVERLOADED")),
    limit("server.drain_ms", "Time for running calls to end when the service stops", EndCall("SHUTTING_DOWN")),
    limit(
        "store.patience_ms",
        "Time that a request waits for an unavailable database",
        Reject(503, "STORE_UNAVAILABLE"),
    ),
    limit("queue.max_length", "Detached calls, queued and running", Reject(503, "OVERLOADED")),
    limit(
        "queue.max_running",
        "Running detached calls",
        Other("the call waits for a slot, for at most `queue_timeout_ms`"),
    ),
    limit("limits.timeout_ms", "Default duration of an attempt", EndCall("TOOL_TIMEOUT")),
    limit("limits.async_timeout_ms", "Default duration of an attempt of an `async` tool", EndCall("TOOL_TIMEOUT")),
    limit("limits.idle_timeout_ms", "Default time without output from a running call", EndCall("TOOL_TIMEOUT")),
    limit("limits.queue_timeout_ms", "Default time that a call waits for a slot", EndCall("TOOL_TIMEOUT")),
    limit("limits.max_timeout_ms", "Declared `timeout_ms`", Other("the maximum applies instead")),
    limit(
        "limits.max_output_bytes",
        "Output shown to a model, in bytes",
        Other("the output is truncated; the full output is stored and can be fetched"),
    ),
    limit(
        "limits.max_output_lines",
        "Output shown to a model, in lines",
        Other("the output is truncated; the full output is stored and can be fetched"),
    ),
    limit("pause.after_timeouts", "Consecutive timeouts of one tool", EndCall("TOOL_PAUSED")),
    limit("tools.limits.NAME.rate_per_minute", "Calls of the tool NAME per minute", EndCall("OVERLOADED")),
    limit("streams.silence_ms", "Time between two chunks of streamed arguments", EndCall("ARGUMENTS_TRUNCATED")),
    limit("auth.rate", "Requests per minute of a key", Reject(429, "TOO_MANY_REQUESTS")),
    limit("auth.concurrency", "Concurrent requests of a key", Reject(429, "TOO_MANY_REQUESTS")),
    limit("auth.failures", "Invalid keys and tokens per minute of an address", Reject(429, "TOO_MANY_REQUESTS")),
    limit("auth.jwt.rate", "Requests per minute of a token subject", Reject(429, "TOO_MANY_REQUESTS")),
    limit("auth.jwt.concurrency", "Concurrent requests of a token subject", Reject(429, "TOO_MANY_REQUESTS")),
    limit("events.max_subscribers", "Open event streams", Reject(503, "OVERLOADED")),
    limit("events.max_subscribers_per_key", "Open event streams of a key or subject", Reject(429, "TOO_MANY_STREAMS")),
    limit("tenants.max_tools", "Registered tools of a tenant", Reject(429, "TOO_MANY_TOOLS")),
    limit("tenants.max_groups", "Groups of tools of a tenant", Reject(429, "TOO_MANY_GROUPS")),
    limit("tenants.max_hooks", "Registered hooks of a tenant", Reject(429, "TOO_MANY_HOOKS")),
    limit("tenants.max_policies", "Stored policies of a tenant", Reject(429, "TOO_MANY_POLICIES")),
    limit("expressions.max_steps", "Steps of the policies for one call", EndCall("POLICY_DENIED")),
    limit("expressions.max_memory_kib", "Memory of the policies for one call", EndCall("POLICY_DENIED")),
    limit("tenants.max_budgets", "Budgets of a tenant", Reject(429, "TOO_MANY_BUDGETS")),
    limit("tenants.max_sessions", "Sessions of a tenant", Reject(429, "TOO_MANY_SESSIONS")),
    limit("tenants.max_keys", "Unrevoked keys of a tenant", Reject(429, "TOO_MANY_KEYS")),
    limit("sessions.idle_ms", "Time for which a session is idle", SESSION_DELETED),
    limit(
        "instances.idle_ms",
        "Time for which a session does not use its instance of a tool",
        Other("the instance is dropped"),
    ),
    limit(
        "workers.forget_ms",
        "Time without a request of any worker of a tool; 0 for no limit",
        Other("the tool is removed"),
    ),
    limit("cache.max_mib", "Memory of cached results", Other("the least recently used results are evicted")),
    limit(
        "registry.compiled_bytes",
        "Memory of compiled tools and rendered lists",
        Other("the least recently used are dropped and created again when they are needed"),
    ),
    limit("mcp.sessions", "Sessions of MCP clients before 2026-07-28", Other("the client is served without a session")),
    limit("process.limits.cpu_ms", "CPU time of each process of a tool", KILLED),
    limit("process.limits.memory_bytes", "Memory of each process of a tool", KILLED),
    limit("process.limits.processes", "Processes of a tool at once", KILLED),
    limit("process.limits.file_bytes", "Size of each file that a process of a tool writes", KILLED),
    limit("process.limits.open_files", "Open files of each process of a tool", KILLED),
];

/// Renders `docs/reference/limits.md`.
#[must_use]
pub fn reference() -> String {
    let defaults = defaults();
    let rows = CATALOG.iter().map(|Limit { setting, bounds, beyond }| {
        let default = defaults.pointer(&format!("/{}", setting.replace('.', "/")));
        let default = default.map_or_else(|| "none".to_owned(), ToString::to_string);
        format!("| `{setting}` | {default} | {bounds} | {} |\n", action_text(*beyond))
    });
    include_str!("limits.md").replace("{settings}\n", &rows.collect::<String>())
}

fn action_text(beyond: LimitAction) -> String {
    match beyond {
        Reject(status @ (429 | 503), code) => format!("{status} `{code}`, `Retry-After`"),
        Reject(status, code) => format!("{status} `{code}`"),
        EndCall(code) => format!("the call ends as `{code}`"),
        Other(words) => words.to_owned(),
    }
}

/// Returns the default settings as JSON.
fn defaults() -> Value {
    let built = Config::defaults_source().build().and_then(config::Config::try_deserialize);
    built.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Numeric settings that do not limit a resource of callers.
    const OTHERS: &[&str] = &[
        "node.heartbeat_ms",
        "node.lease_ms",
        "node.poll_ms",
        "store.max_shards",
        "store.start_timeout_ms",
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

    /// Collects the paths of all numbers.
    fn numbers(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let dot = if path.is_empty() { "" } else { "." };
                    numbers(value, &format!("{path}{dot}{name}"), found);
                }
            }
            Value::Number(_) => drop(found.insert(path.to_owned())),
            _ => {}
        }
    }

    #[test]
    fn every_numeric_setting_is_listed() {
        let mut found = BTreeSet::new();
        numbers(&defaults(), "", &mut found);
        assert!(found.len() > 40, "{found:?}");
        // This setting has no default, because it belongs to a named tool.
        found.insert("tools.limits.NAME.rate_per_minute".to_owned());
        let listed = CATALOG.iter().map(|limit| limit.setting).chain(OTHERS.iter().copied());
        let listed: Vec<String> = listed.map(str::to_owned).collect();
        assert_eq!(listed.len(), listed.iter().collect::<BTreeSet<_>>().len(), "a setting is listed twice");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), found);
    }
}
