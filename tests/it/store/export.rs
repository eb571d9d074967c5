//! The walk through all calls, which is complete and in order during concurrent changes.

use toolpost::domain::call::CallRecord;
use toolpost::domain::{Call, IdGenerator, Outcome, Time};
use toolpost::store::export::ExportFilter;
use uuid::Uuid;

use super::{ACCEPTED_AT, Log, WHOLE, ended, whole};
use crate::support::{Backend, Database, bounded};

async fn exported(log: &Log, filter: ExportFilter) -> Vec<Uuid> {
    let mut export = log.store.export(filter);
    let mut all = Vec::new();
    while let Some(calls) = bounded("a portion", export.next()).await.unwrap() {
        all.extend(calls.into_iter().map(|call| call.unwrap().id));
    }
    all
}

/// Builds a call with an id of this time.
fn at(millis: i64, number: u128, name: &str) -> Call {
    let id = Uuid::from_u128((u128::try_from(millis).unwrap() << 80) | (0x7 << 76) | (0x2 << 62) | number);
    let call =
        Call::from(CallRecord::accepted(id, name.into(), None, Default::default(), Time(millis * 1000), "node".into()));
    ended(&call, Outcome::text("x"), 1)
}

on_both_databases!(
    async fn every_call_is_exported_once_in_order(backend: Backend) {
        let log = Log::open(backend).await;
        let start = ACCEPTED_AT / 1000;
        let calls: Vec<Call> =
            (0..2100_i64).map(|n| at(start + n * 1000, 1, if n % 7 == 0 { "seven" } else { "t" })).collect();
        let changes = calls.iter().rev().map(whole).collect();
        assert!(log.together(changes).await.iter().all(Result::is_ok));
        let ids: Vec<Uuid> = calls.iter().map(|call| call.id).collect();
        let all = exported(&log, ExportFilter::default()).await;
        assert_eq!(all.len(), 2101, "with the one that the journal was held by");
        assert_eq!(all[1..], ids);
        let named = exported(&log, ExportFilter { name: Some("seven".into()), ..ExportFilter::default() }).await;
        assert_eq!(named, ids.iter().step_by(7).copied().collect::<Vec<_>>());
        let (since, until) = (Time((start + 100_000) * 1000), Time((start + 1_900_000) * 1000));
        let part = ExportFilter { since: Some(since), until: Some(until), ..ExportFilter::default() };
        assert_eq!(exported(&log, part).await, ids[100..1900]);
    }
);

on_both_databases!(
    async fn large_and_deleted_calls_do_not_break_the_export(backend: Backend) {
        let log = Log::on(Database::fresh(backend).await, IdGenerator::random()).await;
        let mut calls = Vec::new();
        for n in 0..6 {
            let call = ended(&log.call("t"), Outcome::text("x".repeat(n * 2_000_000)), 1);
            log.write(&call, WHOLE).await.unwrap();
            calls.push(call.id);
        }
        let mut export = log.store.export(ExportFilter::default());
        let first = export.next().await.unwrap().unwrap();
        assert!(first.len() < 6, "not all of them at once");
        log.sql("DELETE FROM tool_calls WHERE octet_length(record) > 9000000").await;
        let mut seen: Vec<Uuid> = first.into_iter().map(|call| call.unwrap().id).collect();
        while let Some(more) = export.next().await.unwrap() {
            seen.extend(more.into_iter().map(|call| call.unwrap().id));
        }
        assert_eq!(seen, calls[..5]);
    }
);

on_both_databases!(
    async fn unreadable_call_does_not_stop_the_export(backend: Backend) {
        let log = Log::open(backend).await;
        for name in ["a", "broken", "c"] {
            log.write(&ended(&log.call(name), Outcome::text("x"), 1), WHOLE).await.unwrap();
        }
        log.sql("UPDATE tool_calls SET record = '{' WHERE tool = 'broken'").await;
        let read = log.store.export(ExportFilter::default()).next().await.unwrap().unwrap();
        let good: Vec<bool> = read.iter().map(Result::is_ok).collect();
        assert_eq!(good, [true, false, true]);
    }
);
