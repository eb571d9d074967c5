//! Failures of tool calls: data for the model, never an HTTP error.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Time;

/// The time after which a call may be retried if running calls hold the rest of a budget, in milliseconds.
const UNKNOWN_REFILL_MS: u64 = 1000;

/// The code of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The tool does not exist.
    ToolNotFound,
    /// The tool is inactive, because all its groups are inactive or its session does not have it.
    ToolUnavailable,
    /// The tool is paused after consecutive timeouts.
    ToolPaused,
    /// The arguments are a string that is not JSON.
    ArgumentsMalformed,
    /// The model's output was cut off before the arguments were complete.
    ArgumentsTruncated,
    /// The arguments do not match the tool's schema.
    ToolValidationError,
    /// A hook blocked the call.
    ToolBlocked,
    /// A hook with the failure policy `closed` failed.
    HookFailed,
    /// Somebody rejected the call.
    ApprovalDenied,
    /// The approval of the call expired.
    ApprovalExpired,
    /// A policy forbids the call.
    PolicyDenied,
    /// A budget has no room for the call.
    BudgetExceeded,
    /// No worker took the call in time.
    NoWorker,
    /// A timeout expired before the tool returned.
    ToolTimeout,
    /// The tool ran and failed.
    ToolExecutionError,
    /// The tool's result does not match its strict output schema.
    ResultInvalid,
    /// The call was cancelled.
    Cancelled,
    /// The node was lost while the tool ran, and running it again is not safe.
    OutcomeUnknown,
    /// The call could not be recorded in time and was not run.
    Overloaded,
    /// The service stopped before the call ended.
    ShuttingDown,
}

impl Code {
    /// All codes, for documentation and for reading stored rows.
    pub const ALL: [Self; 20] = [
        Self::ToolNotFound,
        Self::ToolUnavailable,
        Self::ToolPaused,
        Self::ArgumentsMalformed,
        Self::ArgumentsTruncated,
        Self::ToolValidationError,
        Self::ToolBlocked,
        Self::HookFailed,
        Self::ApprovalDenied,
        Self::ApprovalExpired,
        Self::PolicyDenied,
        Self::BudgetExceeded,
        Self::NoWorker,
        Self::ToolTimeout,
        Self::ToolExecutionError,
        Self::ResultInvalid,
        Self::Cancelled,
        Self::OutcomeUnknown,
        Self::Overloaded,
        Self::ShuttingDown,
    ];

    /// Returns the code as callers and the database see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolNotFound => "TOOL_NOT_FOUND",
            Self::ToolUnavailable => "TOOL_UNAVAILABLE",
            Self::ToolPaused => "TOOL_PAUSED",
            Self::ArgumentsMalformed => "ARGUMENTS_MALFORMED",
            Self::ArgumentsTruncated => "ARGUMENTS_TRUNCATED",
            Self::ToolValidationError => "TOOL_VALIDATION_ERROR",
            Self::ToolBlocked => "TOOL_BLOCKED",
            Self::HookFailed => "HOOK_FAILED",
            Self::ApprovalDenied => "APPROVAL_DENIED",
            Self::ApprovalExpired => "APPROVAL_EXPIRED",
            Self::PolicyDenied => "POLICY_DENIED",
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
            Self::NoWorker => "NO_WORKER",
            Self::ToolTimeout => "TOOL_TIMEOUT",
            Self::ToolExecutionError => "TOOL_EXECUTION_ERROR",
            Self::ResultInvalid => "RESULT_INVALID",
            Self::Cancelled => "CANCELLED",
            Self::OutcomeUnknown => "OUTCOME_UNKNOWN",
            Self::Overloaded => "OVERLOADED",
            Self::ShuttingDown => "SHUTTING_DOWN",
        }
    }
}

/// The failure of a call that ended in `ERROR`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// A description in one sentence, for people and logs.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The time to wait before a retry, in milliseconds, if it is known.
    pub retry_after_ms: Option<u64>,
    /// Further data about the failure.
    #[schema(value_type = Option<Object>)]
    pub details: Option<Value>,
    /// The text for the model: the call's `output`.
    #[serde(skip)]
    pub text: String,
    /// Whether the request was provably not sent. Then any tool can be retried, because it has not received the call.
    #[serde(skip)]
    pub not_sent: bool,
}

