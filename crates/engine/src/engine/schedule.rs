//! The schedule of a batch: which calls run together, and which wait for their turn.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Engine;
use super::call::Steps;
use super::call::log::Recorded;
use super::call::state::Planned;
use crate::dispatch::Mode;
use crate::interrupt::{Interrupt, Race};
use toolpost_core::domain::Failure;

/// Starts the turn of a call. The value is `true` if an earlier call of the batch could not be recorded in time.
type Gate = oneshot::Sender<bool>;

/// Runs the calls of a batch in their turns.
pub(super) async fn run_all(engine: Arc<Engine>, batch: Vec<Planned>, mode: Mode) {
    let mut groups = groups(batch, mode).into_iter();
    let Some(first) = groups.next() else { return };
    // Waiting calls are published, so that they can be observed and cancelled.
    let mut later = Vec::new();
    for group in groups {
        let mut gates = Vec::new();
        for mut planned in group {
            planned.run.announce().await;
            let (gate, opened) = oneshot::channel();
            gates.push((gate, engine.tasks.spawn(run_in_turn(engine.clone(), planned, opened))));
        }
        later.push(gates);
    }
    let mut is_late = run_together(&engine, first).await;
    for gates in later {
        let (gates, ends): (Vec<Gate>, Vec<JoinHandle<Recorded>>) = gates.into_iter().unzip();
        for gate in gates {
            // A call that was cancelled in the meantime has dropped its receiver.
            let _ = gate.send(is_late);
        }
        is_late |= join_all(ends).await.into_iter().flatten().any(|end| end == Recorded::Late);
    }
}

/// Runs a call in a task of its own.
pub(super) fn spawn(engine: &Arc<Engine>, planned: Planned) -> JoinHandle<Recorded> {
    let runner = engine.clone();
    engine.tasks.spawn(async move { Steps::new(&runner).run(planned).await })
}

/// Runs calls concurrently. Returns `true` if a call could not be recorded in time.
async fn run_together(engine: &Arc<Engine>, mut batch: Vec<Planned>) -> bool {
    match batch.pop() {
        Some(alone) if batch.is_empty() && !alone.is_asynchronous() => {
            Steps::new(engine).run(alone).await == Recorded::Late
        }
        last => {
            let mut awaited = Vec::new();
            for planned in batch.into_iter().chain(last) {
                let is_asynchronous = planned.is_asynchronous();
                let task = spawn(engine, planned);
                if !is_asynchronous {
                    awaited.push(task);
                }
            }
            join_all(awaited).await.into_iter().flatten().any(|end| end == Recorded::Late)
        }
    }
}

/// Waits for the turn of a call, and runs it. An interrupted call is settled, or left to the next start.
async fn run_in_turn(engine: Arc<Engine>, mut planned: Planned, opened: oneshot::Receiver<bool>) -> Recorded {
    let cancel = planned.run.cancel().clone();
    let race =
        Race::new(&cancel, &engine.shutdown).left_on_drain(planned.run.is_detached(), &engine.shutdown).work_first();
    let mut opened = opened;
    let running = async {
        if let Some(parked) = planned.run.parked().cloned() {
            tokio::select! {
                biased;
                opened = &mut opened => return opened,
                // An earlier call waits for a person, so the caller does not wait for this one either.
                () = parked.cancelled() => planned.run.park(),
            }
        }
        opened.await
    };
    match race.run(running).await {
        Ok(Ok(true)) => planned.reject_late(),
        Ok(_) => {}
        // The call is committed, and its caller does not wait: the next start continues it.
        Err(Interrupt::Drained) => {
            planned.run.leave();
            return Recorded::InTime;
        }
        Err(Interrupt::Stopping) => planned.interrupt(Failure::shutting_down()),
        Err(Interrupt::Cancelled | Interrupt::TimedOut(..)) => planned.interrupt(Failure::cancelled()),
    }
    if planned.is_asynchronous() {
        // Other calls of the batch do not wait for an asynchronous call.
        spawn(&engine, planned);
        return Recorded::InTime;
    }
    Steps::new(&engine).run(planned).await
}

/// Groups calls into turns, in order. The calls of a turn run together.
fn groups(batch: Vec<Planned>, mode: Mode) -> Vec<Vec<Planned>> {
    if batch.len() == 1 {
        return vec![batch];
    }
    let mut groups: Vec<Vec<Planned>> = Vec::new();
    let mut last_is_open = false;
    for planned in batch {
        let open = match mode {
            Mode::Auto => planned.is_concurrency_safe() || planned.is_asynchronous(),
            Mode::Parallel => true,
            Mode::Serial => false,
        };
        match groups.last_mut() {
            Some(group) if open && last_is_open => group.push(planned),
            _ => groups.push(vec![planned]),
        }
        last_is_open = open;
    }
    groups
}
