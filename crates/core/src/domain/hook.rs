//! Declarations of hooks: event, matched calls and failure policy.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schemas::{Glob, HttpUrl};
use super::secret::SecretString;

/// The event at which a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// Before a run, with valid arguments. The hook can change the arguments or block the call.
    BeforeToolCall,
    /// After the end of a call. The hook only observes, and the call does not wait for it.
    AfterToolCall,
    /// Before the end is stored. The hook can change the stored result.
    ToolResultPersist,
}

impl HookEvent {
    /// All events.
    pub const ALL: [Self; 3] = [Self::BeforeToolCall, Self::AfterToolCall, Self::ToolResultPersist];

    /// Returns the name of the event.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeToolCall => "before_tool_call",
            Self::AfterToolCall => "after_tool_call",
            Self::ToolResultPersist => "tool_result_persist",
        }
    }
}

/// The effect of a failed or timed-out hook on the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailurePolicy {
    /// The failure is ignored.
    #[default]
    Open,
    /// Before a run: the call ends as `HOOK_FAILED`. Before storing: the result is not stored.
    Closed,
}

/// A hook that is part of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BuiltinHook {
    /// Replaces members and texts: `{pointers:[…], patterns:[…], replacement?}`.
    Redact,
    /// Truncates the output: `{max_bytes?, max_lines?}`.
    Truncate,
}

/// The calls that a hook runs for. An empty filter matches all calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HookMatch {
    /// Globs of tool names, for example `mail_*`. One of them must match.
    #[schema(value_type = Vec<Glob>, max_items = 256)]
    pub tools: Vec<String>,
    /// Groups. The tool must be in one of them.
    #[schema(max_items = 256)]
    pub groups: Vec<String>,
}

/// Maximum `timeout_ms`.
pub const LONGEST_TIMEOUT_MS: u64 = 60_000;

/// Returns the default `timeout_ms`.
fn usual_timeout_ms() -> u64 {
    5_000
}

/// A declared hook: a webhook with its `url`, or a `builtin` with its `options`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HookDefinition {
    /// The event at which the hook runs.
    pub event: HookEvent,
    /// The URL of the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<HttpUrl>)]
    pub url: Option<String>,
    /// A built-in hook instead of a webhook; only for `tool_result_persist`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<BuiltinHook>,
    /// The options of the built-in hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, extensions(
        ("x-is" = json!({"anyOf": [{"$ref": "#/components/schemas/RedactOptions"},
            {"$ref": "#/components/schemas/TruncateOptions"}, {"type": "null"}]})),
        ("x-together" = json!({
            "properties": {"secret": {
                "description": "What its requests are signed with; the service's secret unless given. It is never shown again.",
                "writeOnly": true, "type": ["string", "null"],
                "pattern": "^whsec_(([A-Za-z0-9+/]{4}){8,20}([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?|([A-Za-z0-9+/]{4}){21}([A-Za-z0-9+/][AQgw]==)?)$"}},
            "anyOf": [
                {"required": ["url"], "properties": {"url": {"type": "string"}, "builtin": {"type": "null"}, "options": {"type": "null"}}},
                {"required": ["builtin", "options"], "properties": {"event": {"const": "tool_result_persist"}, "url": {"type": "null"},
                    "secret": {"type": "null"}, "builtin": {"const": "redact"}, "options": {"$ref": "#/components/schemas/RedactOptions"}}},
                {"required": ["builtin", "options"], "properties": {"event": {"const": "tool_result_persist"}, "url": {"type": "null"},
                    "secret": {"type": "null"}, "builtin": {"const": "truncate"}, "options": {"$ref": "#/components/schemas/TruncateOptions"}}}]}))
    ))]
    pub options: Option<Value>,
    /// The calls that the hook runs for.
    #[serde(default, rename = "match")]
    pub matches: HookMatch,
    /// The priority. Higher values run first, and equal values run in the order of registration.
    #[serde(default)]
    pub priority: i32,
    /// The timeout, in milliseconds.
    #[serde(default = "usual_timeout_ms")]
    #[schema(minimum = 1, maximum = 60_000, default = 5_000)]
    pub timeout_ms: u64,
    /// The effect of a failure on the call.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// The secret that signs the requests of the hook: `whsec_…`. Default: the secret of the service. It is never
    /// returned.
    #[serde(default, skip_serializing)]
    #[schema(value_type = Option<String>)]
    pub secret: Option<SecretString>,
}

impl HookDefinition {
    /// Creates a hook of this event with default values.
    #[must_use]
    pub fn of(event: HookEvent) -> Self {
        Self {
            event,
            url: None,
            builtin: None,
            options: None,
            matches: HookMatch::default(),
            priority: 0,
            timeout_ms: usual_timeout_ms(),
            failure_policy: FailurePolicy::Open,
            secret: None,
        }
    }
}

/// The kind of a hook failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookFaultKind {
    /// The hook timed out.
    Timeout,
    /// The hook could not be reached, or reported an error.
    Failed,
    /// The response of the hook is invalid.
    Unreadable,
}

/// A failed hook, as subscribers of the call see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct HookFault {
    /// The id of the hook.
    pub hook: String,
    /// The event of the hook.
    pub event: HookEvent,
    /// The kind of the failure.
    pub kind: HookFaultKind,
    /// The reason, which never contains parts of the hook's response.
    pub reason: String,
}

impl HookFault {
    /// Creates the failure of a hook that the call stopped waiting for.
    #[must_use]
    pub fn given_up(hook: &str, event: HookEvent) -> Self {
        let reason = "the call did not wait for the response of the hook".to_owned();
        Self { hook: hook.to_owned(), event, kind: HookFaultKind::Timeout, reason }
    }
}
