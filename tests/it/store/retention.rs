//! Ended calls are deleted in small steps after the retention period; other rows and the stats are kept.

use std::sync::Arc;

use sqlx::Connection;
use toolpost::domain::call::CallRecord;
use toolpost::domain::{Call, Outcome, Shard, Tenant, Time};
use toolpost::store::callbacks::{AttemptRecord, CallbackRow, RecordedOutcome};
use toolpost::store::inbox::Message;
use toolpost::store::journal::Change;
use toolpost::store::retention::{PruneCounts, RetentionTarget};

use super::{ACCEPTED, ACCEPTED_AT, Log, SETTLED, WHOLE, ended, life};
use crate::support::{Backend, Database, bounded};

/// A time after every commit.
const LATER: Time = Time(ACCEPTED_AT + 1);

impl Log {
    async fn prune(&self, part: RetentionTarget, max: u32) -> PruneCounts {
        bounded("a step", self.store.prune(part, LATER, max)).await.unwrap()
    }

    /// Runs all steps. Returns their number and the deleted rows.
    pub(super) async fn prune_all(&self, part: RetentionTarget, max: u32) -> (u32, PruneCounts) {
        let (mut steps, mut all) = (0, PruneCounts::default());
        loop {
            let step = self.prune(part, max).await;
            (steps, all.calls, all.events) = (steps + 1, all.calls + step.calls, all.events + step.events);
            if !step.is_unfinished {
                return (steps, all);
            }
        }
    }

    async fn is_there(&self, call: &Call) -> bool {
        self.store.call(call.id).await.unwrap().is_some()
    }

    async fn whole_call(&self, name: &str) -> Call {
        let call = ended(&self.call(name), Outcome::text("done"), 3);
        self.write(&call, WHOLE).await.unwrap();
        call
    }

    /// Writes a call in four commits, including a reported event.
    async fn lived_call(&self, name: &str) -> Call {
        let (changes, call) = life(&self.call(name));
        for change in changes {
            bounded("a change", self.journal.write(change)).await.unwrap();
        }
        call
    }
}

on_both_databases!(
    async fn ended_calls_are_deleted_completely_and_the_stats_stay(backend: Backend) {
        let log = Log::open(backend).await;
        let (whole, lived) = (log.whole_call("t").await, log.lived_call("t").await);
        let row = CallbackRow { call_id: whole.id, url: "http://x/".into(), event_id: log.ids.next() };
        log.store.insert_callbacks(&[row]).await.unwrap();
        let noted = RecordedOutcome::Delivered { status: 200, at: LATER };
        log.store.note_callbacks(&[AttemptRecord { call_id: whole.id, attempt: 1, noted }]).await.unwrap();
        let message = Message { call: lived.id, kind: "cancel".into(), body: "{}".into() };
        log.store.leave_message(log.ids.next(), &message).await.unwrap();
        let (_, pruned) = log.prune_all(RetentionTarget::Calls, 500).await;
        assert_eq!(pruned, PruneCounts { calls: 2, events: 1, is_unfinished: false });
        assert!(!log.is_there(&whole).await && !log.is_there(&lived).await);
        assert_eq!(log.store.callback_state(whole.id).await.unwrap(), None);
        assert!(!log.store.has_messages().await.unwrap());
        assert_eq!((log.commits().await, log.read_back(0, 10).await), (0, Vec::new()));
        assert_eq!(log.counts("t").await, (2, 2, 0), "the stats stay");
        // Later calls are counted and published as usual.
        let next = log.whole_call("t").await;
        assert_eq!(log.counts("t").await, (3, 3, 0));
        assert_eq!(log.read_back(0, 10).await, log.events_of(&next).await);
        assert_eq!(log.store.forgotten_until().await.unwrap().position_in(Shard::default()), log.newest().await - 5);
    }
);

