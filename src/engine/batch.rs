//! Several calls of one request: which run together, and which wait for their turn.

use std::sync::Arc;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use super::Engine;
use super::prepare::Job;
use super::recorder::Recorded;

/// How the calls of a batch run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Neighbouring calls to concurrency-safe tools together, any other alone and in its turn.
    #[default]
    Auto,
    /// All at once.
    Parallel,
    /// One after another.
    Serial,
}

impl Engine {
    pub(super) async fn run_all(self: Arc<Self>, jobs: Vec<Job>, mode: Mode) {
        let mut turns = turns(jobs, mode);
        // Calls that have to wait are accepted now, so that they can be seen while they do.
        for job in turns.iter_mut().skip(1).flatten() {
            let change = job.recorder.change(&job.call);
            // Its receipt does not matter: whatever the call does next follows in the same queue.
            let _ = job.recorder.journal().enqueue(change).await;
        }
        let mut is_given_up = false;
        for mut turn in turns {
            if is_given_up {
                turn.iter_mut().for_each(Job::give_up);
            }
            let ends = match turn.pop() {
                Some(alone) if turn.is_empty() => vec![self.run_to_end(alone).await],
                last => {
                    let together = turn.into_iter().chain(last).map(|job| {
                        let engine = self.clone();
                        self.tasks.spawn(async move { engine.run_to_end(job).await })
                    });
                    join_all(together.collect::<Vec<_>>()).await.into_iter().flatten().collect()
                }
            };
            is_given_up |= ends.contains(&Recorded::Late);
        }
    }
}

/// The calls that run together, in the order of their turns.
fn turns(jobs: Vec<Job>, mode: Mode) -> Vec<Vec<Job>> {
    let mut turns: Vec<Vec<Job>> = Vec::new();
    let mut last_is_open = false;
    for job in jobs {
        let open = match mode {
            Mode::Auto => job.is_concurrency_safe(),
            Mode::Parallel => true,
            Mode::Serial => false,
        };
        match turns.last_mut() {
            Some(turn) if open && last_is_open => turn.push(job),
            _ => turns.push(vec![job]),
        }
        last_is_open = open;
    }
    turns
}
