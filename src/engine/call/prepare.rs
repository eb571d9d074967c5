//! The third step of a call: its arguments are complete, its hooks are asked, and it gets what it runs with.

use std::sync::Arc;

use super::equip::Equipper;
use super::gather::Gatherer;
use super::hooks::CallHooks;
use super::job::{Begin, Executed, Job, Next, Stop};
use crate::domain::Failure;
use crate::registry::Entry;

/// A call that is ready to run.
#[derive(Debug)]
pub(super) struct Prepared {
    pub job: Box<Job>,
    pub entry: Arc<Entry>,
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
    pub async fn prepare(&self, mut job: Box<Job>) -> Result<Prepared, Executed> {
        match self.entry_of(&mut job).await {
            Ok(entry) => Ok(Prepared { job, entry }),
            Err(end) => Err(Executed { job, end }),
        }
    }

    async fn entry_of(&self, job: &mut Job) -> Result<Arc<Entry>, Stop> {
        if let Some(draft) = job.handle.draft.clone() {
            // Boxed: few calls come this way.
            job.turn = Box::pin(self.gatherer.gather(job, &draft)).await?;
        }
        let entry = match &mut job.next {
            Next::Refuse(failure) => return Err(failure.taken().into()),
            Next::Run(entry) => entry.clone(),
        };
        self.hooks.before(job, &entry).await?;
        let Job { call, equipment, begin, .. } = &mut *job;
        let is_handed_out = matches!(begin, Begin::Outside | Begin::Lost);
        let equipped = self.equipper.equip(call, equipment, &entry, *begin == Begin::Start, is_handed_out);
        if job.begin == Begin::Lost {
            return Err(Failure::outcome_unknown(&entry.name).into());
        }
        equipped.map_err(|failure| *failure)?;
        Ok(entry)
    }
}