impl Failure {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self::explained(code, message, "")
    }

    /// Creates a failure whose text for the model continues after the message.
    fn explained(code: Code, message: impl Into<String>, rest: &str) -> Self {
        let message = message.into();
        let text = format!("Error: {message}{rest}");
        Self::with_text(code, message, text)
    }

    fn with_text(code: Code, message: String, text: String) -> Self {
        Self { code, message, retryable: false, retry_after_ms: None, details: None, text, not_sent: false }
    }

    /// Replaces the tool's own name with the name that the caller used. Returns the replaced byte range of the text.
    pub(super) fn name_tool(&mut self, name: &str, called_as: &str) -> Option<Range<usize>> {
        const BEFORE: &str = "ool \"";
        let quoted = format!("{BEFORE}{name}\"");
        // Every text names the tool before it quotes the tool's own output.
        let start = self.text.find(&quoted)? + BEFORE.len();
        let is_ours = self.text.strip_prefix("Error: ").is_some_and(|rest| rest.starts_with(&self.message));
        if let Some(at) = self.message.find(&quoted).filter(|_| is_ours).map(|at| at + BEFORE.len()) {
            self.message.replace_range(at..at + name.len(), called_as);
        }
        let range = start..start + name.len();
        self.text.replace_range(range.clone(), called_as);
        Some(range)
    }

    /// Creates a `TOOL_NOT_FOUND` failure with the available names and the nearest name.
    #[must_use]
    pub fn not_found(name: &str, available: &[&str], nearest: Option<&str>) -> Self {
        let mut rest = format!("\nAvailable tools: {}", available.join(", "));
        if let Some(nearest) = nearest {
            rest.push_str(&format!("\nDid you mean: {nearest}?"));
        }
        let details = serde_json::json!({ "available_tools": available, "did_you_mean": nearest });
        Self::explained(Code::ToolNotFound, format!("Tool not found: {name}"), &rest).with_details(details)
    }

    /// Adds the number of omitted names to a `TOOL_NOT_FOUND` failure, and how to find them. `finder` is the search
    /// tool, if the caller has one.
    #[must_use]
    pub fn and_more_tools(mut self, more: usize, finder: Option<&str>) -> Self {
        let (tools, them) = if more == 1 { ("tool exists", "it") } else { ("tools exist", "them") };
        let how = finder.map_or_else(
            || format!("`GET /tools?q=` finds {them}"),
            |finder| format!("the tool {finder} finds {them}"),
        );
        self.text.push_str(&format!("\n{more} more {tools}: {how}"));
        if let Some(Value::Object(details)) = &mut self.details {
            details.insert("more_tools".to_owned(), more.into());
        }
        self
    }

    /// Creates a `TOOL_UNAVAILABLE` failure: the tool exists, but cannot be called now.
    #[must_use]
    pub fn unavailable(name: &str) -> Self {
        Self::new(Code::ToolUnavailable, format!("Tool \"{name}\" is not available"))
    }

    /// Creates an `ARGUMENTS_MALFORMED` failure. `reason` contains the line and the column.
    #[must_use]
    pub fn malformed(name: &str, reason: &super::json::JsonError, received: &str) -> Self {
        let details = serde_json::json!({
            "line": reason.line, "column": reason.column, "reason": reason.reason,
            "received": super::json::shorten(received, 2000),
        });
        let message = format!("Invalid JSON in arguments for tool \"{name}\": {reason}");
        Self::new(Code::ArgumentsMalformed, message).with_details(details)
    }

    /// Creates an `ARGUMENTS_TRUNCATED` failure: the model's output ended at its token limit.
    #[must_use]
    pub fn truncated(name: &str) -> Self {
        let message = format!("Tool call \"{name}\" was not executed: the response hit the output token limit");
        let rest = ", so its arguments may be incomplete. Send the call again with shorter arguments, or in several \
            smaller calls.";
        Self::explained(Code::ArgumentsTruncated, message, rest)
    }

    /// Creates an `ARGUMENTS_TRUNCATED` failure: streamed arguments ended before they were complete.
    #[must_use]
    pub fn broken_off(name: &str, reason: &str) -> Self {
        let message = format!("Tool call \"{name}\" was not executed: the response hit the output token limit");
        let rest = format!(" or was interrupted before its arguments were complete ({reason}). Send the call again.");
        let details = serde_json::json!({ "reason": reason });
        Self::explained(Code::ArgumentsTruncated, message, &rest).with_details(details)
    }

    /// Creates a `TOOL_VALIDATION_ERROR` failure with one `(pointer, message)` line per violation; `details` as in
    /// docs/reference/contract.md, section 4.
    #[must_use]
    pub fn validation<'a>(name: &str, lines: impl IntoIterator<Item = (&'a str, &'a str)>, details: Value) -> Self {
        let mut rest = String::new();
        for (pointer, line) in lines {
            rest.push_str(&format!("\n- {}: {line}", super::json::pointer_text(pointer)));
        }
        let message = format!("Invalid parameters for tool \"{name}\"");
        Self::explained(Code::ToolValidationError, message, &rest).with_details(details)
    }

    /// Creates a `TOOL_BLOCKED` failure with the reason of the hook, if it gave one.
    #[must_use]
    pub fn blocked(reason: Option<&str>, hook: &str) -> Self {
        let message = reason.unwrap_or("Tool call blocked by hook");
        Self::new(Code::ToolBlocked, message).with_details(serde_json::json!({ "hook": hook }))
    }

    /// Creates a `HOOK_FAILED` failure for a hook with the failure policy `closed`.
    #[must_use]
    pub fn hook_failed(fault: &super::HookFault) -> Self {
        let message = format!("Tool call blocked because {} hook failed", fault.event.as_str());
        Self::new(Code::HookFailed, message).with_details(serde_json::json!({ "hook": fault.hook }))
    }

    /// Creates an `APPROVAL_DENIED` failure with the reason of the person who rejected the call.
    #[must_use]
    pub fn approval_denied(name: &str, reason: Option<&str>) -> Self {
        let reason = reason.unwrap_or("no reason was given");
        Self::new(Code::ApprovalDenied, format!("Tool call \"{name}\" was rejected: {reason}"))
    }

    /// Creates an `APPROVAL_EXPIRED` failure.
    #[must_use]
    pub fn approval_expired(name: &str) -> Self {
        Self::new(Code::ApprovalExpired, format!("Tool call \"{name}\" was not approved in time"))
    }

    /// Creates a `POLICY_DENIED` failure. `error` is why the policy could not be evaluated.
    #[must_use]
    pub fn policy_denied(name: &str, policy: &str, reason: Option<&str>, error: Option<&str>) -> Self {
        let reason = match (reason, error) {
            (Some(reason), _) => reason.to_owned(),
            (None, Some(_)) => format!("the policy {policy} could not be evaluated"),
            (None, None) => format!("the policy {policy} forbids it"),
        };
        let mut details = serde_json::json!({ "policy": { "name": policy } });
        if let Some(error) = error {
            details["policy"]["error"] = error.into();
        }
        let message = format!("Tool call \"{name}\" is not allowed: {reason}");
        Self::new(Code::PolicyDenied, message).with_details(details)
    }

    /// Creates a `BUDGET_EXCEEDED` failure. `refills_at` is when the call fits again, if only time is missing.
    #[must_use]
    pub fn budget_exceeded(budget: &str, refills_at: Option<Time>, now: Time) -> Self {
        let rest = match refills_at {
            Some(at) => format!(". It refills at {at}"),
            None => ". Running calls hold the rest; try again when they have ended".to_owned(),
        };
        let details = serde_json::json!({ "budget": budget, "resets_at": refills_at });
        // Rounded up, so that a retry after this time does not come too early.
        let wait_ms = refills_at.map_or(UNKNOWN_REFILL_MS, |at| at.millis_since(now) + 1);
        let failure = Self::explained(Code::BudgetExceeded, format!("Budget \"{budget}\" is used up"), &rest);
        failure.with_details(details).retryable(Some(wait_ms))
    }

    /// Creates a `NO_WORKER` failure.
    #[must_use]
    pub fn no_worker(name: &str, queue: &str, after_ms: u64) -> Self {
        let details = serde_json::json!({ "queue": queue, "clock": "queue_timeout_ms", "after_ms": after_ms });
        let rest = format!(": no worker fetched it from the queue \"{queue}\" within {after_ms}ms");
        let failure = Self::explained(Code::NoWorker, format!("No worker took tool \"{name}\" in time"), &rest);
        failure.with_details(details).retryable(None)
    }

    /// Creates a `TOOL_TIMEOUT` failure. `clock` is the limit that expired, for example `timeout_ms`.
    #[must_use]
    pub fn timeout(after_ms: u64, clock: &str) -> Self {
        let message = format!("Tool execution timeout after {after_ms}ms");
        let details = serde_json::json!({ "clock": clock, "after_ms": after_ms });
        let failure = Self::explained(Code::ToolTimeout, message, &format!(" ({clock})"));
        failure.with_details(details).retryable(None)
    }

    /// Creates a `TOOL_EXECUTION_ERROR` failure with the tool's own message.
    #[must_use]
    pub fn execution(name: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let text = format!("Error executing tool \"{name}\": {message}");
        Self::with_text(Code::ToolExecutionError, message, text)
    }

    /// Creates a `RESULT_INVALID` failure with the first violations of the output schema.
    #[must_use]
    pub fn result_invalid(name: &str, violations: Value) -> Self {
        let message = format!("Tool \"{name}\" returned a result that does not match its output schema");
        Self::new(Code::ResultInvalid, message).with_details(serde_json::json!({ "validation_errors": violations }))
    }

    /// Creates a `TOOL_PAUSED` failure. `left_ms` is the remaining time of the pause.
    #[must_use]
    pub fn paused(name: &str, timeouts: u32, left_ms: u64) -> Self {
        let message = format!("Tool \"{name}\" is paused after {timeouts} timeouts in a row");
        let details = serde_json::json!({ "timeouts_in_a_row": timeouts, "resumes_in_ms": left_ms });
        Self::new(Code::ToolPaused, message).with_details(details).retryable(Some(left_ms))
    }

    /// Creates a `CANCELLED` failure.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(Code::Cancelled, "Operation aborted")
    }

    /// Creates an `OUTCOME_UNKNOWN` failure: the node was lost during the run, and running the tool again is not safe.
    #[must_use]
    pub fn outcome_unknown(name: &str) -> Self {
        let message = format!("The outcome of tool \"{name}\" is unknown");
        let rest = ": the service stopped while the tool was running, and running it again is not safe. Check what it \
            has done before you call it again.";
        Self::explained(Code::OutcomeUnknown, message, rest)
    }

    /// Says that a worker program, and not this service, has stopped during the run.
    #[must_use]
    pub fn lost_by_worker(self) -> Self {
        let text = self.text.replacen("the service stopped while", "its worker was lost while", 1);
        Self { text, ..self }
    }

    /// Creates an `OVERLOADED` failure of a call that did not run.
    #[must_use]
    pub fn overloaded(message: &str) -> Self {
        Self::new(Code::Overloaded, message).retryable(None)
    }

    /// Creates a `SHUTTING_DOWN` failure of a stopped run.
    #[must_use]
    pub fn shutting_down() -> Self {
        Self::new(Code::ShuttingDown, "The service is shutting down and stopped this call").retryable(None)
    }

    /// Marks the request as provably not sent.
    #[must_use]
    pub fn never_left(self) -> Self {
        Self { not_sent: true, ..self }
    }

    /// Marks the failure as retryable, after `retry_after_ms` if that is known.
    #[must_use]
    pub fn retryable(self, retry_after_ms: Option<u64>) -> Self {
        Self { retryable: true, retry_after_ms, ..self }
    }

    /// Returns the failure, and moves its details out of `self` instead of cloning them: they can be as large as the
    /// call's arguments.
    #[must_use]
    pub fn taken(&mut self) -> Self {
        let details = self.details.take();
        Self { details, ..self.clone() }
    }

    /// Sets the further data about the failure.
    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }
}
