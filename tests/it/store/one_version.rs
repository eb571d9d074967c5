//! The row of a call and its reported events are read one after the other. A commit in between must not show in part.

use std::sync::Arc;

use toolpost::domain::event::{EventKind, Reported};
use toolpost::domain::{Outcome, Time};
use toolpost::store::journal::Change;

use super::{ACCEPTED, Log, SETTLED, STARTED, ended};
use crate::support::{Backend, bounded};

on_both_databases!(
    async fn reported_events_of_a_later_commit_than_the_row_are_omitted(backend: Backend) {
        let log = Log::open(backend).await;
        let mut call = log.call("slow");
        log.write(&call, ACCEPTED).await.unwrap();
        // The state that a reader finds if the start and a report are committed after it has read the row.
        let (shard, id) = match backend {
            Backend::Sqlite => (0, format!("x'{}'", call.id.simple())),
            Backend::Postgres => (0, format!("'{}'", call.id)),
        };
        let insert = format!(
            "INSERT INTO call_events (shard, call_id, seq, pos, kind, data) VALUES ({shard}, {id}, 4, 100, 'status', '{{}}')"
        );
        log.sql(&insert).await;
        let seqs = async || -> Vec<u32> {
            log.store.events_of(call.id).await.unwrap().unwrap().iter().map(|event| event.seq).collect()
        };
        assert_eq!(seqs().await, [1, 2]);
        let together = log.store.events_of_any_tenant(&[call.id]).await.unwrap();
        assert_eq!(together.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2]);
        log.sql("DELETE FROM call_events").await;

        call.start(Time(1)).unwrap();
        log.write(&call, STARTED).await.unwrap();
        let seq = call.note().unwrap();
        let reported = Arc::new(Reported { seq, kind: EventKind::Status, data: "{}".into() });
        let change = Change::reported(Arc::new(call.clone()), reported);
        bounded("a report", log.journal.write(change)).await.unwrap();
        log.write(&ended(&call, Outcome::text("x"), 1), SETTLED).await.unwrap();
        let all = log.store.events_of(call.id).await.unwrap().unwrap();
        assert_eq!(all.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    }
);
