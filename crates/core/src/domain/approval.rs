//! Approvals: decisions of people that calls wait for (docs/reference/contract.md, section 15).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schemas::HttpUrl;
use super::{Time, idempotency, json as canonical};

/// Longest `expires_ms`: 30 days.
pub const MAX_EXPIRES_MS: u64 = 30 * 24 * 3600 * 1000;
/// Largest `min_approvals`.
pub const MAX_APPROVALS: u32 = 20;
/// Maximum length of a reason, in characters.
pub const MAX_REASON: usize = 2000;

fn usual_expires_ms() -> u64 {
    3_600_000
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// The approval that calls of a tool need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalSpec {
    /// Whether every call needs approval. Otherwise the other members apply to calls for which a policy requires it.
    #[serde(default = "yes")]
    pub required: bool,
    /// Time until an approval that is not decided expires, in milliseconds.
    #[serde(default = "usual_expires_ms")]
    #[schema(minimum = 1, maximum = 2_592_000_000_i64, default = 3_600_000)]
    pub expires_ms: u64,
    /// Number of distinct keys or subjects that must approve.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 20, default = 1)]
    pub min_approvals: u32,
    /// URL that receives `approval.requested` and `approval.decided`. Default: the setting `approvals.notify_url`.
    #[serde(default)]
    #[schema(value_type = Option<HttpUrl>)]
    pub notify_url: Option<String>,
}

impl Default for ApprovalSpec {
    fn default() -> Self {
        Self { required: true, expires_ms: usual_expires_ms(), min_approvals: 1, notify_url: None }
    }
}

/// The state of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalStatus {
    /// The call waits for a decision.
    Pending,
    /// Enough people approved the call.
    Approved,
    /// Somebody rejected the call.
    Rejected,
    /// The time for a decision has passed.
    Expired,
}

impl ApprovalStatus {
    /// All states, in the order of their numbers in the database.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Approved, Self::Rejected, Self::Expired];
}

/// The source of the requirement of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequiredBy {
    /// The definition of the tool.
    Tool,
    /// A policy.
    Policy,
}

/// A decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The call may run.
    Approve,
    /// The call must not run.
    Reject,
}

/// A recorded decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApprovalDecision {
    /// The decision.
    pub decision: Decision,
    /// The id of the key or the subject of the token that decided; `anonymous` on a service without keys.
    pub by: String,
    /// The reason, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time of the decision.
    pub at: Time,
}

/// The approval of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Approval {
    /// The state.
    pub status: ApprovalStatus,
    /// What requires the approval.
    pub required_by: RequiredBy,
    /// The policy that requires it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The reason that the policy gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `sha256:` and the SHA-256 of the arguments that would run, the name and the revision of the tool, in the form of
    /// RFC 8785. A decision names it, so an approver cannot approve what they did not see.
    pub digest: String,
    /// Number of distinct approvals that the call needs.
    pub min_approvals: u32,
    /// The decisions about this digest, oldest first.
    pub decisions: Vec<ApprovalDecision>,
    /// The time of the request.
    pub requested_at: Time,
    /// The time at which a pending approval expires.
    pub expires_at: Time,
    /// The id of the key or the subject that made the call, and that cannot approve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub requested_by: Option<Arc<str>>,
}

/// Name of a decider without a key or token.
pub const ANONYMOUS: &str = "anonymous";

impl Approval {
    /// Returns `true` if the approval is not decided.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.status == ApprovalStatus::Pending
    }

    /// Returns `true` if enough people approved the call.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        self.status == ApprovalStatus::Approved
    }

    /// Adds a decision, and updates the state: one rejection decides, and as many distinct approvals as are required.
    pub fn decide(&mut self, decision: ApprovalDecision) {
        self.decisions.retain(|earlier| earlier.by != decision.by);
        self.decisions.push(decision);
        let is_rejected = self.decisions.iter().any(|one| one.decision == Decision::Reject);
        if is_rejected {
            self.status = ApprovalStatus::Rejected;
        } else if self.decisions.len() as u64 >= u64::from(self.min_approvals) {
            self.status = ApprovalStatus::Approved;
        }
    }

    /// Returns the milliseconds since the last decision, or `None` without one.
    #[must_use]
    pub fn waited_ms(&self, now: Time) -> Option<u64> {
        self.decisions.last().map(|last| now.millis_since(last.at))
    }

    /// Returns the reason of the rejection, if one was given.
    #[must_use]
    pub fn rejection(&self) -> Option<&str> {
        let rejected = self.decisions.iter().find(|one| one.decision == Decision::Reject)?;
        rejected.reason.as_deref()
    }
}

/// Returns the digest of a call: what an approval is bound to.
#[must_use]
pub fn digest(name: &str, arguments: &Value, revision: u64) -> String {
    let mut text = Vec::new();
    canonical::write_canonical(&mut text, &json!({"arguments": arguments, "name": name, "revision": revision}));
    let hash = idempotency::hash_of(&text);
    hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(min_approvals: u32) -> Approval {
        Approval {
            status: ApprovalStatus::Pending,
            required_by: RequiredBy::Tool,
            policy: None,
            reason: None,
            digest: digest("t", &json!({}), 1),
            min_approvals,
            decisions: Vec::new(),
            requested_at: Time(0),
            expires_at: Time(1),
            requested_by: None,
        }
    }

    fn by(decision: Decision, by: &str) -> ApprovalDecision {
        ApprovalDecision { decision, by: by.to_owned(), reason: None, at: Time(0) }
    }

    #[test]
    fn distinct_people_approve_and_one_rejects() {
        let mut approval = pending(2);
        approval.decide(by(Decision::Approve, "ada"));
        approval.decide(by(Decision::Approve, "ada"));
        assert!(approval.is_pending(), "one person approved twice");
        approval.decide(by(Decision::Approve, "bob"));
        assert_eq!(approval.status, ApprovalStatus::Approved);
        let mut approval = pending(2);
        approval.decide(by(Decision::Approve, "ada"));
        approval.decide(by(Decision::Reject, "bob"));
        assert_eq!(approval.status, ApprovalStatus::Rejected);
    }

    #[test]
    fn digest_depends_on_arguments_name_and_revision_alone() {
        let of = |text: &str, revision| digest("pay", &serde_json::from_str(text).unwrap(), revision);
        let known = of(r#"{"b": 1.0, "a": "€"}"#, 3);
        assert_eq!(known, of(r#"{"a":"\u20ac","b":1}"#, 3));
        assert_ne!(known, of(r#"{"a":"€","b":1}"#, 4));
        assert_ne!(known, of(r#"{"a":"€","b":2}"#, 3));
        let expected = "sha256:b14cecf0427c3847c3ae6f9884c737b282cd3e225dc04b02e01b9f90de701880";
        assert_eq!(digest("echo", &json!({}), 1), expected);
    }
}
