//! Reaching a call that is on its way: cancel it, report on it, post its result. A call of another node is reached
//! through the database.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::Engine;
use super::live::Handle;
use crate::domain::{Answer, Tenant};
use crate::executor::outside::Posted;
use crate::executor::report::Report;
use crate::store::StoreError;
use crate::store::inbox::Message;

/// How long a report waits until its call has taken in what it was told before.
const LISTENING: Duration = Duration::from_secs(2);

/// How long a result waits for its call to be handed out. One that still waits for its turn then takes none.
const HANDING_OUT: Duration = Duration::from_secs(1);

/// What became of something that was said to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// It arrived.
    Done,
    /// The call has ended already, or has its result.
    TooLate,
    /// Nobody outside works on this call.
    NotAwaited,
    /// It has not yet taken in what it was told before.
    Busy,
    /// There is no such call.
    NoSuchCall,
}

/// What is said to a call, as it is left for another node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Said {
    Cancel,
    Progress { report: Value },
    Result { answer: WireAnswer },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireAnswer {
    Nothing,
    Text(String),
    Json(Value),
    Image { data: String, mime_type: String },
}

impl Said {
    fn name(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Progress { .. } => "progress",
            Self::Result { .. } => "result",
        }
    }
}

impl Engine {
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
    pub async fn cancel(&self, tenant: &Tenant, id: Uuid) -> Result<Reached, StoreError> {
        if self.owner_of(id).await?.as_ref() != Some(tenant) {
            return Ok(Reached::NoSuchCall);
        }
        if let Some(handle) = self.live.get(id) {
            handle.cancel.cancel();
            return Ok(Reached::Done);
        }
        self.say_elsewhere(id, Said::Cancel).await
    }

    /// Reports on a call for its tool, which has shown that it may, whosever the call is: `value` is what `report` was read
    /// from.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn report(&self, id: Uuid, report: Report, value: Value) -> Result<Reached, StoreError> {
        if let Some(handle) = self.live.get(id) {
            // A call that waits listens no more than so much; whoever reports does not wait with it.
            let told = tokio::time::timeout(LISTENING, report.tell(&handle.emitter)).await;
            return Ok(if told.is_ok() { Reached::Done } else { Reached::Busy });
        }
        self.say_elsewhere(id, Said::Progress { report: value }).await
    }

    /// Posts the result of a call whose work is done outside, for somebody who has shown that they may. The first one wins.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn post_result(&self, id: Uuid, answer: Answer) -> Result<Reached, StoreError> {
        if let Some(handle) = self.live.get(id) {
            if handle.may_be_outside {
                // Whoever was just told of the call may be faster than it is.
                let _ = tokio::time::timeout(HANDING_OUT, handle.outside.opened()).await;
            }
            return Ok(posted(handle.outside.post(answer)));
        }
        let answer = match answer {
            Answer::Text(text) => WireAnswer::Text(text),
            Answer::Json(value) => WireAnswer::Json(value),
            Answer::Data(value) => WireAnswer::Json(Arc::unwrap_or_clone(value)),
            Answer::Image { bytes, mime_type } => WireAnswer::Image { data: STANDARD.encode(bytes), mime_type },
            Answer::Nothing | Answer::Outcome(_) => WireAnswer::Nothing,
        };
        self.say_elsewhere(id, Said::Result { answer }).await
    }

    /// The call is not here: it has ended, or another node has it.
    async fn say_elsewhere(&self, id: Uuid, said: Said) -> Result<Reached, StoreError> {
        let Some(call) = self.stores.calls_of_anybody(&[id]).await?.pop() else { return Ok(Reached::NoSuchCall) };
        if call.status.is_terminal() {
            return Ok(Reached::TooLate);
        }
        if let Some(handle) = self.live.get(id) {
            // It has come to this node meanwhile.
            return Ok(self.hear(&handle, said).await);
        }
        let body = serde_json::to_string(&said).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let message = Message { call: id, kind: said.name().to_owned(), body };
        let taken = self.stores.leave_message(self.ids.next(), &message).await?;
        Ok(if taken { Reached::Done } else { Reached::TooLate })
    }

    async fn hear(&self, handle: &Handle, said: Said) -> Reached {
        match said {
            Said::Cancel => handle.cancel.cancel(),
            Said::Progress { report } => {
                // It was read once already, where it came in.
                if let Ok(report) = Report::read(report) {
                    // Never waited for: this node has to say meanwhile that it lives.
                    let _ = tokio::task::unconstrained(report.tell(&handle.emitter)).now_or_never();
                }
            }
            Said::Result { answer } => {
                let answer = match answer {
                    WireAnswer::Nothing => Answer::Nothing,
                    WireAnswer::Text(text) => Answer::Text(text),
                    WireAnswer::Json(value) => Answer::Json(value),
                    WireAnswer::Image { data, mime_type } => match STANDARD.decode(data) {
                        Ok(bytes) => Answer::Image { bytes, mime_type },
                        Err(_) => Answer::Nothing,
                    },
                };
                return posted(handle.outside.post(answer));
            }
        }
        Reached::Done
    }

    /// Hears what other nodes have left for calls of this one. A cancel and a result stay until their call has ended, so
    /// that whoever goes on with it hears them too; hearing them again changes nothing. It never waits for a call.
    pub(super) async fn hear_messages(&self) -> Result<(), StoreError> {
        if !self.stores.has_messages().await? {
            return Ok(());
        }
        self.stores.forget_messages_of_ended().await?;
        let (mut after, mut full) = (Uuid::nil(), HashSet::new());
        loop {
            let page = self.stores.messages(&self.settings.node, after).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            for (id, Message { call, body, .. }) in page {
                // A call that this node has left stays where it is, with what was said to it.
                let Some(handle) = self.live.get(call) else { continue };
                let is_heard = match serde_json::from_str(&body) {
                    Ok(Said::Progress { .. }) if full.contains(&call) => false,
                    Ok(said @ Said::Progress { .. }) => self.hear(&handle, said).now_or_never().is_some(),
                    Ok(said) => {
                        self.hear(&handle, said).await;
                        continue;
                    }
                    Err(error) => {
                        tracing::error!(%call, %error, "a message about a call cannot be read");
                        true
                    }
                };
                if is_heard {
                    self.stores.forget_message(id).await?;
                } else {
                    // Its earlier reports are not recorded yet; later ones wait for their turn.
                    full.insert(call);
                }
            }
        }
    }

    /// Whether only a token speaks for this call. Of one that there is not, it does not.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn has_token(&self, id: Uuid) -> Result<bool, StoreError> {
        if let Some(handle) = self.live.get(id) {
            return Ok(handle.has_token);
        }
        let Some(call) = self.stores.calls_of_anybody(&[id]).await?.pop() else { return Ok(false) };
        let shelf = self.registry.open(&self.stores.of(&call.tenant)).await?;
        Ok(shelf.snapshot().get(&call.name).is_some_and(|entry| entry.definition.has_token()))
    }
}

fn posted(posted: Posted) -> Reached {
    match posted {
        Posted::Accepted => Reached::Done,
        Posted::TooLate => Reached::TooLate,
        Posted::NotAwaited => Reached::NotAwaited,
    }
}
