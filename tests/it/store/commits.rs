//! The rows and events of a commit with many changes.

use std::sync::Arc;

use toolpost::domain::call::{CallFormat, CallRecord, JsonCache};
use toolpost::domain::{Call, Cursor, Failure, IdGenerator, Outcome, Time};
use toolpost::formats::mcp::result_members;
use toolpost::formats::native::ToolCall;
use toolpost::store::journal::{Change, Transitions};

use super::{
    ACCEPTED, ACCEPTED_AT, Log, PublishedEvent, REJECTED, SETTLED, STARTED, WHOLE, ended, life, published_event,
    rejected, whole,
};
use crate::support::{Backend, Database};

/// Checks that the stored calls equal the given ones, and that published events equal those read back.
async fn assert_stored_and_published(log: &mut Log, calls: &[(Call, Transitions)]) {
    for (call, _) in calls {
        assert_eq!(format!("{:#?}", log.stored(call).await), format!("{call:#?}"));
    }
    let read = log.read_back(0, 7).await;
    assert_eq!(log.take_published().await, read);
}

/// Builds a call of one kind and the transitions of its change.
type Kind<From> = fn(&From) -> (Call, Transitions);

fn waiting(log: &Log) -> (Call, Transitions) {
    (log.call("t"), ACCEPTED)
}

fn begun(log: &Log) -> (Call, Transitions) {
    (starts(&log.call("t")).0, Transitions { started: true, ..ACCEPTED })
}

fn good(log: &Log) -> (Call, Transitions) {
    (ended(&log.call("t"), Outcome::text("x"), 3), WHOLE)
}

fn refused(log: &Log) -> (Call, Transitions) {
    (rejected(&log.call("t"), Failure::not_found("t", &[], None)), REJECTED)
}

fn starts(call: &Call) -> (Call, Transitions) {
    let mut call = call.clone();
    call.start(Time(ACCEPTED_AT + 5)).unwrap();
    (call, STARTED)
}

fn runs(call: &Call) -> (Call, Transitions) {
    (ended(call, Outcome::text("x"), 3), Transitions { started: true, ..SETTLED })
}

fn fails(call: &Call) -> (Call, Transitions) {
    (rejected(call, Failure::not_found("t", &[], None)), SETTLED)
}

/// Writes the calls in their current state in one commit.
async fn write_together(log: &Log, calls: &[(Call, Transitions)]) {
    let changes = calls.iter().map(|(call, news)| Change::new(Arc::new(call.clone()), *news));
    assert_eq!(log.together(changes.collect()).await, vec![Ok(()); calls.len()]);
}

/// Writes `count` accepted calls in one commit and returns them.
async fn there(log: &Log, count: usize) -> Vec<Call> {
    let calls: Vec<_> = (0..count).map(|_| waiting(log)).collect();
    write_together(log, &calls).await;
    calls.into_iter().map(|(call, _)| call).collect()
}

/// Returns three of each kind, with every kind in each of the three places.
fn mixtures<From, const N: usize>(kinds: [Kind<From>; N]) -> impl Iterator<Item = [Kind<From>; 3]> {
    let pairs = kinds.into_iter().flat_map(move |kind| kinds.map(|other| (kind, other)));
    pairs.flat_map(|(kind, other)| {
        (0..3).map(move |index| std::array::from_fn(|n| if n == index { other } else { kind }))
    })
}

on_both_databases!(
    async fn changes_of_one_call_in_one_commit_are_one_row_with_all_events(backend: Backend) {
        let mut log = Log::open(backend).await;
        let (changes, call) = life(&log.call("echo"));
        assert_eq!(log.together(changes).await, vec![Ok(()); 4]);
        assert_eq!(log.commits().await, 2, "the one that was waited for, and one");
        let events = log.events_of(&call).await;
        let first = events[0].0;
        let positions: Vec<_> = events.iter().map(|(pos, seq, kind, _)| (*pos - first, *seq, *kind)).collect();
        let expected = [(0, 1, "tool_call"), (1, 2, "status"), (2, 3, "status"), (3, 4, "status"), (4, 5, "status")];
        assert_eq!(positions, [&expected[..], &[(5, 6, "tool_result")]].concat());
        assert_eq!(log.counts("echo").await, (1, 1, 0));
        let published = log.take_published().await;
        assert_eq!(published[5..], events, "told as it is read back");
    }
);

