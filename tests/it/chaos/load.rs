//! Concurrent clients that send requests one after the other, and some requests twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::approvers;
use super::client::{Ask, Notes};
use crate::oracle::{KeyHistory, SentDecision};
use crate::support::Client;
use crate::support::LIMIT;
use crate::support::calls::has_ended;
use crate::support::seeded::Seeded;

/// The running clients. They stop on drop.
pub struct Load {
    shared: Arc<Shared>,
    tasks: Vec<AbortOnDropHandle<()>>,
    /// Approvers, who work until all requests are over.
    approvers: Vec<AbortOnDropHandle<()>>,
}

struct Shared {
    doors: Vec<Client>,
    notes: Notes,
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct Progress {
    over: usize,
    open: BTreeSet<String>,
    longest: Duration,
    is_stopping: bool,
}

/// The observations of the clients, for the oracle and the figures.
pub struct Observations {
    pub key_histories: BTreeMap<String, KeyHistory>,
    pub decided: BTreeMap<String, Vec<SentDecision>>,
    pub odd: Vec<String>,
    pub retries: usize,
    pub replays: usize,
    /// The longest duration of a request, including all its attempts.
    pub longest: Duration,
}

impl Load {
    /// Starts clients of a service with these nodes.
    pub fn start(doors: Vec<Client>, callers: usize, chance: &mut Seeded) -> Self {
        let progress = watch::channel(Progress::default()).0;
        let shared = Arc::new(Shared { doors, notes: Notes::default(), progress });
        let tasks = (0..callers).map(|caller| {
            let work = work(shared.clone(), caller, chance.fork(), Ask::choose);
            AbortOnDropHandle::new(tokio::spawn(work))
        });
        Self { tasks: tasks.collect(), approvers: Vec::new(), shared }
    }

    /// Adds clients whose calls need an approval, and approvers.
    pub fn also_gated(&mut self, callers: usize, approvers: usize, chance: &mut Seeded) {
        let first = self.tasks.len();
        for caller in first..first + callers {
            let work = work(self.shared.clone(), caller, chance.fork(), Ask::choose_gated);
            self.tasks.push(AbortOnDropHandle::new(tokio::spawn(work)));
        }
        for door_index in 0..approvers {
            let (shared, chance) = (self.shared.clone(), chance.fork());
            let work = async move { approvers::decide_all(&shared.doors, door_index, &shared.notes, chance).await };
            self.approvers.push(AbortOnDropHandle::new(tokio::spawn(work)));
        }
    }

    /// Adds clients whose calls have arguments that a policy looks at.
    pub fn also_judged(&mut self, callers: usize, chance: &mut Seeded) {
        let first = self.tasks.len();
        for caller in first..first + callers {
            let work = work(self.shared.clone(), caller, chance.fork(), Ask::choose_judged);
            self.tasks.push(AbortOnDropHandle::new(tokio::spawn(work)));
        }
    }

    /// Adds a request to those of the clients. Its first attempt goes to the node that `door_index` selects.
    pub fn also(&mut self, ask: Ask, door_index: usize) {
        let shared = self.shared.clone();
        let work = async move { ask.until_over(&shared.doors, door_index, &shared.notes).await };
        self.tasks.push(AbortOnDropHandle::new(tokio::spawn(work)));
    }

    /// Returns the call of a request once its end is known.
    pub fn end_of(&self, key: &str) -> Option<Value> {
        let key_histories = self.shared.notes.key_histories.lock().unwrap();
        let calls = key_histories.get(key)?.sights.iter().map(|sight| &sight.call);
        calls.rev().find(|call| has_ended(call)).cloned()
    }

    /// Waits until the given number of further requests have finished.
    pub async fn more(&self, requests: usize) {
        let mut progress = self.shared.progress.subscribe();
        let wanted = progress.borrow().over + requests;
        let reached = tokio::time::timeout(LIMIT, progress.wait_for(|progress| progress.over >= wanted)).await;
        assert!(reached.is_ok(), "the callers do not get on with {}", self.open_requests().join(", "));
    }

    /// Returns the keys of the unfinished requests.
    pub fn open_requests(&self) -> Vec<String> {
        self.shared.progress.borrow().open.iter().cloned().collect()
    }

    /// Lets the clients finish their current requests, and returns the observations.
    pub async fn finish(&mut self) -> Observations {
        self.shared.progress.send_modify(|progress| progress.is_stopping = true);
        for ended in join_all(&mut self.tasks).await {
            ended.expect("no caller panics");
        }
        self.approvers.clear();
        Observations::of(&self.shared.notes, self.shared.progress.borrow().longest)
    }
}

impl Observations {
    /// Takes the observations out of the notes.
    pub fn of(notes: &Notes, longest: Duration) -> Self {
        Self {
            key_histories: std::mem::take(&mut *notes.key_histories.lock().unwrap()),
            decided: std::mem::take(&mut *notes.decided.lock().unwrap()),
            odd: std::mem::take(&mut *notes.odd.lock().unwrap()),
            retries: notes.retries.load(Ordering::Relaxed),
            replays: notes.replays.load(Ordering::Relaxed),
            longest,
        }
    }
}

async fn work(shared: Arc<Shared>, caller: usize, mut chance: Seeded, choose: fn(String, &mut Seeded) -> Ask) {
    let Shared { doors, notes, progress } = &*shared;
    for number in 0.. {
        if progress.borrow().is_stopping {
            return;
        }
        let key = format!("caller-{caller}/request-{number}");
        let ask = choose(key.clone(), &mut chance);
        progress.send_modify(|progress| {
            progress.open.insert(key.clone());
        });
        let begun = Instant::now();
        if chance.one_in(8) {
            tokio::join!(ask.until_over(doors, caller, notes), ask.until_over(doors, caller + 1, notes));
        } else {
            ask.until_over(doors, caller, notes).await;
        }
        if chance.one_in(4) {
            ask.until_over(doors, caller + 1, notes).await;
        }
        progress.send_modify(|progress| {
            progress.open.remove(&key);
            progress.over += 1;
            progress.longest = progress.longest.max(begun.elapsed());
        });
    }
}
