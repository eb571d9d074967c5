//! Hooks as they are declared: what is asked, about which calls, and what its failure means.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schemas::{Glob, HttpUrl};

/// When a hook is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// Before a run, with valid arguments: it may change them, or block the call.
    BeforeToolCall,
    /// After the end, well or badly: it observes, and nobody waits for it.
    AfterToolCall,
    /// Before the end is stored: it may rewrite what is stored and read later.
    ToolResultPersist,
}

impl HookEvent {
    /// Every event.
    pub const ALL: [Self; 3] = [Self::BeforeToolCall, Self::AfterToolCall, Self::ToolResultPersist];

    /// Its name, as callers write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeToolCall => "before_tool_call",
            Self::AfterToolCall => "after_tool_call",
            Self::ToolResultPersist => "tool_result_persist",
        }
    }
}

/// What it means for the call that a hook fails or is too slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailurePolicy {
    /// Nothing.
    #[default]
    Open,
    /// Before a run: the call ends as `HOOK_FAILED`. Before storing: the result is not stored.
    Closed,
}

/// A hook that the service brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BuiltinHook {
    /// Replaces members and texts: `{pointers:[…], patterns:[…], replacement?}`.
    Redact,
    /// Cuts the output: `{max_bytes?, max_lines?}`.
    Truncate,
}

/// Which calls a hook is asked about; nothing: all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HookMatch {
    /// Globs of tool names, as `mail_*`; one has to fit.
    #[schema(value_type = Vec<Glob>, max_items = 256)]
    pub tools: Vec<String>,
    /// Groups; the tool has to be in one.
    #[schema(max_items = 256)]
    pub groups: Vec<String>,
}

/// A signing secret of a hook's own. Never shown.
#[derive(Clone, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = String)]
pub struct HookSecret(pub String);

impl std::fmt::Debug for HookSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("HookSecret(…)")
    }
}

/// `timeout_ms` where none is declared.
pub const USUAL_TIMEOUT_MS: u64 = 5_000;
/// Longest `timeout_ms`.
pub const LONGEST_TIMEOUT_MS: u64 = 60_000;

fn usual_timeout_ms() -> u64 {
    USUAL_TIMEOUT_MS
}

/// A hook as it is declared: a webhook with its `url`, or a `builtin` with its `options`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HookDefinition {
    /// When it is asked.
    pub event: HookEvent,
    /// The webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<HttpUrl>)]
    pub url: Option<String>,
    /// A built-in hook instead; only before storing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<BuiltinHook>,
    /// What the built-in hook is to do.
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
    /// Which calls it is asked about.
    #[serde(default, rename = "match")]
    pub matches: HookMatch,
    /// Higher ones are asked first; those of the same priority in the order of their registration.
    #[serde(default)]
    pub priority: i32,
    /// How long it may take.
    #[serde(default = "usual_timeout_ms")]
    #[schema(minimum = 1, maximum = 60_000, default = 5_000)]
    pub timeout_ms: u64,
    /// What its failure means for the call.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// What its requests are signed with: `whsec_…`. What is not written out is described above, with `options`.
    #[serde(default, skip_serializing)]
    pub secret: Option<HookSecret>,
}

impl HookDefinition {
    /// A hook of this event with nothing else declared.
    #[must_use]
    pub fn of(event: HookEvent) -> Self {
        Self {
            event,
            url: None,
            builtin: None,
            options: None,
            matches: HookMatch::default(),
            priority: 0,
            timeout_ms: USUAL_TIMEOUT_MS,
            failure_policy: FailurePolicy::Open,
            secret: None,
        }
    }
}

/// How a hook failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookFaultKind {
    /// It took too long.
    Timeout,
    /// It could not be asked, or said that it failed.
    Failed,
    /// Its answer is none that a hook gives.
    Unreadable,
}

/// A hook that failed, as watchers of its call are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct HookFault {
    /// The hook's id.
    pub hook: String,
    /// What it was asked at.
    pub event: HookEvent,
    /// How it failed.
    pub kind: HookFaultKind,
    /// What happened; nothing of its answer is in it.
    pub reason: String,
}

impl HookFault {
    /// The call did not wait any longer.
    #[must_use]
    pub fn given_up(hook: &str, event: HookEvent) -> Self {
        let reason = "the call did not wait for its answer".to_owned();
        Self { hook: hook.to_owned(), event, kind: HookFaultKind::Timeout, reason }
    }
}
