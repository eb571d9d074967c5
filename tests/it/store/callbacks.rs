//! Stored callbacks: due callbacks, claims and outcomes.

use std::sync::Arc;

use serde_json::json;
use toolpost::domain::call::CallRecord;
use toolpost::domain::{Call, Outcome, Time};
use toolpost::store::Store;
use toolpost::store::callbacks::{AttemptRecord, CallbackRow, Delivery, DueCallback, ExcludedTargets, RecordedOutcome};
use toolpost::store::calls::CallFilter;
use toolpost::store::journal::Change;
use uuid::Uuid;

use super::{ACCEPTED, ACCEPTED_AT, Log, SETTLED, STARTED, WHOLE, ended};
use crate::support::{Backend, bounded};

const NOW: Time = Time(ACCEPTED_AT);
const NEVER: Time = Time(i64::MAX);

fn later(seconds: i64) -> Time {
    Time(ACCEPTED_AT + seconds * 1_000_000)
}

impl Log {
    /// Builds an accepted call with a callback.
    fn called_back(&self, url: &str) -> (Call, CallbackRow) {
        let call = Call::from(CallRecord { callback_url: Some(url.into()), ..self.call("t").into_record() });
        let row = CallbackRow::of(&call, self.ids.next()).unwrap();
        (call, row)
    }

    /// Writes one ended call with a callback for each URL, in the order of acceptance.
    async fn ended_with_callbacks(&self, urls: &[&str]) -> Vec<Call> {
        let (mut calls, mut rows) = (Vec::new(), Vec::new());
        for url in urls {
            let (call, row) = self.called_back(url);
            self.write(&ended(&call, Outcome::text("done"), 1), WHOLE).await.unwrap();
            calls.push(call);
            rows.push(row);
        }
        self.store.insert_callbacks(&rows).await.unwrap();
        calls
    }
}

async fn due(store: &Store, now: Time, busy: &ExcludedTargets) -> Vec<DueCallback> {
    store.due_callbacks(now, busy, 100).await.unwrap()
}

async fn due_urls(store: &Store, now: Time, busy: &ExcludedTargets) -> Vec<String> {
    due(store, now, busy).await.iter().map(|due| due.url.to_string()).collect()
}

/// Claims all due callbacks.
async fn claim(store: &Store, now: Time, until: Time) -> Vec<DueCallback> {
    let due = due(store, now, &ExcludedTargets::default()).await;
    store.claim_callbacks(due, now, until).await.unwrap()
}

async fn note(store: &Store, call: &Call, attempt: u32, noted: RecordedOutcome) {
    store.note_callbacks(&[AttemptRecord { call_id: call.id, attempt, noted }]).await.unwrap();
}

fn failed(next_at: Option<Time>) -> RecordedOutcome {
    RecordedOutcome::Failed { status: Some(500), error: "HTTP 500 😀".into(), next_at }
}

on_both_databases!(
    async fn callback_is_due_once_its_call_has_ended(backend: Backend) {
        let log = Log::open(backend).await;
        let (mut call, row) = log.called_back("https://h/x");
        log.write(&call, ACCEPTED).await.unwrap();
        log.store.insert_callbacks(std::slice::from_ref(&row)).await.unwrap();
        assert_eq!(due(&log.store, NEVER, &ExcludedTargets::default()).await, []);
        call.start(NOW).unwrap();
        log.write(&call, STARTED).await.unwrap();
        assert_eq!(due(&log.store, NEVER, &ExcludedTargets::default()).await, []);
        log.write(&ended(&call, Outcome::text("done"), 1), SETTLED).await.unwrap();
        let found = due(&log.store, NOW, &ExcludedTargets::default()).await.pop().unwrap();
        assert_eq!((found.call_id, &*found.url, &*found.host), (call.id, "https://h/x", "h:443"));
        assert_eq!((found.event_id, found.attempts), (row.event_id, 0));
        assert!(found.bytes > 10, "{found:?}");
        // A stored callback is not overwritten.
        log.store.insert_callbacks(&[CallbackRow { url: "http://other".into(), ..row }]).await.unwrap();
        assert_eq!(due(&log.store, NOW, &ExcludedTargets::default()).await, [found]);
    }
);

