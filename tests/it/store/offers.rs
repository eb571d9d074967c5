//! Offers of calls to workers.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use toolpost::domain::{Call, IdempotencyKey, KeyClaim, Outcome, Tenant, Time};
use toolpost::store::Stores;
use toolpost::store::journal::Change;
use toolpost::store::workers::{AfterLease, Claim, Offer, OfferState, StoredOffer};
use uuid::Uuid;

use super::{ACCEPTED, Log, SETTLED, STARTED, ended};
use crate::support::{Backend, bounded};

impl Log {
    async fn accepted_call(&self) -> Call {
        let call = self.call("t");
        self.write(&call, ACCEPTED).await.unwrap();
        call
    }

    /// Offers an attempt as this node. Returns the stored offer.
    async fn offer(&self, node: &str, offer: Offer) -> Option<StoredOffer> {
        let call = offer.call;
        self.store.write_offers(node, &[], &[offer]).await.unwrap().remove(&call)
    }

    async fn offer_state(&self, call: Uuid) -> Option<(u32, &'static str)> {
        let row = self.store.offer_of(call).await.unwrap()?;
        Some((row.attempt, name_of(row.state)))
    }

    async fn claimed(&self, worker: &str) -> Vec<Claim> {
        // The store has a claim of idempotency keys, too.
        Stores::claim(&self.store, (&Tenant::default(), "q"), None, &[worker.into()], "node").await.unwrap()
    }

    async fn expire_all_leases(&self) {
        self.sql("UPDATE worker_calls SET lease_until = lease_until - 3600000").await;
    }
}

fn name_of(state: OfferState) -> &'static str {
    match state {
        OfferState::Waiting => "waiting",
        OfferState::Claimed { .. } => "claimed",
        OfferState::Answered => "answered",
    }
}

fn offer(call: &Call, attempt: u32, worker: Option<&str>) -> Offer {
    Offer {
        call: call.id,
        tenant: Tenant::default(),
        queue: "q".into(),
        tool: "t".into(),
        priority: 0,
        attempt,
        lease_ms: 30_000,
        worker: worker.map(Arc::from),
    }
}

on_both_databases!(
    async fn only_the_owner_of_a_call_offers_and_withdraws_it(backend: Backend) {
        let log = Log::open(backend).await;
        let call = log.accepted_call().await;
        assert!(log.offer("other", offer(&call, 1, None)).await.is_none(), "another node owns the call");
        assert!(log.offer("node", offer(&call, 1, None)).await.is_some());
        assert_eq!(log.claimed("w").await.len(), 1);
        // Another node adopts the call, and the row still names the former owner.
        log.sql("UPDATE tool_calls SET node = 'other'").await;
        log.store.withdraw_unanswered(call.id, "node").await.unwrap();
        log.store.delete_offer(call.id, "node").await.unwrap();
        assert!(!log.store.withdraw_unclaimed(call.id, "node").await.unwrap(), "a worker has it");
        assert!(log.offer("node", offer(&call, 2, None)).await.is_none());
        assert_eq!(log.offer_state(call.id).await, Some((1, "claimed")));
        // The new owner finds the claim, and the former one no longer deletes the row.
        let stored = log.offer("other", offer(&call, 1, None)).await.unwrap();
        assert_eq!((stored.attempt, name_of(stored.state)), (1, "claimed"));
        log.store.write_offers("node", &[call.id], &[]).await.unwrap();
        assert_eq!(log.offer_state(call.id).await, Some((1, "claimed")));
        assert!(log.store.withdraw_unanswered(call.id, "other").await.unwrap());
        assert_eq!(log.offer_state(call.id).await, None);
    }
);

on_both_databases!(
    async fn no_attempt_is_offered_twice_and_no_ended_call_at_all(backend: Backend) {
        let log = Log::open(backend).await;
        let call = log.accepted_call().await;
        log.offer("node", offer(&call, 1, None)).await.unwrap();
        assert_eq!(log.claimed("w").await.len(), 1);
        // A write whose acknowledgement was lost is repeated.
        let again = log.offer("node", offer(&call, 1, None)).await.unwrap();
        assert_eq!((again.attempt, name_of(again.state)), (1, "claimed"));
        let next = log.offer("node", offer(&call, 2, None)).await.unwrap();
        assert_eq!((next.attempt, name_of(next.state)), (2, "waiting"));
        let earlier = log.offer("node", offer(&call, 1, None)).await.unwrap();
        assert_eq!((earlier.attempt, name_of(earlier.state)), (2, "waiting"));
        log.write(&ended(&call, Outcome::text("x"), 1), SETTLED).await.unwrap();
        assert!(log.offer("node", offer(&call, 3, None)).await.is_none());
        log.store.delete_ended_offers().await.unwrap();
        assert_eq!(log.offer_state(call.id).await, None);
    }
);

