//! The third step of a call: its arguments are complete, its hooks are asked, and it gets what it runs with.

use std::sync::Arc;

use super::equip::{Equipment, Equipper};
use super::gather::Gatherer;
use super::hooks::CallHooks;
use super::state::{Begin, Executed, Next, Ongoing, Planned, Stop};
use crate::dispatch::QueuedSlot;
use crate::domain::Failure;
use crate::engine::turns::Permit;
use crate::registry::Entry;

/// A call that is ready to run.
#[derive(Debug)]
pub(super) struct Prepared {
    pub job: Box<Ongoing>,
    pub entry: Arc<Entry>,
    /// What only its executor sees.
    pub equipment: Equipment,
    /// Its place in the queue, where it was taken beforehand.
    pub place: Option<QueuedSlot>,
    /// Its turn among the calls of one stream.
    pub turn: Option<Permit>,
}

impl Prepared {
    /// Ends the call before it was admitted.
    pub fn ended(self, end: Stop) -> Executed {
        let Self { job, entry, equipment, turn, .. } = self;
        Executed { job, entry: Some(entry), equipment, turn, call_end: None, end }
    }
}

/// Prepares calls.
#[derive(Debug)]
pub(super) struct Preparer<'a> {
    pub gatherer: Gatherer<'a>,
    pub hooks: CallHooks<'a>,
    pub equipper: Equipper<'a>,
}

impl Preparer<'_> {
    /// Prepares a call.
    ///
    /// # Errors
    /// Returns the call with its end if it must not run.
    pub async fn prepare(&self, mut planned: Planned) -> Result<Prepared, Executed> {
        let mut turn = None;
        if let Some(draft) = planned.ongoing.handle.draft.clone() {
            // Boxed: few calls come this way.
            match Box::pin(self.gatherer.gather(&mut planned, &draft)).await {
                Ok(permit) => turn = permit,
                Err(end) => return Err(planned.ended(end)),
            }
        }
        let entry = match &mut planned.next {
            Next::Run(entry) => entry.clone(),
            Next::Refuse(failure) => {
                let end = failure.taken().into();
                return Err(Executed { turn, ..planned.ended(end) });
            }
        };
        let Planned { ongoing: job, place, .. } = planned;
        let mut prepared = Prepared { job, entry, equipment: Equipment::default(), place, turn };
        match self.complete(&mut prepared).await {
            Ok(()) => Ok(prepared),
            Err(end) => Err(prepared.ended(end)),
        }
    }

    async fn complete(&self, prepared: &mut Prepared) -> Result<(), Stop> {
        let Prepared { job, entry, equipment, place, .. } = prepared;
        self.hooks.before(job, entry, place).await?;
        let Ongoing { call, begin, .. } = &mut **job;
        let is_handed_out = matches!(begin, Begin::Outside | Begin::Lost);
        let equipped = self.equipper.equip(call, equipment, entry, *begin == Begin::Start, is_handed_out);
        if job.begin == Begin::Lost {
            return Err(Failure::outcome_unknown(&entry.name).into());
        }
        equipped.map_err(|failure| *failure)?;
        Ok(())
    }
}