on_both_databases!(
    async fn first_tries_precede_retries_and_busy_targets_are_skipped(backend: Backend) {
        let log = Log::open(backend).await;
        let old = log.ended_with_callbacks(&["http://a/late", "http://a/soon"]).await;
        claim(&log.store, NOW, later(25)).await;
        note(&log.store, &old[0], 1, failed(Some(later(10)))).await;
        note(&log.store, &old[1], 1, failed(Some(later(5)))).await;
        log.ended_with_callbacks(&["http://a/1", "http://b/2", "http://b/3"]).await;
        let store = &log.store;
        let all = ["http://a/1", "http://b/2", "http://b/3", "http://a/soon", "http://a/late"];
        assert_eq!(due_urls(store, NOW, &ExcludedTargets::default()).await, all[..3]);
        assert_eq!(due_urls(store, later(5), &ExcludedTargets::default()).await, all[..4]);
        assert_eq!(due_urls(store, later(10), &ExcludedTargets::default()).await, all);
        let hosts = ExcludedTargets { hosts: vec!["b:80".into(), "c:80".into()], ..ExcludedTargets::default() };
        assert_eq!(due_urls(store, later(10), &hosts).await, [all[0], all[3], all[4]]);
        let urls = ExcludedTargets { urls: vec![all[0].into()], ..ExcludedTargets::default() };
        assert_eq!(due_urls(store, later(10), &urls).await, all[1..]);
        let retries = ExcludedTargets { retries: true, ..urls };
        assert_eq!(due_urls(store, later(10), &retries).await, all[1..3]);
        assert_eq!(store.due_callbacks(later(10), &ExcludedTargets::default(), 2).await.unwrap().len(), 2);
    }
);

on_both_databases!(
    async fn claimed_callback_is_exclusive_until_its_lease_ends(backend: Backend) {
        let log = Log::open(backend).await;
        let calls = log.ended_with_callbacks(&["http://a/1", "http://a/2"]).await;
        let seen = due(&log.store, NOW, &ExcludedTargets::default()).await;
        let one = log.store.claim_callbacks(seen[..1].to_vec(), NOW, later(25)).await.unwrap();
        assert_eq!((one[0].call_id, one[0].attempts), (calls[0].id, 1));
        // The other node read both before the claim.
        let other = log.store.claim_callbacks(seen, NOW, later(25)).await.unwrap();
        assert_eq!(other.iter().map(|due| due.call_id).collect::<Vec<_>>(), [calls[1].id]);
        assert_eq!(due(&log.store, later(24), &ExcludedTargets::default()).await, []);
        // No outcome was recorded, so the node that claimed them is lost.
        let again = claim(&log.store, later(25), later(50)).await;
        assert_eq!(again.iter().map(|due| (due.attempts, due.lost, due.step())).collect::<Vec<_>>(), [(2, 1, 1); 2]);
        // A callback that was read while due and has failed since waits for its next attempt.
        note(&log.store, &calls[0], 2, failed(Some(later(100)))).await;
        assert_eq!(log.store.claim_callbacks(again[..1].to_vec(), later(99), later(200)).await.unwrap(), []);
    }
);

on_both_databases!(
    async fn each_callback_is_claimed_by_one_of_many_nodes(backend: Backend) {
        let log = Log::open(backend).await;
        log.ended_with_callbacks(&["http://a/x"; 40]).await;
        let nodes: Vec<_> = (0..8)
            .map(|_| {
                let store = log.store.clone();
                tokio::spawn(async move { claim(&store, NOW, later(25)).await })
            })
            .collect();
        let mut taken: Vec<Uuid> = Vec::new();
        for node in nodes {
            taken.extend(bounded("a node", node).await.unwrap().iter().map(|due| due.call_id));
        }
        // Rows that two nodes read concurrently may remain for a later claim; no row is claimed twice.
        taken.extend(claim(&log.store, NOW, later(25)).await.iter().map(|due| due.call_id));
        let count = taken.len();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!((count, taken.len()), (40, 40));
    }
);