on_both_databases!(
    async fn claim_is_revoked_only_for_its_worker_and_attempt(backend: Backend) {
        let log = Log::open(backend).await;
        let call = log.accepted_call().await;
        let stored = log.offer("node", offer(&call, 1, Some("w"))).await.unwrap();
        assert_eq!((stored.attempt, name_of(stored.state)), (1, "claimed"), "it is offered as claimed");
        assert!(log.claimed("other").await.is_empty());
        let claim = |worker: &str, attempt| Claim {
            call: call.id,
            attempt,
            lease_ms: 30_000,
            worker: worker.into(),
            is_own: true,
        };
        for wrong in [claim("other", 1), claim("w", 2)] {
            log.store.unclaim(&wrong).await.unwrap();
            assert_eq!(log.offer_state(call.id).await, Some((1, "claimed")));
        }
        log.store.unclaim(&claim("w", 1)).await.unwrap();
        assert_eq!(log.offer_state(call.id).await, Some((1, "waiting")));
        assert_eq!(log.claimed("other").await[0].attempt, 1);
    }
);

on_both_databases!(
    async fn ended_call_is_not_assigned_to_another_worker(backend: Backend) {
        let log = Log::open(backend).await;
        let call = log.accepted_call().await;
        log.offer("node", offer(&call, 1, Some("w"))).await.unwrap();
        let claim = Claim { call: call.id, attempt: 1, lease_ms: 30_000, worker: "w".into(), is_own: true };
        log.write(&ended(&call, Outcome::text("x"), 1), SETTLED).await.unwrap();
        // The server runs the statement after the end of the call.
        log.store.unclaim(&claim).await.unwrap();
        assert_eq!(log.offer_state(call.id).await, Some((1, "claimed")));
        assert!(log.claimed("other").await.is_empty());
    }
);

on_both_databases!(
    async fn valid_lease_does_not_end(backend: Backend) {
        let log = Log::open(backend).await;
        let mut call = log.accepted_call().await;
        call.start(Time(1)).unwrap();
        log.write(&call, STARTED).await.unwrap();
        log.offer("node", offer(&call, 1, Some("w"))).await.unwrap();
        assert!(!log.store.expire_lease((call.id, 1), "node", AfterLease::End).await.unwrap());
    }
);

on_both_databases!(
    async fn lease_expires_for_its_attempt_only(backend: Backend) {
        let log = Log::open(backend).await;
        let mut call = log.accepted_call().await;
        log.offer("node", offer(&call, 1, Some("w"))).await.unwrap();
        let id = call.id;
        let expire = async |attempt, then| log.store.expire_lease((id, attempt), "node", then).await.unwrap();
        log.expire_all_leases().await;
        assert!(!expire(1, AfterLease::End).await, "without the row, nothing would say that a worker had the call");
        call.start(Time(1)).unwrap();
        log.write(&call, STARTED).await.unwrap();
        log.offer("node", offer(&call, 1, None)).await.unwrap();
        assert!(!expire(2, AfterLease::End).await, "another attempt");
        let other = log.store.expire_lease((id, 1), "other", AfterLease::End).await;
        assert!(!other.unwrap(), "the call belongs to another node");
        assert!(expire(1, AfterLease::OfferAgain).await);
        assert_eq!(log.offer_state(call.id).await, Some((2, "waiting")));
        assert_eq!(log.claimed("v").await[0].attempt, 2);
        log.expire_all_leases().await;
        assert!(!expire(1, AfterLease::End).await, "the next attempt has begun");
        assert!(expire(2, AfterLease::End).await);
        assert_eq!(log.offer_state(call.id).await, None);
    }
);

