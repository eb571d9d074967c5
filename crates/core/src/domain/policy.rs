//! Definitions of policies (docs/reference/contract.md, section 16).

use serde::{Deserialize, Serialize};

use super::schemas::ToolName;
use super::tool::is_valid_name;

/// Maximum length of an expression, in bytes.
pub const MAX_EXPRESSION: usize = 4096;
/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 2000;

/// The effect of a policy on the calls that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyEffect {
    /// The call may run.
    Allow,
    /// The call ends with `POLICY_DENIED`.
    Deny,
    /// The call needs the approval of a person.
    Approve,
}

fn yes() -> bool {
    true
}

/// A policy: a condition on calls, and what happens to the calls that meet it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyDefinition {
    /// The name.
    #[schema(value_type = ToolName)]
    pub name: String,
    /// The condition: an expression of the Common Expression Language.
    #[schema(min_length = 1, max_length = 4096, example = "tool.name.startsWith('deploy.')")]
    pub when: String,
    /// What happens to calls that meet the condition.
    pub effect: PolicyEffect,
    /// Policies with higher values are evaluated first.
    #[serde(default)]
    pub priority: i32,
    /// The reason that models and approvers see.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub reason: Option<String>,
    /// Whether the policy applies.
    #[serde(default = "yes")]
    pub enabled: bool,
}

impl PolicyDefinition {
    /// Checks the name and the reason.
    ///
    /// # Errors
    /// Returns the JSON Pointer of an invalid member, and what it must be.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if !is_valid_name(&self.name) {
            let message = "must have 1 to 128 characters of A-Z, a-z, 0-9, `_`, `.` and `-`";
            return Err(("/name", message.to_owned()));
        }
        if self.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
            return Err(("/reason", format!("must have at most {MAX_REASON} characters")));
        }
        Ok(())
    }
}