on_both_databases!(
    async fn newest_try_counts_and_so_does_a_late_success(backend: Backend) {
        let log = Log::open(backend).await;
        let [call]: [Call; 1] = log.ended_with_callbacks(&["http://a/x"]).await.try_into().unwrap();
        let state = async || log.store.callback_state(call.id).await.unwrap().unwrap();
        assert_eq!((state().await.state, state().await.attempts), (Delivery::Pending, 0));

        claim(&log.store, NOW, later(25)).await;
        note(&log.store, &call, 1, RecordedOutcome::Interrupted).await;
        assert_eq!(state().await.attempts, 0);

        claim(&log.store, NOW, later(25)).await;
        claim(&log.store, later(25), later(50)).await;
        note(&log.store, &call, 1, failed(None)).await;
        note(&log.store, &call, 1, RecordedOutcome::Interrupted).await;
        let open = state().await;
        assert_eq!((open.state, open.attempts, open.last_status), (Delivery::Pending, 2, None), "an older try's news");

        note(&log.store, &call, 2, failed(Some(later(60)))).await;
        let open = state().await;
        assert_eq!((open.last_status, open.last_error.as_deref()), (Some(500), Some("HTTP 500 😀")));
        assert_eq!((open.state, open.next_attempt_at), (Delivery::Pending, Some(later(60))));

        claim(&log.store, later(60), later(85)).await;
        assert_eq!(state().await.next_attempt_at, None, "it is being tried");
        note(&log.store, &call, 3, failed(None)).await;
        let given_up = state().await;
        assert_eq!((given_up.state, given_up.next_attempt_at), (Delivery::Failed, None));
        assert_eq!(due(&log.store, NEVER, &ExcludedTargets::default()).await, []);

        note(&log.store, &call, 2, RecordedOutcome::Delivered { status: 204, at: later(90) }).await;
        note(&log.store, &call, 3, RecordedOutcome::Delivered { status: 200, at: later(95) }).await;
        let delivered = state().await;
        assert_eq!((delivered.state, delivered.attempts), (Delivery::Delivered, 3));
        assert_eq!((delivered.last_status, delivered.delivered_at), (Some(204), Some(later(90))));
        assert_eq!(delivered.last_error, None);
    }
);

on_both_databases!(
    async fn call_shows_the_state_of_its_callback(backend: Backend) {
        let log = Log::open(backend).await;
        let calls = log.ended_with_callbacks(&["http://a/x", "http://a/y"]).await;
        let without = ended(&log.call("t"), Outcome::text("x"), 1);
        log.write(&without, WHOLE).await.unwrap();
        claim(&log.store, NOW, later(25)).await;
        note(&log.store, &calls[0], 1, failed(Some(later(5)))).await;
        note(&log.store, &calls[1], 1, RecordedOutcome::Delivered { status: 200, at: later(1) }).await;
        let event = log.store.callback_state(calls[0].id).await.unwrap().unwrap().event_id;
        let shown = log.stored(&calls[0]).await.into_record().metadata;
        assert_eq!(
            shown["callback"],
            json!({"url": "http://a/x", "event_id": event.to_string(), "state": "pending", "attempts": 1,
                "last_status": 500, "last_error": "HTTP 500 😀", "next_attempt_at": later(5)})
        );
        let page = log.store.calls(&CallFilter { limit: 10, ..CallFilter::default() }).await.unwrap().0;
        let states: Vec<_> = page.iter().map(|call| call.metadata.get("callback").map(|c| &c["state"])).collect();
        assert_eq!(states, [None, Some(&json!("delivered")), Some(&json!("pending"))]);
        assert_eq!(page[1].metadata["callback"]["delivered_at"], json!(later(1)));
        // The body of a callback does not contain the state of the callback.
        assert!(log.store.call_of_callback(calls[0].id).await.unwrap().unwrap().metadata.is_empty());
    }
);

on_both_databases!(
    async fn callbacks_are_stored_in_the_commit_of_their_calls(backend: Backend) {
        let log = Log::open(backend).await;
        let (calls, rows): (Vec<Call>, Vec<CallbackRow>) =
            ["http://a/x", "https://é.example/y"].map(|url| log.called_back(url)).into_iter().unzip();
        let change = |(call, row): (&Call, &CallbackRow)| {
            Change::new(Arc::new(call.clone()), ACCEPTED).with_callback(row.event_id)
        };
        for written in log.together(calls.iter().zip(&rows).map(change).collect()).await {
            written.unwrap();
        }
        let ids: Vec<Uuid> = rows.iter().map(|row| row.call_id).collect();
        let states = log.store.callback_states(&ids).await.unwrap();
        for row in &rows {
            let state = &states[&row.call_id];
            assert_eq!((state.url.as_str(), state.event_id), (&*row.url, row.event_id));
        }
    }
);
