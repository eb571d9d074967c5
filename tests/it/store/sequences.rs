//! Random changes of several calls in random commits, some repeated as after a lost acknowledgement: both databases
//! have the same rows, events and counts, and each end is stored once.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use toolpost::domain::call::StatusUpdate;
use toolpost::domain::event::{EventKind, Reported};
use toolpost::domain::{Call, Failure, IdGenerator, Outcome, Status, Time};
use toolpost::events::render;
use toolpost::store::calls::CallFilter;
use toolpost::store::journal::{Change, JournalError, Transitions};

use super::mixed_commits::{counted, counts_of};
use super::{ACCEPTED, ACCEPTED_AT, Log, PublishedEvent, REJECTED, SETTLED, STARTED};
use crate::support::pg_proxy::PgProxy;
use crate::support::pg_proxy::loss::Loss;
use crate::support::{Backend, Database};

const TOOLS: [&str; 2] = ["one", "two"];
/// On Postgres, one of this number of commits loses its acknowledgement.
const LOST: u64 = 4;

/// One step of a plan: its call, its action, and the fate of its commit.
#[derive(Debug, Clone)]
struct Step {
    call: usize,
    choice: u8,
    is_last_of_commit: bool,
    is_repeated: bool,
}

#[derive(Debug, Clone)]
struct Plan {
    calls: usize,
    steps: Vec<Step>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let step = (0..5_usize, any::<u8>(), prop::bool::weighted(0.4), prop::bool::weighted(0.3)).prop_map(
        |(call, choice, is_last_of_commit, is_repeated)| Step { call, choice, is_last_of_commit, is_repeated },
    );
    (1..=5_usize, vec(step, 1..40)).prop_map(|(calls, steps)| Plan { calls, steps })
}

/// A change that can be written more than once.
#[derive(Clone)]
struct RepeatableChange {
    call: Arc<Call>,
    news: Transitions,
    reported: Option<Arc<Reported>>,
}

impl RepeatableChange {
    fn change(&self) -> Change {
        match &self.reported {
            Some(reported) => Change::reported(self.call.clone(), reported.clone()),
            None => Change::new(self.call.clone(), self.news),
        }
    }
}

/// Returns the next change of the call, or `None` once it has ended. The first change is the acceptance.
fn next(call: &mut Call, is_accepted: &mut bool, choice: u8, now: Time) -> Option<RepeatableChange> {
    let (kind, text) = (choice % 8, format!("{choice}"));
    let fail = |call: &mut Call| call.settle(Failure::execution("t", "no").into(), now).unwrap();
    let (mut news, mut reported) = (Transitions::default(), None);
    match (std::mem::replace(is_accepted, true), call.status, kind) {
        (_, Status::Success | Status::Error, _) => return None,
        (false, _, 0) => {
            news = REJECTED;
            fail(call);
        }
        (false, _, 1 | 2) => {
            news = Transitions { started: true, ..ACCEPTED };
            call.start(now).unwrap();
        }
        (false, _, 3) => {
            news = super::WHOLE;
            call.start(now).unwrap();
            call.settle(Outcome::text(&text), Time(now.0 + 7_000)).unwrap();
        }
        (false, ..) => news = ACCEPTED,
        (true, Status::Wait, 0) => {
            news = SETTLED;
            fail(call);
        }
        (true, Status::Wait, _) => {
            news = STARTED;
            call.start(now).unwrap();
        }
        (true, Status::Doing, 0) => {
            news = SETTLED;
            fail(call);
        }
        (true, Status::Doing, 1 | 2) => {
            news = SETTLED;
            call.settle(Outcome::text(&text), now).unwrap();
        }
        (true, Status::Doing, kind) => {
            if kind == 3 {
                call.start_again().unwrap();
            } else {
                call.update(StatusUpdate { tip: Some(text), ..StatusUpdate::default() }).unwrap();
            }
            let data = render::status_update(call, Time(0));
            reported = Some(Arc::new(Reported { seq: call.last_seq, kind: EventKind::Status, data }));
        }
    }
    Some(RepeatableChange { call: Arc::new(call.clone()), news, reported })
}

