//! Approvals of calls. The row of an approval is the truth about its decisions: each change compares the state that it
//! was made for, so that one of several concurrent deciders wins.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::callbacks::Notification;
use super::inbox::Message;
use super::{Store, StoreError, Stores, codec};
use toolpost_core::domain::{Approval, ApprovalDecision, ApprovalStatus, Call, Session, Status, Tenant, Time};

/// The number of an approval whose call has ended without a decision.
const VOID: i16 = 4;

/// A stored approval.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredApproval {
    /// The call.
    pub call_id: Uuid,
    /// The tenant of the call.
    pub tenant: Tenant,
    /// The tool.
    pub tool: Arc<str>,
    /// The session of the call.
    pub session: Option<Arc<str>>,
    /// The approval.
    pub approval: Approval,
    /// The arguments of the last approver who changed them.
    pub arguments: Option<Value>,
    /// Whether the call has ended without a decision.
    pub is_void: bool,
}

/// The conditions for a page of approvals, oldest first.
#[derive(Debug, Clone)]
pub struct ApprovalFilter {
    /// The state.
    pub status: ApprovalStatus,
    /// The session of the calls.
    pub session: Option<String>,
    /// The tool of the calls.
    pub name: Option<String>,
    /// Newer than this call, the last one of the previous page.
    pub after: Uuid,
    /// Maximum number of approvals in the page.
    pub limit: u32,
}

/// The decisions that count for the rest of a session.
#[derive(Debug, Clone)]
pub struct RememberedApproval<'a> {
    /// The session.
    pub session: &'a Session,
    /// The decisions.
    pub decisions: &'a [ApprovalDecision],
}

/// The row of an approval as it is read.
type Row = (Uuid, Tenant, String, Option<String>, i16, String, Option<String>);

const SELECT: &str = "SELECT call_id, tenant, tool, session, status, state, arguments FROM approvals WHERE ";

impl StoredApproval {
    /// Returns the row of a call that has an approval, as the call shows it.
    #[must_use]
    pub fn of(call: &Call) -> Option<Self> {
        Some(Self {
            call_id: call.id,
            tenant: call.tenant.clone(),
            tool: call.name.clone(),
            session: call.session.clone(),
            approval: call.approval.as_deref()?.clone(),
            arguments: None,
            is_void: false,
        })
    }

    fn number(&self) -> i16 {
        if self.is_void { VOID } else { number(self.approval.status) }
    }

    fn decode((call_id, tenant, tool, session, status, state, arguments): Row) -> Result<Self, StoreError> {
        let corrupt = |error: serde_json::Error| StoreError::Corrupt(format!("the approval of {call_id}: {error}"));
        Ok(Self {
            call_id,
            tenant,
            tool: tool.into(),
            session: session.map(Into::into),
            approval: serde_json::from_str(&state).map_err(corrupt)?,
            arguments: arguments.map(|text| serde_json::from_str(&text)).transpose().map_err(corrupt)?,
            is_void: status == VOID,
        })
    }
}

/// Returns the number of a state in the database.
fn number(status: ApprovalStatus) -> i16 {
    ApprovalStatus::ALL.iter().position(|one| *one == status).map_or(0, |index| index as i16)
}

fn text_of(approval: &Approval) -> Result<String, StoreError> {
    serde_json::to_string(approval).map_err(|error| StoreError::Corrupt(error.to_string()))
}

