//! A commit with calls of several tenants: each tenant has its own idempotency keys and stats.

use std::sync::Arc;

use toolpost::domain::call::CallRecord;
use toolpost::domain::event::{EventKind, Reported};
use toolpost::domain::{Call, Cursor, IdempotencyKey, KeyClaim, Outcome, Tenant, Time};
use toolpost::store::journal::{Change, JournalError};

use super::{ACCEPTED, ACCEPTED_AT, Log, SETTLED, STARTED, WHOLE, ended};
use crate::support::Backend;

on_both_databases!(
    async fn calls_of_several_tenants_in_one_commit_are_separate(backend: Backend) {
        let log = Log::open(backend).await;
        let tenants = ["default", "one", "other"].map(Tenant::stored);
        let before = log.commits().await;
        let (mut changes, mut calls) = (Vec::new(), Vec::new());
        for (index, tenant) in tenants.iter().enumerate() {
            let callback_url = Some(format!("http://127.0.0.1:9/{index}").into());
            let record = log.call("t").into_record();
            let whole = Call::from(CallRecord { tenant: tenant.clone(), callback_url, ..record });
            let whole = ended(&whole, Outcome::text(tenant.as_str()), 5 + index as i64);
            // All tenants use the same key.
            let once = IdempotencyKey::of_request("same", &serde_json::Value::Null);
            let claim = KeyClaim { once, batch_id: None, calls: vec![whole.id] };
            let change = Change::new(Arc::new(whole.clone()), WHOLE).with_claims(vec![claim]);
            changes.push(change.with_callback(log.ids.next()));
            calls.push(whole);
        }
        assert!(log.together(changes).await.iter().all(Result::is_ok));
        assert_eq!(log.commits().await - before, 2, "one before, and one for all of them");
        for (index, tenant) in tenants.iter().enumerate() {
            let store = log.store.stores().for_tenant(tenant);
            for call in &calls {
                let found = store.call(call.id).await.unwrap();
                assert_eq!(found.is_some(), call.tenant == *tenant);
                assert_eq!(log.store.owner_of(call.id).await.unwrap().as_ref(), Some(&call.tenant));
            }
            let ids: Vec<_> = calls.iter().map(|call| call.id).collect();
            assert_eq!(store.calls_of(&ids).await.unwrap().len(), 1);
            let (events, _) = store.events_after(&Cursor::default(), 100).await.unwrap();
            assert!(events.iter().all(|event| event.call.tenant == *tenant));
            assert!(events.iter().any(|event| event.call.id == calls[index].id));
            let stats = store.stats(Some("t")).await.unwrap().pop().unwrap();
            assert_eq!((stats.success_count, stats.total_duration_ms), (1, 5 + index as u64));
            let once = IdempotencyKey::of_request("same", &serde_json::Value::Null);
            let claim = store.claim(&once.key, Time(ACCEPTED_AT)).await.unwrap().unwrap();
            assert_eq!(claim.calls, [calls[index].id]);
            let url = store.callback_state(calls[index].id).await.unwrap().unwrap().url;
            assert_eq!(url, format!("http://127.0.0.1:9/{index}"));
        }
    }
);

on_both_databases!(
    async fn rejection_in_a_commit_of_several_tenants_affects_no_other(backend: Backend) {
        let log = Log::open(backend).await;
        let once = IdempotencyKey::of_request("same", &serde_json::Value::Null);
        let call =
            |tenant: &str| Call::from(CallRecord { tenant: Tenant::stored(tenant), ..log.call("t").into_record() });
        let claiming = |tenant: &str| {
            let call = call(tenant);
            let claim = KeyClaim { once, batch_id: None, calls: vec![call.id] };
            Change::new(Arc::new(call), ACCEPTED).with_claims(vec![claim])
        };
        assert_eq!(log.together(vec![claiming("one")]).await, [Ok(())]);
        // One tenant has claimed the key in an earlier commit, another within this one.
        let changes = vec![claiming("one"), claiming("other"), claiming("other"), claiming("third")];
        let claimed = Err(JournalError::Claimed);
        assert_eq!(log.together(changes).await, [claimed, Ok(()), claimed, Ok(())]);
        // Changes of stored calls, including reported events.
        let (mut one, mut other) = (call("one"), call("other"));
        for call in [&one, &other] {
            log.write(call, ACCEPTED).await.unwrap();
        }
        let mut changes = Vec::new();
        for call in [&mut one, &mut other] {
            call.start(Time(ACCEPTED_AT)).unwrap();
            changes.push(Change::new(Arc::new(call.clone()), STARTED));
            let seq = call.note().unwrap();
            let reported = Reported { seq, kind: EventKind::Progress, data: call.tenant.as_str().to_owned() };
            changes.push(Change::reported(Arc::new(call.clone()), Arc::new(reported)));
            call.settle(Outcome::text("x"), Time(ACCEPTED_AT + 1000)).unwrap();
            changes.push(Change::new(Arc::new(call.clone()), SETTLED));
        }
        assert!(log.together(changes).await.iter().all(Result::is_ok));
        for call in [&one, &other] {
            let store = log.store.stores().for_tenant(&call.tenant);
            assert!(store.call(call.id).await.unwrap().unwrap().status.is_terminal());
            assert_eq!(store.events_of(call.id).await.unwrap().unwrap().len(), 6);
            assert_eq!(store.stats(Some("t")).await.unwrap()[0].success_count, 1);
        }
    }
);