on_both_databases!(
    async fn calls_of_all_tenants_are_deleted(backend: Backend) {
        let log = Log::open(backend).await;
        let one = Tenant::named("one").unwrap();
        let theirs = ended(
            &Call::from(CallRecord { tenant: one.clone(), ..log.call("t").into_record() }),
            Outcome::text("done"),
            3,
        );
        log.write(&theirs, WHOLE).await.unwrap();
        let ours = log.whole_call("t").await;
        let store = log.store.stores().for_tenant(&one);
        assert!(store.call(theirs.id).await.unwrap().is_some() && log.is_there(&ours).await);
        assert_eq!(log.prune_all(RetentionTarget::Calls, 500).await.1.calls, 2);
        assert!(store.call(theirs.id).await.unwrap().is_none() && !log.is_there(&ours).await);
        assert_eq!(store.stats(Some("t")).await.unwrap()[0].success_count, 1, "the stats stay");
    }
);

on_both_databases!(
    async fn open_call_stays_until_it_has_ended(backend: Backend) {
        let log = Log::open(backend).await;
        let open = log.call("open");
        log.write(&open, ACCEPTED).await.unwrap();
        let gone = log.whole_call("gone").await;
        assert_eq!(log.prune_all(RetentionTarget::Calls, 500).await.1.calls, 1);
        assert!(log.is_there(&open).await && !log.is_there(&gone).await);
        let end = ended(&open, Outcome::text("late"), 9);
        log.write(&end, SETTLED).await.unwrap();
        assert_eq!(log.stored(&open).await.outcome, end.outcome);
        assert_eq!(log.prune_all(RetentionTarget::Calls, 500).await.1.calls, 1);
        assert!(!log.is_there(&open).await);
        assert_eq!(log.counts("open").await, (1, 1, 0));
    }
);

on_both_databases!(
    async fn younger_calls_stay(backend: Backend) {
        let log = Log::open(backend).await;
        let (old, young, last) = (log.whole_call("t").await, log.whole_call("t").await, log.whole_call("t").await);
        log.sql("UPDATE commits SET at = at + 5000000 WHERE last_pos = 10").await;
        assert_eq!(log.prune_all(RetentionTarget::Calls, 500).await.1.calls, 1);
        assert!(!log.is_there(&old).await && log.is_there(&young).await);
        assert!(log.is_there(&last).await, "what comes behind a younger one has its turn after it");
        assert_eq!(log.read_back(0, 10).await.first().map(|event| event.0), Some(6));
    }
);

on_both_databases!(
    async fn much_goes_in_small_steps(backend: Backend) {
        let log = Log::open(backend).await;
        for _ in 0..7 {
            log.lived_call("t").await;
        }
        let (steps, pruned) = log.prune_all(RetentionTarget::Calls, 4).await;
        assert_eq!((pruned.calls, pruned.events), (7, 7));
        assert!(steps >= 7, "a call is in four commits, and a step sees four: {steps}");
        assert_eq!(log.prune(RetentionTarget::Calls, 4).await, PruneCounts::default());
    }
);

on_both_databases!(
    async fn more_events_than_a_step_deletes_go_in_several(backend: Backend) {
        let log = Log::open(backend).await;
        let call = log.lived_call("t").await;
        let id = match backend {
            Backend::Sqlite => format!("X'{}'", call.id.simple()),
            Backend::Postgres => format!("'{}'", call.id),
        };
        let shard = Shard::of_call(call.id).number();
        log.sql(&format!(
            "INSERT INTO call_events (shard, call_id, seq, pos, kind, data) WITH RECURSIVE n (k) AS \
             (SELECT 100 UNION ALL SELECT k + 1 FROM n WHERE k < 4599) SELECT {shard}, {id}, k, 5, 'status', '{{}}' FROM n"
        ))
        .await;
        let (steps, pruned) = log.prune_all(RetentionTarget::Calls, 500).await;
        assert_eq!((pruned.calls, pruned.events), (1, 4501));
        assert!(steps >= 3, "{steps}");
        assert!(!log.is_there(&call).await);
    }
);