impl Stores {
    /// Adds the approval of a call and its notification, unless the call has one.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn insert_approval(
        &self,
        new: &StoredApproval,
        notification: Option<&Notification>,
    ) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO approvals (shard, call_id, tenant, tool, session, status, state) \
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING call_id";
        let state = text_of(&new.approval)?;
        let inserted = self.db.transaction(async |transaction| {
            let query = transaction.query(SQL).bind_call(new.call_id).bind(&new.tenant);
            let query = query.bind(codec::indexed_name(&new.tool)).bind(new.session.as_deref()).bind(new.number());
            // Counts the returned rows: Citus reports a wrong number of inserted ones.
            if query.bind(&state).optional::<(Uuid,)>().await?.is_none() {
                return Ok(None);
            }
            if let Some(notification) = notification {
                notification.insert(transaction).await?;
            }
            Ok(Some(()))
        });
        inserted.await.map(drop)
    }

    /// Returns the approval of a call, if it has one.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn approval(&self, call: Uuid) -> Result<Option<StoredApproval>, StoreError> {
        let query = self.db.read(format!("{SELECT}shard = $1 AND call_id = $2")).bind_call(call);
        query.optional().await?.map(StoredApproval::decode).transpose()
    }

    /// Replaces an approval, if it is still `old`, and leaves a note for the node that owns the call, and a
    /// notification. Returns `false`
    /// if it has changed.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn change_approval(
        &self,
        old: &StoredApproval,
        new: &StoredApproval,
        note: Option<(Uuid, &Message)>,
        notification: Option<&Notification>,
        remembered: Option<RememberedApproval<'_>>,
    ) -> Result<bool, StoreError> {
        const UPDATE: &str = "UPDATE approvals SET status = $3, state = $4, arguments = $5 \
            WHERE shard = $1 AND call_id = $2 AND status = $6 AND state = $7";
        const NOTE: &str = "INSERT INTO inbox (shard, id, call_id, kind, body) VALUES ($1, $3, $2, $4, $5)";
        const REMEMBER: &str = "INSERT INTO remembered_approvals (tenant, session, digest, created_at, state) \
            VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, session, digest) DO UPDATE \
            SET created_at = excluded.created_at, state = excluded.state";
        let arguments = new.arguments.as_ref().map(Value::to_string);
        let (before, after) = (text_of(&old.approval)?, text_of(&new.approval)?);
        let changed = self.db.transaction(async |transaction| {
            let update = transaction.query(UPDATE).bind_call(old.call_id).bind(new.number()).bind(&after);
            if update.bind(&arguments).bind(old.number()).bind(&before).execute().await? == 0 {
                return Ok(None);
            }
            if let Some((id, Message { call, kind, body })) = note {
                transaction.query(NOTE).bind_call(*call).bind(id).bind(kind).bind(body).execute().await?;
            }
            if let Some(notification) = notification {
                notification.insert(transaction).await?;
            }
            if let Some(RememberedApproval { session, decisions }) = remembered {
                let state = serde_json::to_string(decisions).map_err(|error| StoreError::Corrupt(error.to_string()))?;
                let query = transaction.query(REMEMBER).bind(&new.tenant).bind(&*session.id);
                query.bind(&new.approval.digest).bind(session.created_at).bind(state).execute().await?;
            }
            Ok(Some(()))
        });
        Ok(changed.await?.is_some())
    }

    /// Returns the decisions that approve calls with this digest for the rest of the session. Empty if nothing is
    /// remembered.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn remembered_approval(
        &self,
        tenant: &Tenant,
        (session, created_at): (&str, Time),
        digest: &str,
    ) -> Result<Vec<ApprovalDecision>, StoreError> {
        const SQL: &str = "SELECT state FROM remembered_approvals \
            WHERE tenant = $1 AND session = $2 AND digest = $3 AND created_at = $4";
        let query = self.db.read(SQL).bind(tenant).bind(session).bind(digest).bind(created_at);
        let Some((state,)) = query.optional::<(String,)>().await? else { return Ok(Vec::new()) };
        let corrupt = |error: serde_json::Error| StoreError::Corrupt(format!("a remembered approval: {error}"));
        serde_json::from_str(&state).map_err(corrupt)
    }
}

impl Store {
    /// Shows the current approvals of calls that still show a pending one of the same arguments. A decision is acknowledged before the node of
    /// the call has read it, or after that node was lost.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn show_approvals(&self, calls: &mut [Call]) -> Result<(), StoreError> {
        let is_pending =
            |call: &Call| call.status == Status::Wait && call.approval.as_deref().is_some_and(Approval::is_pending);
        let pending: Vec<Uuid> = calls.iter().filter(|call| is_pending(call)).map(|call| call.id).collect();
        if pending.is_empty() {
            return Ok(());
        }
        let query = self.db.read(SELECT).push_calls(["shard", "call_id"], &pending).uncached();
        for row in query.all().await? {
            let row = StoredApproval::decode(row)?;
            // A digest of other arguments must not be shown next to those that the call shows.
            let is_shown = |call: &Call| {
                call.id == row.call_id && call.approval.as_deref().is_some_and(|own| own.digest == row.approval.digest)
            };
            if !row.is_void
                && row.arguments.is_none()
                && let Some(call) = calls.iter_mut().find(|call| is_shown(call))
            {
                // The call waits, so this cannot fail.
                let _ = call.set_approval(row.approval);
            }
        }
        Ok(())
    }

    /// Returns the ids of the calls of a page of approvals, oldest first.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the database fails.
    pub async fn approvals(&self, filter: &ApprovalFilter) -> Result<Vec<Uuid>, StoreError> {
        let ApprovalFilter { status, session, name, after, limit } = filter;
        let query = self.db.read("SELECT call_id FROM approvals WHERE tenant = ").push_bind(&self.tenant);
        let query = query.push(" AND status = ").push_bind(number(*status)).push(" AND call_id > ").push_bind(*after);
        let query = query.push_some(" AND session = ", session.as_ref());
        let query = query.push_some(" AND tool = ", name.as_deref().map(codec::indexed_name));
        query.push(" ORDER BY call_id LIMIT ").push_bind(i64::from(*limit)).column().await
    }
}
