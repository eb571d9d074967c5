//! Reaching a call that is on its way: cancel it, report on it, post its result. Whatever is said to a call is on disk for
//! whichever node has the call, or recorded, before it is acknowledged: the node that is asked may have lost the call
//! without knowing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::control_message::ControlMessage;
use super::inbox::Inbox;
use super::live::{CallHandle, LiveCalls};
use crate::domain::{Call, IdGenerator, Phase, Status, Tenant, ToolOutput};
use crate::executor::report::Report;
use crate::registry::{Entry, Registry};
use crate::store::{StoreError, Stores};

/// How long a report waits until its call has recorded it.
const LISTENING: Duration = Duration::from_secs(2);

/// How long a result waits for its call to be handed out. One that still waits for its turn then takes none.
const HANDING_OUT: Duration = Duration::from_secs(1);

/// How long a call that can be reached may take until it is on disk.
const WRITTEN: Duration = Duration::from_secs(2);

/// How long a result waits to be known as the end of a call of another node: longer than a lost node's lease.
const DECIDING: Duration = Duration::from_secs(30);

/// Between two looks at a call.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What became of something that was said to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlOutcome {
    /// It is on disk.
    Delivered,
    /// The call has ended already, or has its result.
    TooLate,
    /// Nobody outside works on this call.
    NotExternal,
    /// It has not yet taken in what it was told before, or it is about to end.
    Busy,
    /// There is no such call.
    NoSuchCall,
}

/// Where a call is, as the database has it.
enum Standing {
    /// There is no such call.
    Nowhere,
    /// It can be reached here, and is not on disk yet.
    Unwritten,
    /// It has ended.
    Ended,
    /// This node has it.
    Here(Box<CallHandle>),
    /// Another node has it, or none has it now.
    Elsewhere(Box<Call>),
}

/// Reaches calls on their way, wherever they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach<'a> {
    pub registry: &'a Registry,
    pub stores: &'a Stores,
    pub ids: &'a IdGenerator,
    pub node: &'a Arc<str>,
    pub live: &'a LiveCalls,
    pub inbox: &'a Inbox,
}