on_both_databases!(
    async fn reports_can_be_deleted_before_their_call(backend: Backend) {
        let log = Log::open(backend).await;
        let (changes, running) = life(&log.call("running"));
        for change in changes.into_iter().take(3) {
            bounded("a change", log.journal.write(change)).await.unwrap();
        }
        let lived = log.lived_call("t").await;
        assert_eq!(log.events_of(&lived).await.len(), 6);
        assert_eq!(
            log.prune_all(RetentionTarget::Events, 500).await.1,
            PruneCounts { calls: 0, events: 1, is_unfinished: false }
        );
        assert_eq!(log.stored(&lived).await.outcome, lived.outcome);
        let kinds: Vec<&str> = log.events_of(&lived).await.iter().map(|event| event.2).collect();
        assert_eq!(kinds, ["tool_call", "status", "status", "status", "tool_result"]);
        assert_eq!(log.events_of(&running).await.len(), 4, "one that runs has all of its events");
        assert_eq!(log.store.forgotten_until().await.unwrap(), log.store.newest().await.unwrap());
        assert_eq!(log.prune_all(RetentionTarget::Calls, 500).await.1.calls, 1, "its call goes later");
    }
);

on_both_databases!(
    async fn call_with_an_undelivered_callback_stays(backend: Backend) {
        let log = Log::open(backend).await;
        let before = log.whole_call("t").await;
        let awaited = log.whole_call("t").await;
        let row = CallbackRow { call_id: awaited.id, url: "http://x/".into(), event_id: log.ids.next() };
        log.store.insert_callbacks(&[row]).await.unwrap();
        assert_eq!(log.prune_all(RetentionTarget::Calls, 500).await.1.calls, 1);
        assert!(!log.is_there(&before).await && log.is_there(&awaited).await);
        let given_up = RecordedOutcome::Failed { status: None, error: "gone".into(), next_at: None };
        log.store.note_callbacks(&[AttemptRecord { call_id: awaited.id, attempt: 0, noted: given_up }]).await.unwrap();
        assert_eq!(log.prune_all(RetentionTarget::Calls, 500).await.1.calls, 1);
    }
);

on_both_databases!(
    async fn messages_about_deleted_calls_are_deleted(backend: Backend) {
        let log = Log::open(backend).await;
        let open = log.call("open");
        log.write(&open, ACCEPTED).await.unwrap();
        for call in [open.id, log.ids.next()] {
            let message = Message { call, kind: "cancel".into(), body: "{}".into() };
            log.store.leave_message(log.ids.next(), &message).await.unwrap();
        }
        log.store.forget_messages_of_nobody(Time(0)).await.unwrap();
        let count = async || log.store.messages("node", uuid::Uuid::nil()).await.unwrap().len();
        assert_eq!(count().await, 1);
        log.store.forget_messages_of_nobody(LATER).await.unwrap();
        assert_eq!(count().await, 1, "that of the call that is there");
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn while_another_node_deletes_nothing_is_done_and_nothing_waits() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let log = Log::on(database.clone(), toolpost::domain::IdGenerator::counted()).await;
    let call = log.whole_call("t").await;
    let mut other = sqlx::PgConnection::connect(&database.url).await.unwrap();
    let mut held = other.begin().await.unwrap();
    sqlx::query("SELECT shard FROM retention FOR UPDATE").execute(&mut *held).await.unwrap();
    assert_eq!(log.prune(RetentionTarget::Calls, 500).await, PruneCounts::default());
    log.whole_call("t").await;
    assert!(log.is_there(&call).await);
    held.rollback().await.unwrap();
    assert_eq!(log.prune_all(RetentionTarget::Calls, 500).await.1.calls, 2);
}

on_both_databases!(
    async fn calls_are_written_while_others_are_deleted(backend: Backend) {
        let mut log = Log::open(backend).await;
        for _ in 0..20 {
            log.lived_call("old").await;
        }
        let deleting = {
            let store = log.store.clone();
            tokio::spawn(
                async move { while store.prune(RetentionTarget::Calls, LATER, 4).await.unwrap().is_unfinished {} },
            )
        };
        let mut receipts = Vec::new();
        for _ in 0..50 {
            let call = ended(&log.call("new"), Outcome::text("x"), 1);
            receipts.push(log.journal.enqueue(Change::new(Arc::new(call), WHOLE)).await.unwrap());
        }
        for receipt in receipts {
            assert_eq!(bounded("a commit", receipt).await.unwrap(), Ok(()));
        }
        bounded("the deletion", deleting).await.unwrap();
        log.prune_all(RetentionTarget::Calls, 500).await;
        assert_eq!((log.counts("old").await, log.counts("new").await), ((20, 20, 0), (50, 50, 0)));
        assert_eq!(log.commits().await, 0);
        log.take_published().await;
    }
);
