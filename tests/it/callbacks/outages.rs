//! Database outages in the middle of a delivery. No callback is lost: due callbacks are looked up every second, and an
//! unrecorded attempt does not consume a step of the schedule.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use toolpost::domain::{Clock, Time};
use toolpost::store::callbacks::ExcludedTargets;
use toolpost::store::{Db, Store};

use super::Service;
use crate::support::postgres::PgCluster;
use crate::support::{Answer, Backend, Database, HttpTool, ReceivedRequest, eventually};

/// Starts a receiver that answers 500 until it has recovered.
async fn receiver() -> (HttpTool, Arc<AtomicBool>) {
    let has_recovered = Arc::<AtomicBool>::default();
    let answers = has_recovered.clone();
    let receiver = HttpTool::start("127.0.0.1", move |_: &ReceivedRequest| match answers.load(Ordering::SeqCst) {
        false => Answer::status(500, "text/plain", "not now"),
        true => Answer::text("ok"),
    })
    .await;
    (receiver, has_recovered)
}

/// A database that can be made unavailable: a Postgres server, or the tables of a SQLite file.
enum Outage {
    Sqlite(Store),
    Postgres(Arc<PgCluster>),
}

impl Outage {
    async fn start(backend: Backend) -> (Database, Self) {
        match backend {
            Backend::Sqlite => {
                let database = Database::fresh(backend).await;
                let store = Store::open(&database.url).await.unwrap();
                (database, Self::Sqlite(store))
            }
            Backend::Postgres => {
                let made = tokio::task::spawn_blocking(|| {
                    let cluster = PgCluster::start();
                    let url = cluster.create_database();
                    (Database::at(url), Arc::new(cluster))
                });
                let (database, cluster) = made.await.unwrap();
                (database, Self::Postgres(cluster))
            }
        }
    }

    async fn begin(&self) {
        self.change("ALTER TABLE callbacks RENAME TO away", PgCluster::stop_immediate).await;
    }

    async fn end(&self) {
        self.change("ALTER TABLE away RENAME TO callbacks", PgCluster::start_again).await;
    }

    async fn change(&self, sql: &'static str, work: fn(&PgCluster)) {
        match self {
            Self::Sqlite(store) => {
                let Db::Sqlite(pools) = store.db() else { unreachable!() };
                sqlx::raw_sql(sql).execute(&pools.writer.pool()).await.unwrap();
            }
            Self::Postgres(cluster) => {
                let cluster = cluster.clone();
                tokio::task::spawn_blocking(move || work(&cluster)).await.unwrap();
            }
        }
    }
}

on_both_databases!(
    async fn callback_is_delivered_despite_three_outages(backend: Backend) {
        let (database, outage) = Outage::start(backend).await;
        let service = Service::on(database, Clock::manual(Time(1_767_225_600_123_456)), &["127.0.0.1"]).await;
        let gate = HttpTool::answering(Answer::AfterGate(Box::new(Answer::status(500, "text/plain", "no")))).await;
        let call = service.call(&gate.url("/x")).await;
        // First, an outage during an attempt, whose end is recorded once the database is available again.
        gate.received(1).await;
        outage.begin().await;
        gate.open();
        outage.end().await;
        let mut callback = service.tried(&call, 1).await;
        assert_eq!((&callback["state"], &callback["last_status"]), (&"pending".into(), &500.into()));
        // Then, an outage while the next attempt is due.
        for attempt in 2..=3 {
            outage.begin().await;
            service.go_to_next(&callback);
            outage.end().await;
            callback = service.tried(&call, attempt).await;
        }
        let started = Time::parse(callback["next_attempt_at"].as_str().unwrap()).unwrap();
        let wait_ms = started.millis_since(service.clock.now());
        assert!((94_000..=100_000).contains(&wait_ms), "the wait before the fourth try, {wait_ms} ms");
        service.app.stop().await;
    }
);

on_both_databases!(
    async fn lost_tries_use_up_no_step_of_the_schedule(backend: Backend) {
        let service = Service::start(backend).await;
        let (receiver, has_recovered) = receiver().await;
        let call = service.call(&receiver.url("/x")).await;
        let first = service.tried(&call, 1).await;
        // The service stops, and another node claims the callback without recording a result: the database's response
        // was lost, or the node was.
        let Service { app, clock, database, allow } = service;
        app.stop().await;
        let gone = Store::open(&database.url).await.unwrap();
        clock.advance_ms(5_000);
        for _ in 0..3 {
            let due = gone.due_callbacks(clock.now(), &ExcludedTargets::default(), 10).await.unwrap();
            let until = Time(clock.now().0 + 25_000_000);
            assert_eq!(gone.claim_callbacks(due, clock.now(), until).await.unwrap().len(), 1);
            let state = gone.callback_state(call.id).await.unwrap().unwrap();
            assert_eq!((state.next_attempt_at, state.trying_until), (None, Some(until)));
            clock.advance_ms(25_000);
        }
        let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
        let service = Service::on(database, clock, &allow).await;
        let second = service.tried(&call, 5).await;
        assert_eq!((receiver.requests().len(), &second["event_id"]), (2, &first["event_id"]));
        let next = Time::parse(second["next_attempt_at"].as_str().unwrap()).unwrap();
        let wait_ms = next.millis_since(service.clock.now());
        assert!(wait_ms <= 15_000, "the third try that is made comes as the third, not as the sixth: {wait_ms} ms");
        has_recovered.store(true, Ordering::SeqCst);
        service.go_to_next(&second);
        assert_eq!(service.delivered(&call).await["attempts"], 6);
        service.app.stop().await;
    }
);

on_both_databases!(
    async fn clock_that_was_ahead_delays_no_callback(backend: Backend) {
        const YEARS_MS: i64 = 20 * 365 * 24 * 3600 * 1000;
        let service = Service::start(backend).await;
        let (receiver, has_recovered) = receiver().await;
        service.clock.jump_ms(YEARS_MS);
        let call = service.call(&receiver.url("/x")).await;
        service.tried(&call, 1).await;
        service.clock.jump_ms(-YEARS_MS);
        has_recovered.store(true, Ordering::SeqCst);
        service.app.callback_wakeup.notify_one();
        eventually("the callback", || async { (receiver.requests().len() == 2).then_some(()) }).await;
        service.delivered(&call).await;
        service.app.stop().await;
    }
);