impl Reach<'_> {
    /// Whose a call is; `None` if there is no such call.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn owner_of(&self, id: Uuid) -> Result<Option<Tenant>, StoreError> {
        match self.live.get(id) {
            Some(handle) => Ok(Some(handle.tenant)),
            None => self.stores.owner_of(id).await,
        }
    }

    /// Wants a tenant's call to end. One that has ended is left as it is.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn cancel(&self, tenant: &Tenant, id: Uuid) -> Result<ControlOutcome, StoreError> {
        if self.owner_of(id).await?.as_ref() != Some(tenant) {
            return Ok(ControlOutcome::NoSuchCall);
        }
        self.cancel_here(id);
        self.written(id).await?;
        self.cancel_each(&[id]).await?;
        Ok(ControlOutcome::Delivered)
    }

    /// At once, whatever the database does. Where the call is another node's by now, this changes nothing.
    fn cancel_here(&self, id: Uuid) {
        if let Some(handle) = self.live.get(id) {
            handle.cancel.cancel();
        }
    }

    /// Wants calls to end that are on disk.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn cancel_each(&self, ids: &[Uuid]) -> Result<(), StoreError> {
        let mut calls = Vec::with_capacity(ids.len());
        for id in ids {
            self.cancel_here(*id);
            calls.push((self.ids.next(), *id));
        }
        let body = ControlMessage::Cancel.message(Uuid::nil())?.body;
        self.stores.leave_cancels(&calls, &body).await
    }

    /// Reports on a call for its tool, which has shown that it may, whosever the call is: `value` is what `report` was read
    /// from.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn report(
        &self,
        id: Uuid,
        report: Report,
        value: serde_json::Value,
    ) -> Result<ControlOutcome, StoreError> {
        if let Some(handle) = self.live.get(id)
            && handle.emitter.is_recorded()
            && !report.is_empty()
        {
            let told = async { report.tell(&handle.emitter).await.await };
            match tokio::time::timeout(LISTENING, told).await {
                Ok(Ok(())) => return Ok(ControlOutcome::Delivered),
                // It has ended, or is another node's by now.
                Ok(Err(_)) => {}
                Err(_) => return Ok(ControlOutcome::Busy),
            }
        }
        self.written(id).await?;
        let said = ControlMessage::Progress { report: value }.message(id)?;
        let is_taken = self.stores.leave_message(self.ids.next(), &said).await?;
        if is_taken {
            self.inbox.process_messages_of(id).await;
            return Ok(ControlOutcome::Delivered);
        }
        Ok(match self.standing(id).await? {
            Standing::Nowhere => ControlOutcome::NoSuchCall,
            Standing::Ended => ControlOutcome::TooLate,
            Standing::Unwritten | Standing::Here(_) | Standing::Elsewhere(_) => ControlOutcome::Busy,
        })
    }

    /// Posts the result of a call whose work is done outside, for somebody who has shown that they may. The first one wins.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn post_result(&self, id: Uuid, answer: ToolOutput) -> Result<ControlOutcome, StoreError> {
        let said = ControlMessage::Result { answer: answer.into() }.message(id)?;
        let until = Instant::now() + HANDING_OUT;
        loop {
            let is_last_look = Instant::now() >= until;
            let otherwise = match self.standing(id).await? {
                Standing::Nowhere => return Ok(ControlOutcome::NoSuchCall),
                Standing::Ended => return Ok(ControlOutcome::TooLate),
                Standing::Unwritten => ControlOutcome::Busy,
                Standing::Here(handle) if !handle.may_be_outside => return Ok(ControlOutcome::NotExternal),
                Standing::Here(handle) if handle.outside.is_answered() => return Ok(ControlOutcome::TooLate),
                Standing::Here(handle) => match handle.outside.posting() {
                    Some(_posting) => {
                        if !self.stores.leave_message(self.ids.next(), &said).await? {
                            return Ok(ControlOutcome::TooLate);
                        }
                        self.inbox.process_messages_of(id).await;
                        let is_late = handle.outside.is_answered();
                        return Ok(if is_late { ControlOutcome::TooLate } else { ControlOutcome::Delivered });
                    }
                    // The result may be faster than the call.
                    None if handle.outside.is_shut() => ControlOutcome::NotExternal,
                    None => ControlOutcome::Busy,
                },
                Standing::Elsewhere(call) if !self.is_for_outside(&call).await? => {
                    return Ok(ControlOutcome::NotExternal);
                }
                Standing::Elsewhere(call) if call.status == Status::Doing => {
                    let is_first = self.stores.leave_message(self.ids.next(), &said).await?;
                    if !is_first && self.stores.posted_result(id).await?.as_ref() != Some(&said.body) {
                        return Ok(ControlOutcome::TooLate);
                    }
                    return match self.can_only_be_posted(&call).await? {
                        true => Ok(if is_first { ControlOutcome::Delivered } else { ControlOutcome::TooLate }),
                        false => self.counts_elsewhere(id).await,
                    };
                }
                Standing::Elsewhere(_) => ControlOutcome::NotExternal,
            };
            if is_last_look {
                return Ok(otherwise);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Waits until it is known whether a posted result, which is on disk, is the end of a call of another node: the tool may
    /// answer the request that runs it as well, and the answer counts if it comes first.
    async fn counts_elsewhere(&self, id: Uuid) -> Result<ControlOutcome, StoreError> {
        let until = Instant::now() + DECIDING;
        loop {
            match self.stores.calls_of_any_tenant(&[id]).await?.pop() {
                None => return Ok(ControlOutcome::NoSuchCall),
                Some(call) if call.has_posted_result => return Ok(ControlOutcome::Delivered),
                Some(call) if call.status.is_terminal() => return Ok(ControlOutcome::TooLate),
                Some(call) if call.phase == Phase::External => return Ok(ControlOutcome::Delivered),
                Some(_) if Instant::now() >= until => return Ok(ControlOutcome::Busy),
                Some(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Whether a call's work may be done outside.
    async fn is_for_outside(&self, call: &Call) -> Result<bool, StoreError> {
        let may_post = |entry: &Entry| entry.works_outside() || entry.definition.has_token();
        Ok(call.phase == Phase::External || self.has_tool(call, may_post).await?)
    }

    /// Whether a running call ends with a posted result or not at all.
    async fn can_only_be_posted(&self, call: &Call) -> Result<bool, StoreError> {
        Ok(call.phase == Phase::External || self.has_tool(call, Entry::works_outside).await?)
    }

    /// Whether a call's tool is known, and is like this.
    async fn has_tool(&self, call: &Call, is_so: impl Fn(&Entry) -> bool) -> Result<bool, StoreError> {
        let store = self.stores.of(&call.tenant);
        let shelf = self.registry.open(&store).await?;
        let look = || {
            let snapshot = shelf.snapshot();
            let entry = snapshot.get(&call.name).or_else(|| snapshot.system(&call.name));
            entry.map(|entry| is_so(entry))
        };
        if let Some(known) = look() {
            return Ok(known);
        }
        // Another node may have registered it just now.
        self.registry.reload(&store).await?;
        Ok(look().unwrap_or(false))
    }

    async fn standing(&self, id: Uuid) -> Result<Standing, StoreError> {
        let handle = self.live.get(id);
        let call = self.stores.calls_of_any_tenant(&[id]).await?.pop();
        Ok(match (call, handle) {
            (None, None) => Standing::Nowhere,
            (None, Some(_)) => Standing::Unwritten,
            (Some(call), _) if call.status.is_terminal() => Standing::Ended,
            (Some(call), Some(handle)) if call.node == *self.node => Standing::Here(Box::new(handle)),
            (Some(call), _) => Standing::Elsewhere(Box::new(call)),
        })
    }

    /// Waits until a call that can be reached here is on disk, too: it is about to be written.
    async fn written(&self, id: Uuid) -> Result<(), StoreError> {
        let until = Instant::now() + WRITTEN;
        while self.live.get(id).is_some() && Instant::now() < until && self.stores.owner_of(id).await?.is_none() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Whether only a token speaks for this call. Of one that there is not, it does not.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn has_token(&self, id: Uuid) -> Result<bool, StoreError> {
        if let Some(handle) = self.live.get(id) {
            return Ok(handle.has_token);
        }
        let Some(call) = self.stores.calls_of_any_tenant(&[id]).await?.pop() else { return Ok(false) };
        self.has_tool(&call, |entry| entry.definition.has_token()).await
    }
}