on_both_databases!(
    async fn json_of_a_small_awaited_call_is_returned_by_its_commit(backend: Backend) {
        let log = Log::open(backend).await;
        let one = |text: &str| Arc::new(ended(&log.call("t"), Outcome::text(text), 1));
        let (awaited, left, large) = (one("x"), one("x"), one(&"x".repeat(10_000)));
        let unchanged = one("told");
        let stored = Call::from(CallRecord {
            outcome: Some(Arc::new(Outcome::text("stored"))),
            ..Call::clone(&unchanged).into_record()
        });
        let stored = Arc::new(stored);
        let over_mcp = CallRecord { written: JsonCache::new(CallFormat::Mcp), ..Call::clone(&one("x")).into_record() };
        let over_mcp = Arc::new(Call::from(over_mcp));
        let changes = vec![
            Change::new(awaited.clone(), WHOLE).awaited(),
            Change::new(over_mcp.clone(), WHOLE).awaited(),
            Change::new(left.clone(), WHOLE),
            Change::new(large.clone(), WHOLE).awaited(),
            Change::new(unchanged.clone(), WHOLE).with_stored_image(stored.clone()).awaited(),
        ];
        assert_eq!(log.together(changes).await, [Ok(()); 5]);
        let json =
            |call: &Call| call.written.get(CallFormat::Native).map(|json| String::from_utf8(json.to_vec()).unwrap());
        assert_eq!(json(&awaited), Some(serde_json::to_string(&ToolCall::from(&*awaited)).unwrap()));
        assert_eq!(over_mcp.written.get(CallFormat::Mcp).map(|json| json.to_vec()), result_members(&over_mcp));
        assert_eq!(json(&over_mcp), None);
        assert_eq!([json(&left), json(&large), json(&stored), json(&unchanged)], [const { None }; 4]);
    }
);

on_both_databases!(
    async fn separate_commits_give_the_events_of_one_commit(backend: Backend) {
        let ids = IdGenerator::counted();
        let mut apart = Log::on(Database::fresh(backend).await, ids.clone()).await;
        let at_once = Log::on(Database::fresh(backend).await, ids).await;
        let call = apart.call("echo");
        let (changes, _) = life(&call);
        for change in changes {
            apart.journal.write(change).await.unwrap();
        }
        at_once.together(life(&call).0).await;
        let without_positions = |events: Vec<PublishedEvent>| -> Vec<_> {
            events.into_iter().map(|(_, seq, kind, data)| (seq, kind, data)).collect()
        };
        assert_eq!(without_positions(apart.events_of(&call).await), without_positions(at_once.events_of(&call).await));
        assert_eq!(apart.commits().await, 4);
        let published = apart.take_published().await;
        let stored: Vec<_> =
            apart.store.events_after(&Cursor::default(), 10).await.unwrap().0.iter().map(published_event).collect();
        assert_eq!(published, stored);
    }
);

on_both_databases!(
    async fn calls_of_one_commit_have_positions_without_a_gap(backend: Backend) {
        let mut log = Log::open(backend).await;
        let calls: Vec<_> = (0..200).map(|n| ended(&log.call("t"), Outcome::text("x"), n)).collect();
        log.together(calls.iter().map(whole).collect()).await;
        assert_eq!(log.commits().await, 2);
        assert_eq!(log.store.newest().await.unwrap(), Cursor::at([201 * 5]));
        let published = log.take_published().await;
        assert_eq!(published.iter().map(|event| event.0).collect::<Vec<_>>(), (1..=201 * 5).collect::<Vec<_>>());
        assert_eq!(log.counts("t").await, (200, 200, 0));
    }
);

on_both_databases!(
    async fn calls_of_one_commit_are_stored_unchanged(backend: Backend) {
        let mut log = Log::open(backend).await;
        let mut all = Vec::new();
        for kinds in mixtures::<Log, 4>([waiting, begun, good, refused]) {
            let calls = kinds.map(|kind| kind(&log));
            write_together(&log, &calls).await;
            all.extend(calls);
        }
        assert_stored_and_published(&mut log, &all).await;
    }
);

on_both_databases!(
    async fn changes_of_one_commit_are_stored_unchanged(backend: Backend) {
        let mut log = Log::open(backend).await;
        let mut all = Vec::new();
        for kinds in mixtures::<Call, 3>([starts, runs, fails]) {
            let there = there(&log, kinds.len()).await;
            let calls: Vec<_> = kinds.iter().zip(&there).map(|(kind, there)| kind(there)).collect();
            write_together(&log, &calls).await;
            all.extend(calls);
        }
        assert_stored_and_published(&mut log, &all).await;
    }
);

on_both_databases!(
    async fn new_calls_and_changes_of_one_commit_are_stored_unchanged(backend: Backend) {
        let mut log = Log::open(backend).await;
        let (fresh, again): ([Kind<Log>; 2], [Kind<Call>; 2]) = ([waiting, good], [starts, runs]);
        let mut all = Vec::new();
        // Orders in a commit: `a` is a new call, any other letter a change of a stored call.
        let orders = ["aA", "Aa", "aaAA", "AaAa", "AAaa", "abA", "aAB", "aaABB"];
        for (order, swapped) in orders.iter().flat_map(|order| [(order, 0), (order, 1)]) {
            let there = there(&log, order.len()).await;
            let calls = order.chars().zip(&there).map(|(which, there)| match which {
                'a' => fresh[swapped](&log),
                'b' => fresh[1 - swapped](&log),
                'A' => again[swapped](there),
                _ => again[1 - swapped](there),
            });
            let calls: Vec<_> = calls.collect();
            write_together(&log, &calls).await;
            all.extend(calls);
        }
        assert_stored_and_published(&mut log, &all).await;
    }
);
