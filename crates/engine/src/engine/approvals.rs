//! Decisions about calls that wait for approval. Any node takes a decision; the row of the approval admits one of several
//! concurrent ones, and the node that owns the call is notified.

use std::sync::Arc;

use serde_json::Value;

use super::approval_notices::ApprovalNotices;
use super::control_message::ControlMessage;
use super::inbox::Inbox;
use super::{Engine, Settings};
use crate::access::Access;
use crate::arguments::try_arguments;
use crate::policies::{Input, Policies, Verdict, decide};
use crate::registry::{Entry, Registry};
use toolpost_core::domain::approval::{ANONYMOUS, digest};
use toolpost_core::domain::policy::PolicyEffect;
use toolpost_core::domain::{
    Approval, ApprovalDecision, ApprovalStatus, Call, Clock, Decision, Failure, IdGenerator, Source,
};
use toolpost_core::fault::{self, Point};
use toolpost_core::schema::Violation;
use toolpost_store::store::approvals::{RememberedApproval, StoredApproval};
use toolpost_store::store::callbacks::Notification;
use toolpost_store::store::{StoreError, Stores};

/// A decision as it is requested.
#[derive(Debug, Clone)]
pub struct DecisionRequest {
    /// The decision.
    pub decision: Decision,
    /// The digest that the decider has seen.
    pub digest: String,
    /// The reason.
    pub reason: Option<String>,
    /// The arguments that replace those of the call.
    pub arguments: Option<Value>,
    /// Whether later calls with the same digest are approved for the rest of the session.
    pub is_remembered: bool,
}

/// An error returned when a decision was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The call waits for no approval.
    #[error("the call waits for no approval")]
    NotAwaited,
    /// The approval is decided, has expired, or its call has ended.
    #[error("the approval is decided already")]
    Decided,
    /// The digest is not that of the pending approval.
    #[error("the digest is not that of the pending approval, which is {0}; read the call again")]
    Stale(String),
    /// The caller made the call itself.
    #[error("the caller cannot approve its own call; another key or subject must do so")]
    Own,
    /// The tool has changed since the approval was requested, which is void then.
    #[error("the tool has changed since approval was requested; read the call again")]
    Changed,
    /// The call has no session that could remember the decision.
    #[error("the call has no session, so nothing can be remembered")]
    NoSession,
    /// The arguments do not match the schema of the tool.
    #[error("the arguments do not match the schema of the tool")]
    Invalid(Vec<Violation>),
    /// A policy forbids the call with these arguments.
    #[error("{0}")]
    Denied(String),
    /// The tool no longer exists.
    #[error("the tool no longer exists")]
    NoTool,
    /// The database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Takes decisions about calls on any node.
#[derive(Debug, Clone, Copy)]
pub struct Approvals<'a> {
    pub(super) registry: &'a Registry,
    pub(super) stores: &'a Stores,
    pub(super) clock: &'a Clock,
    pub(super) ids: &'a IdGenerator,
    pub(super) inbox: &'a Inbox,
    pub(super) policies: &'a Policies,
    pub(super) notices: ApprovalNotices<'a>,
    pub(super) allows_self: bool,
}

impl Engine {
    /// Returns the interface for decisions about calls that wait for approval.
    pub fn approvals(&self) -> Approvals<'_> {
        let Self { registry, stores, clock, ids, inbox, settings, .. } = self;
        Approvals {
            registry,
            stores,
            clock,
            ids,
            inbox,
            policies: &settings.policies,
            notices: self.approval_notices(),
            allows_self: settings.allows_self_approval,
        }
    }

    pub(super) fn approval_notices(&self) -> ApprovalNotices<'_> {
        let Self { ids, clock, settings: Settings { approvals_url, callbacks_due, .. }, .. } = self;
        ApprovalNotices { ids, clock, url: approvals_url.as_ref(), callbacks_due }
    }
}

