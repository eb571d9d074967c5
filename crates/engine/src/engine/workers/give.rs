//! Gives the calls of queues to waiting workers. One commit serves the waiting claims of one queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::engine::Engine;
use crate::engine::control_message::{ControlMessage, WireOutput};
use crate::engine::tool_lookups::access_of;
use crate::inputs::{ExecutorInputs, InputInjector};
use crate::workqueue::{Batch, ClaimError, ClaimedCall, MAX_CLAIMED, OfferedCall, Shares};
use toolpost_core::domain::{Call, Failure};
use toolpost_core::fault::{self, Point};
use toolpost_store::store::StoreError;
use toolpost_store::store::signals::{Hint, HintReceiver, QueueKey};
use toolpost_store::store::workers::Claim;

/// Pause after a failure of the database.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Serves waiting claims. `poll` is the interval at which the queues of waiting workers are read without a signal.
pub(super) async fn run(engine: &Arc<Engine>, mut work: HintReceiver<QueueKey>, poll: Option<Duration>) {
    let polled = async |poll: Option<Duration>| match poll {
        Some(poll) => tokio::time::sleep(poll).await,
        None => std::future::pending().await,
    };
    let (claims, mut has_failed) = (&engine.workqueue.claims, false);
    loop {
        let poll = if has_failed { Some(RETRY_AFTER) } else { poll };
        tokio::select! {
            () = claims.woken() => {}
            undelivered = claims.undelivered() => {
                take_back(engine, &undelivered).await;
                claims.note_work(&Hint::Any);
            }
            hint = work.recv() => claims.note_work(&hint),
            () = polled(poll) => claims.note_work(&Hint::Any),
        }
        has_failed = false;
        for batch in claims.take() {
            has_failed |= !serve(engine, batch).await;
        }
    }
}

/// Serves the claims of one group. Claims without a call wait on. Returns `false` if the database has failed.
async fn serve(engine: &Arc<Engine>, batch: Batch) -> bool {
    let Shares { owners, workers } = Shares::new(&batch.claims, MAX_CLAIMED);
    let claimed = match claim(engine, &batch, &workers).await {
        Ok(claimed) => claimed,
        Err(error) => {
            tracing::debug!(queue = &*batch.group.queue, %error, "cannot claim calls");
            batch.claims.into_iter().for_each(|claim| drop(claim.answer.send(Err(ClaimError))));
            return false;
        }
    };
    // The queue has more calls than one commit gives away.
    let is_full = claimed.len() == owners.len();
    let mut assigned: Vec<Vec<ClaimedCall>> = batch.claims.iter().map(|_| Vec::new()).collect();
    let own: Vec<_> = claimed.iter().map(|claim| own_call(engine, claim)).collect();
    let others: Vec<Uuid> =
        claimed.iter().zip(&own).filter(|(_, own)| own.is_none()).map(|(claim, _)| claim.call).collect();
    let mut calls = read(engine, &others).await;
    let mut is_complete = true;
    for ((claim, own), owner) in claimed.into_iter().zip(own).zip(owners) {
        let claimed_call = match &mut calls {
            _ if own.is_some() => Ok(own),
            Ok(calls) => prepare(engine, &claim, calls.remove(&claim.call)).await,
            Err(_) => Err(()),
        };
        match claimed_call {
            Ok(claimed_call) => {
                if let Some(assigned) = assigned.get_mut(owner) {
                    assigned.extend(claimed_call);
                }
            }
            Err(()) => {
                is_complete = false;
                take_back(engine, std::slice::from_ref(&claim)).await;
            }
        }
    }
    answer(engine, batch, assigned, is_full);
    is_complete
}

/// Answers claims with their calls: those at `n` of `assigned` are for claim `n`. Claims without a call wait on.
fn answer(engine: &Engine, mut batch: Batch, assigned: Vec<Vec<ClaimedCall>>, may_have_calls: bool) {
    let claims = &engine.workqueue.claims;
    let mut left = Vec::new();
    for (waiting, assigned) in std::mem::take(&mut batch.claims).into_iter().zip(assigned) {
        if assigned.is_empty() {
            left.push(waiting);
            continue;
        }
        let calls: Vec<(Uuid, u32)> = assigned.iter().map(|claimed| (claimed.call.id, claimed.attempt)).collect();
        if claims.answer(waiting, assigned) {
            calls.into_iter().for_each(|(call, attempt)| notify_owner(engine, call, attempt));
        }
    }
    claims.put_back(Batch { claims: left, ..batch }, may_have_calls);
}