on_both_databases!(
    async fn worker_claim_is_stored_with_the_change_of_its_call_or_not_at_all(backend: Backend) {
        let log = Log::open(backend).await;
        let (new, known, refused) = (log.call("t"), log.accepted_call().await, log.accepted_call().await);
        let claimed = async |call: &Call, transitions| {
            let change = Change::new(Arc::new(call.clone()), transitions);
            log.journal.write(change.with_worker_claim(offer(call, 1, Some("w")))).await
        };
        claimed(&new, ACCEPTED).await.unwrap();
        let mut started = known.clone();
        started.start(Time(1)).unwrap();
        claimed(&started, STARTED).await.unwrap();
        for call in [&new, &known] {
            let stored = log.store.offer_of(call.id).await.unwrap().unwrap();
            assert_eq!(stored.attempt, 1);
            assert!(matches!(stored.state, OfferState::Claimed { left, .. } if !left.is_zero()));
            assert!(log.store.is_claimed(call.id, 1).await.unwrap());
        }
        assert!(log.claimed("other").await.is_empty());
        // The call exists already, so the database refuses the commit.
        claimed(&refused, ACCEPTED).await.unwrap_err();
        // Another node has adopted the call.
        log.sql("UPDATE tool_calls SET node = 'other'").await;
        let mut adopted = refused.clone();
        adopted.start(Time(1)).unwrap();
        claimed(&adopted, STARTED).await.unwrap_err();
        assert_eq!(log.offer_state(refused.id).await, None);
    }
);

on_both_databases!(
    async fn keys_and_worker_claims_of_one_moment_are_both_stored(backend: Backend) {
        let log = Log::open(backend).await;
        let calls: Vec<Call> = (0..8).map(|_| log.call("t")).collect();
        let changes = calls.iter().enumerate().map(|(number, call)| {
            let change = Change::new(Arc::new(call.clone()), ACCEPTED);
            let once = IdempotencyKey::of_request(&number.to_string(), &serde_json::Value::Null);
            match number % 2 {
                0 => change.with_worker_claim(offer(call, 1, Some("w"))),
                _ => change.with_claims(vec![KeyClaim { once, batch_id: None, calls: vec![call.id] }]),
            }
        });
        let before = log.commits().await;
        assert!(log.together(changes.collect()).await.iter().all(Result::is_ok));
        assert_eq!(log.commits().await - before, 3, "one before, one with the keys, one with the claims");
        for (number, call) in calls.iter().enumerate() {
            let expected = (number % 2 == 0).then_some((1, "claimed"));
            assert_eq!(log.offer_state(call.id).await, expected);
        }
    }
);

on_both_databases!(
    async fn offers_of_many_calls_are_taken_over_together(backend: Backend) {
        let log = Log::open(backend).await;
        let (waiting, claimed, foreign) =
            (log.accepted_call().await, log.accepted_call().await, log.accepted_call().await);
        for (call, worker) in [(&waiting, None), (&claimed, Some("w")), (&foreign, None)] {
            log.offer("node", offer(call, 1, worker)).await.unwrap();
        }
        let without = log.accepted_call().await;
        log.sql("UPDATE tool_calls SET node = 'adopter'").await;
        // The last one is the newest.
        log.sql("UPDATE tool_calls SET node = 'third' WHERE id = (SELECT call_id FROM worker_calls ORDER BY call_id DESC LIMIT 1)")
            .await;
        let ids = [waiting.id, claimed.id, foreign.id, without.id];
        let taken = log.store.take_over_offers(&ids, "adopter").await.unwrap();
        let mut states: Vec<_> = taken.iter().map(|(call, offer)| (*call, name_of(offer.state))).collect();
        states.sort_unstable();
        assert_eq!(states, [(waiting.id, "waiting"), (claimed.id, "claimed")]);
        assert_eq!(log.store.claimed_of("adopter").await.unwrap(), [claimed.id].into());
        assert_eq!(log.store.waiting_of("node").await.unwrap(), [foreign.id].into());
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn offer_is_not_taken_over_by_a_replaced_node() {
    requires_postgres!();
    let log = Log::open(Backend::Postgres).await;
    let call = log.accepted_call().await;
    log.offer("node", offer(&call, 1, None)).await.unwrap();
    let mut adopter = PgConnection::connect(&log.database.url).await.unwrap();
    sqlx::raw_sql("BEGIN; UPDATE tool_calls SET node = 'adopter'").execute(&mut adopter).await.unwrap();
    let adopted = async {
        let mut observer = PgConnection::connect(&log.database.url).await.unwrap();
        const WAITS: &str =
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while sqlx::query(WAITS).fetch_optional(&mut observer).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        sqlx::raw_sql("COMMIT").execute(&mut adopter).await.unwrap();
    };
    let taken = bounded("the takeover", async { tokio::join!(log.store.take_over_offer(call.id, "node"), adopted).0 });
    assert_eq!(taken.await.unwrap(), None, "the adopter owns the call");
}