/// The stored data of a plan's calls, which must be the same on every database.
#[derive(Debug, PartialEq)]
struct Picture {
    events: Vec<PublishedEvent>,
    calls: Vec<(Status, u32, u32, Option<Arc<Outcome>>)>,
    stats: String,
}

async fn follow(plan: &Plan, mut log: Log, loss: Option<&Loss>) -> Picture {
    let mut calls: Vec<(Call, bool)> = (0..plan.calls).map(|n| (log.call(TOOLS[n % 2]), false)).collect();
    if let Some(loss) = loss {
        loss.switch(true);
    }
    let mut commit: Vec<RepeatableChange> = Vec::new();
    for (n, step) in plan.steps.iter().enumerate() {
        let (call, is_accepted) = &mut calls[step.call % plan.calls];
        commit.extend(next(call, is_accepted, step.choice, Time(ACCEPTED_AT + n as i64 * 3_000_000)));
        if (!step.is_last_of_commit && n + 1 < plan.steps.len()) || commit.is_empty() {
            continue;
        }
        let ends = log.together(commit.iter().map(RepeatableChange::change).collect()).await;
        assert!(ends.iter().all(Result::is_ok), "{ends:?}");
        if step.is_repeated {
            let again = log.together(commit.iter().map(RepeatableChange::change).collect()).await;
            let is_refused = |end: &_| matches!(end, Err(JournalError::Fenced | JournalError::Refused));
            assert!(again.iter().all(is_refused), "{again:?}");
        }
        commit.clear();
    }
    if let Some(loss) = loss {
        loss.switch(false);
    }
    let mut picture = Picture { events: Vec::new(), calls: Vec::new(), stats: String::new() };
    for (call, _) in calls.iter().filter(|(_, is_accepted)| *is_accepted) {
        let stored = log.stored(call).await;
        let of = |call: &Call| (call.status, call.attempts, call.last_seq, call.outcome.clone());
        assert_eq!(of(&stored), of(call));
        let events = log.events_of(call).await;
        let seqs: Vec<u32> = events.iter().map(|(_, seq, ..)| *seq).collect();
        assert_eq!(seqs, (1..=call.last_seq).collect::<Vec<_>>());
        let ends = events.iter().filter(|(_, _, kind, _)| *kind == "tool_result").count();
        assert_eq!(ends, usize::from(call.status.is_terminal()));
        picture.events.extend(events);
        picture.calls.push(of(&stored));
    }
    let filter = CallFilter { limit: 500, ..CallFilter::default() };
    let stored: Vec<Call> = log.store.calls(&filter).await.unwrap().0;
    let ended: Vec<Call> = stored.into_iter().filter(|call| call.status.is_terminal()).collect();
    let stats = log.store.stats(None).await.unwrap();
    assert_eq!(counts_of(&stats), counted(&ended));
    picture.stats = format!("{stats:#?}");
    let stored = log.read_back(0, 3).await;
    assert!(stored.iter().map(|(pos, ..)| *pos).eq(1..=stored.len() as i64), "positions without a gap");
    assert_eq!(log.take_published().await, stored, "what was told is what is stored");
    picture
}

fn check(cases: u32, follow: impl AsyncFn(&Plan)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 100, ..ProptestConfig::default() };
    let followed = TestRunner::new(config).run(&plans(), |plan| {
        runtime.block_on(follow(&plan));
        Ok(())
    });
    followed.unwrap_or_else(|error| panic!("{error}"));
}

async fn in_memory(plan: &Plan) -> Picture {
    follow(plan, Log::on(Database::at("sqlite::memory:".to_owned()), IdGenerator::counted()).await, None).await
}

#[test]
fn any_changes_lead_to_the_stored_calls_and_counts() {
    check(32, async |plan| drop(in_memory(plan).await));
}

#[test]
fn any_changes_with_lost_acknowledgements_agree_on_both_databases() {
    requires_postgres!();
    check(16, async |plan| {
        let database = Database::fresh(Backend::Postgres).await;
        let loss = Loss::new(plan.steps.len() as u64, LOST);
        let proxy = PgProxy::losing(&database.url, &loss);
        let log = Log::on(Database::at(proxy.url().to_owned()), IdGenerator::counted()).await;
        assert_eq!(follow(plan, log, Some(&loss)).await, in_memory(plan).await);
    });
}