impl Approvals<'_> {
    /// Returns `true` if the maker of a call may approve it.
    #[must_use]
    pub fn allow_self(&self) -> bool {
        self.allows_self
    }

    /// Records a decision about a call that the caller may reach. Returns the approval.
    ///
    /// # Errors
    /// Returns a [`DecideError`] if the decision does not count.
    pub async fn decide(
        &self,
        access: &Access,
        call: &Call,
        request: DecisionRequest,
    ) -> Result<Approval, DecideError> {
        let message = ControlMessage::Decision.message(call.id)?;
        loop {
            let Some(row) = self.stores.approval(call.id).await? else {
                self.insert(call).await?;
                continue;
            };
            let now = self.clock.now().whole_millis();
            let has_ended = row.is_void || call.status.is_terminal();
            if !row.approval.is_pending() || has_ended || row.approval.expires_at <= now {
                return Err(DecideError::Decided);
            }
            let by = access.caller().identity.as_ref().map(|identity| identity.subject.clone());
            let is_own = by.is_some() && by == row.approval.requested_by;
            if is_own && request.decision == Decision::Approve && !self.allows_self {
                return Err(DecideError::Own);
            }
            if row.approval.digest != request.digest {
                return Err(DecideError::Stale(row.approval.digest));
            }
            if request.decision == Decision::Approve && self.has_changed(&row, call).await {
                return Err(DecideError::Changed);
            }
            let by = by.as_deref().unwrap_or(ANONYMOUS).to_owned();
            let decision = ApprovalDecision { decision: request.decision, by, reason: request.reason.clone(), at: now };
            let mut new = row.clone();
            if let Some(arguments) = &request.arguments {
                self.edit(&mut new, arguments, call).await?;
            }
            new.approval.decide(decision);
            let session = match (request.is_remembered, &call.session) {
                (false, _) => None,
                (true, None) => return Err(DecideError::NoSession),
                (true, Some(session)) => access.store().session(session).await?,
            };
            // Only a complete approval is remembered.
            let session = session.as_ref().filter(|_| new.approval.status == ApprovalStatus::Approved);
            let remembered = session.map(|session| RememberedApproval { session, decisions: &new.approval.decisions });
            let note = Some((self.ids.next(), &message));
            let notice = self.notice(call, &row, &new).await;
            fault::pass(Point::BeforeApproval);
            if self.stores.change_approval(&row, &new, note, notice.as_ref(), remembered).await? {
                fault::pass(Point::AfterApproval);
                self.notices.wake();
                self.inbox.process_messages_of(call.id).await;
                self.stores.signals().notify_inbox(call.id);
                return Ok(new.approval);
            }
        }
    }

    /// Stores the approval of a call that has just begun to wait, before the node of the call does so.
    async fn insert(&self, call: &Call) -> Result<(), DecideError> {
        let row = StoredApproval::of(call).ok_or(DecideError::NotAwaited)?;
        if !row.approval.is_pending() || call.status.is_terminal() {
            return Err(DecideError::Decided);
        }
        let entry = self.entry(&row).await.ok();
        let notice = self.notices.about(call, &row.approval, entry.as_ref().map(|entry| &*entry.definition));
        self.stores.insert_approval(&row, notice.as_ref()).await?;
        self.notices.wake();
        Ok(())
    }

    /// Creates the notification about a decision that ends the approval, or about a new digest.
    async fn notice(&self, call: &Call, old: &StoredApproval, new: &StoredApproval) -> Option<Notification> {
        if new.approval.is_pending() && new.approval.digest == old.approval.digest {
            return None;
        }
        let entry = self.entry(new).await.ok();
        let mut shown = call.clone();
        if let Some(arguments) = &new.arguments {
            shown.set_effective_arguments(Arc::new(arguments.clone()));
        }
        self.notices.about(&shown, &new.approval, entry.as_ref().map(|entry| &*entry.definition))
    }

    /// Replaces the arguments. Earlier decisions were about others, so they no longer count.
    async fn edit(&self, row: &mut StoredApproval, arguments: &Value, call: &Call) -> Result<(), DecideError> {
        let entry = self.entry(row).await?;
        let checked = try_arguments(&entry, &Arc::new(arguments.clone())).map_err(DecideError::Invalid)?;
        let changed = digest(&row.tool, &checked.arguments, entry.made.revision.unsigned_abs());
        let tool = Some((&entry.definition, entry.made.source));
        let input = Input::new(call, tool, &checked.arguments, self.clock.now());
        let verdict = decide(self.policies.for_tenant(&row.tenant), input, self.policies.bounds()).await;
        if let Some(Verdict { policy, effect: PolicyEffect::Deny, reason, error }) = verdict {
            return Err(DecideError::Denied(
                Failure::policy_denied(&row.tool, &policy, reason.as_deref(), error.as_deref()).message,
            ));
        }
        if changed != row.approval.digest {
            row.arguments = Some(Arc::unwrap_or_clone(checked.arguments));
            row.approval.digest = changed;
            row.approval.decisions.clear();
        }
        Ok(())
    }

    /// Returns `true` if this node knows a definition of the tool that is newer than the request, and that the node of the
    /// call may not have followed yet. Only registered tools have the same revisions on all nodes.
    async fn has_changed(&self, row: &StoredApproval, call: &Call) -> bool {
        let entry = self.entry(row).await.ok().filter(|entry| entry.made.source == Source::Api);
        let Some(entry) = entry else { return false };
        let arguments = row.arguments.as_ref().or(call.effective_arguments.as_deref()).unwrap_or(&Value::Null);
        let current = digest(&row.tool, arguments, entry.made.revision.unsigned_abs());
        current != row.approval.digest && entry.made.updated_at > row.approval.requested_at
    }

    async fn entry(&self, row: &StoredApproval) -> Result<Arc<Entry>, DecideError> {
        let store = self.stores.for_tenant(&row.tenant);
        let catalog = self.registry.open(&store).await?;
        let snapshot = catalog.snapshot();
        let tool = snapshot.get(&row.tool).or_else(|| snapshot.system(&row.tool)).ok_or(DecideError::NoTool)?;
        tool.entry().map_err(|_| DecideError::NoTool)
    }
}