/// Notifies the owner of a call that a worker has claimed an attempt.
fn notify_owner(engine: &Engine, call: Uuid, attempt: u32) {
    if !engine.workqueue.offers.note_claim(call, attempt) {
        engine.stores.signals().notify_inbox(call);
    }
}

/// Takes calls back that their workers did not receive, so that others get them. If this fails, their leases expire.
async fn take_back(engine: &Engine, claims: &[Claim]) {
    for claim in claims {
        if let Err(error) = engine.stores.unclaim(claim).await {
            tracing::debug!(id = %claim.call, %error, "cannot take back a call");
        }
    }
}

async fn claim(engine: &Engine, batch: &Batch, names: &[Arc<str>]) -> Result<Vec<Claim>, StoreError> {
    let Batch { group, allowed, .. } = batch;
    let queue = (&group.tenant, &*group.queue);
    let tools = match allowed {
        None => None,
        Some(allowed) => {
            let mut tools = engine.stores.waiting_tools(&group.tenant, &group.queue).await?;
            tools.retain(|tool| allowed.has(tool));
            if tools.is_empty() {
                return Ok(Vec::new());
            }
            Some(tools)
        }
    };
    fault::pass(Point::BeforeClaim);
    let claimed = engine.stores.claim(queue, tools.as_deref(), names, engine.node()).await?;
    fault::pass(Point::AfterClaim);
    Ok(claimed)
}

/// Returns a claimed call of this node without the database. Its inputs are complete.
fn own_call(engine: &Engine, claim: &Claim) -> Option<ClaimedCall> {
    let OfferedCall { call, arguments } = engine.workqueue.offers.content(claim.call).filter(|_| claim.is_own)?;
    Some(ClaimedCall { call, attempt: claim.attempt, lease_ms: claim.lease_ms, arguments })
}

async fn read(engine: &Engine, ids: &[Uuid]) -> Result<HashMap<Uuid, Call>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let calls = engine.stores.calls_of_any_tenant(ids).await?;
    Ok(calls.into_iter().filter(|call| !call.status.is_terminal()).map(|call| (call.id, call)).collect())
}

/// Adds the inputs that the row of the call does not contain. Ends the call if they are not available. Returns `None` for a
/// call that has ended, whose row is about to be deleted, and an error if the database fails.
async fn prepare(engine: &Arc<Engine>, claim: &Claim, call: Option<Call>) -> Result<Option<ClaimedCall>, ()> {
    let Some(mut call) = call else { return Ok(None) };
    let access = match access_of(engine, &call).await {
        Ok(access) => access,
        Err(error) => {
            tracing::debug!(id = %call.id, %error, "cannot read the tools of a claimed call");
            return Err(());
        }
    };
    let entry = {
        let snapshot = access.snapshot();
        let tool = snapshot.get(&call.name).or_else(|| snapshot.system(&call.name));
        match tool.map(|tool| tool.entry()) {
            Some(Ok(entry)) => Ok(entry),
            Some(Err(_)) => Err(Box::new(Failure::unavailable(&call.name))),
            None => Err(Box::new(snapshot.not_found(&call.name, None))),
        }
    };
    let mut inputs = ExecutorInputs::default();
    let injector = InputInjector { secrets: &engine.settings.secrets, vault: &engine.settings.vault };
    let injected = entry.and_then(|entry| injector.inject_inputs(&mut call, &mut inputs, &entry, false, false));
    if let Err(failure) = injected {
        end(engine, claim, *failure).await;
        return Ok(None);
    }
    let arguments = inputs.arguments.or(call.effective_arguments.clone()).unwrap_or_default();
    Ok(Some(ClaimedCall { call: call.into(), attempt: claim.attempt, lease_ms: claim.lease_ms, arguments }))
}

/// Ends a call that cannot be given to a worker.
async fn end(engine: &Engine, claim: &Claim, failure: Failure) {
    let text = failure.text.clone();
    let message =
        ControlMessage::Result { answer: WireOutput::Failure { failure, text }, digest: None }.message(claim.call);
    let ended = match message {
        Ok(message) => engine.stores.answer_offer(claim.attempt, engine.ids.next(), &message).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        tracing::debug!(id = %claim.call, %error, "cannot end a call that no worker can get");
    }
    engine.inbox.process_messages_of(claim.call).await;
    engine.workqueue.offers.wake(claim.call);
    if engine.live.get(claim.call).is_none() {
        engine.stores.signals().notify_inbox(claim.call);
    }
}
