//! On Postgres the history is partitioned by time: a missing partition is created, and an expired one is dropped.

use std::sync::Arc;

use sqlx::Connection;
use toolpost::domain::call::CallRecord;
use toolpost::domain::{Call, Outcome, Shard, Time};
use toolpost::store::callbacks::{AttemptRecord, CallbackRow, RecordedOutcome};
use toolpost::store::{Db, partitions};
use uuid::Uuid;

use super::{ACCEPTED, ACCEPTED_AT, Log, SETTLED, WHOLE, ended};
use crate::support::{Backend, bounded};

const HOUR_MS: i64 = 60 * 60 * 1000;

/// Returns the time of an hour, counted from that of the first calls, in microseconds.
fn hour(number: i64) -> Time {
    Time(ACCEPTED_AT + number * HOUR_MS * 1000)
}

/// Builds a call that is accepted at the beginning of this hour.
fn call_at(number: i64) -> Call {
    let created_at = hour(number);
    let id = Uuid::from_u128(u128::from((created_at.0 / 1000).unsigned_abs()) << 80 | 7 << 76);
    Call::from(CallRecord::accepted(
        Shard::default().id_within(id),
        "t".into(),
        None,
        Arc::default(),
        created_at,
        "node".into(),
    ))
}

impl Log {
    /// Opens a log whose partitions are an hour wide, up to the second hour.
    async fn partitioned() -> Self {
        let log = Self::open(Backend::Postgres).await;
        let width = HOUR_MS.unsigned_abs();
        log.store.create_partitions(hour(0), width).await.unwrap();
        log.store.create_partitions(hour(1), width).await.unwrap();
        log
    }

    async fn drop_partitions(&self, before: Time) -> usize {
        bounded("partitions", self.store.drop_partitions(before)).await.unwrap()
    }

    async fn stored_partitions(&self) -> i64 {
        let Db::Postgres(pools) = self.store.db() else { panic!("no partitions") };
        sqlx::query_scalar("SELECT COUNT(*) FROM call_partitions").fetch_one(&pools.reader.pool()).await.unwrap()
    }

    async fn has(&self, call: &Call) -> bool {
        self.store.call(call.id).await.unwrap().is_some()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_without_a_partition_is_stored() {
    requires_postgres!();
    let log = Log::open(Backend::Postgres).await;
    assert_eq!(log.stored_partitions().await, 0);
    let (now, far) = (call_at(0), call_at(24 * 365));
    for call in [&now, &far] {
        log.write(&ended(call, Outcome::text("done"), 3), WHOLE).await.unwrap();
        assert_eq!(log.stored(call).await.outcome, Some(Arc::new(Outcome::text("done"))));
    }
    assert_eq!(log.counts("t").await, (2, 2, 0));
    assert_eq!(log.read_back(0, 10).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_created_ahead_once() {
    requires_postgres!();
    let log = Log::partitioned().await;
    assert_eq!(log.stored_partitions().await, 3);
    let again = async || log.store.create_partitions(hour(0), HOUR_MS.unsigned_abs()).await.unwrap();
    tokio::join!(again(), again());
    assert_eq!(log.stored_partitions().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_is_dropped_when_all_its_calls_have_expired() {
    requires_postgres!();
    let log = Log::partitioned().await;
    let (old, young) = (call_at(0), call_at(1));
    for call in [&old, &young] {
        log.write(&ended(call, Outcome::text("done"), 3), WHOLE).await.unwrap();
    }
    assert_eq!(log.drop_partitions(hour(1)).await, 0);
    assert_eq!(log.drop_partitions(hour(2)).await, 1, "the calls of the first hour ended an hour ago at least");
    assert!(!log.has(&old).await && log.has(&young).await);
    assert_eq!(log.drop_partitions(hour(2)).await, 0);
    assert_eq!(log.counts("t").await, (2, 2, 0), "the stats stay");
    assert!(log.store.forgotten_until().await.unwrap().position_in(Shard::default()) > 0);
    // A call of that time can still be stored.
    log.write(&ended(&old, Outcome::text("again"), 3), WHOLE).await.unwrap();
    assert!(log.has(&old).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_with_an_open_or_late_call_is_kept() {
    requires_postgres!();
    let log = Log::partitioned().await;
    let open = call_at(0);
    log.write(&open, ACCEPTED).await.unwrap();
    assert_eq!(log.drop_partitions(hour(9)).await, 0, "it has not ended");
    let end = ended(&open, Outcome::text("late"), 5 * HOUR_MS);
    log.write(&end, SETTLED).await.unwrap();
    assert_eq!(log.drop_partitions(hour(4)).await, 0, "it ended in the fifth hour");
    assert_eq!(log.stored(&open).await.outcome, end.outcome);
    assert_eq!(log.drop_partitions(hour(9)).await, 3);
    assert!(!log.has(&open).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_with_an_undelivered_callback_is_kept() {
    requires_postgres!();
    let log = Log::partitioned().await;
    let call = call_at(0);
    log.write(&ended(&call, Outcome::text("done"), 3), WHOLE).await.unwrap();
    let row = CallbackRow { call_id: call.id, url: "http://x/".into(), event_id: log.ids.next() };
    log.store.insert_callbacks(&[row]).await.unwrap();
    assert_eq!(log.drop_partitions(hour(9)).await, 0);
    let noted = RecordedOutcome::Delivered { status: 200, at: hour(1) };
    log.store.note_callbacks(&[AttemptRecord { call_id: call.id, attempt: 1, noted }]).await.unwrap();
    assert_eq!(log.drop_partitions(hour(9)).await, 3);
    assert_eq!(log.store.callback_state(call.id).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_that_is_being_read_is_dropped_later() {
    requires_postgres!();
    let log = Log::partitioned().await;
    log.write(&ended(&call_at(0), Outcome::text("done"), 3), WHOLE).await.unwrap();
    let Db::Postgres(pools) = log.store.db() else { panic!("no partitions") };
    let mut connection = pools.reader.pool().acquire().await.unwrap();
    let mut reading = connection.begin().await.unwrap();
    sqlx::query("SELECT id FROM tool_calls").fetch_all(&mut *reading).await.unwrap();
    assert_eq!(log.drop_partitions(hour(9)).await, 0);
    reading.rollback().await.unwrap();
    // Each attempt waits for a lock only briefly, which a busy machine may take longer to release.
    let mut dropped = 0;
    while dropped < 3 {
        dropped += log.drop_partitions(hour(9)).await;
    }
    assert_eq!(dropped, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_has_no_partitions() {
    let log = Log::open(Backend::Sqlite).await;
    log.store.create_partitions(hour(0), partitions::width_for(0)).await.unwrap();
    log.write(&ended(&call_at(0), Outcome::text("done"), 3), WHOLE).await.unwrap();
    assert_eq!(log.drop_partitions(hour(9)).await, 0);
}
