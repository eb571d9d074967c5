//! Callbacks that a stopped or crashed service left undelivered, and that the next run delivers.

use serde_json::Value;
use toolpost::domain::Time;
use toolpost::store::callbacks::{CallbackRow, ExcludedTargets};
use toolpost::store::{Db, Store};

use super::{Service, shown};
use crate::support::{Answer, App, Backend, HttpTool, Options, ReceivedRequest, bounded, eventually};

/// Marks all stored callbacks as undelivered, although the service may have sent them already.
async fn as_if_nothing_was_sent(store: &Store) {
    const SQL: &str = "UPDATE callbacks SET state = 0, attempts = 0, next_at = NULL, leased_until = NULL, \
        last_status = NULL, delivered_at = NULL";
    match store.db() {
        Db::Sqlite(pools) => drop(sqlx::raw_sql(SQL).execute(&pools.writer.pool()).await.unwrap()),
        Db::Postgres(pools) => drop(sqlx::raw_sql(SQL).execute(&pools.writer.pool()).await.unwrap()),
    }
}

on_both_databases!(
    async fn try_interrupted_by_a_stop_is_repeated(backend: Backend) {
        let service = Service::start(backend).await;
        let tries = std::sync::atomic::AtomicUsize::new(0);
        let receiver = HttpTool::start("127.0.0.1", move |_: &ReceivedRequest| {
            match tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => Answer::Never,
                _ => Answer::text("ok"),
            }
        })
        .await;
        let call = service.call(&receiver.url("/x")).await;
        receiver.received(1).await;
        let service = service.restart().await;
        receiver.closed().await;
        let callback = service.delivered(&call).await;
        assert_eq!(callback["attempts"], 1, "an interrupted try does not count");
        let requests = receiver.requests();
        assert_eq!(requests.len(), 2);
        assert!(requests.iter().all(|request| request.header("webhook-id") == callback["event_id"]));
        assert_eq!(requests[1].json(), shown(&call));
        service.app.stop().await;
    }
);

on_both_databases!(
    async fn try_lost_in_a_crash_is_repeated_after_its_lease(backend: Backend) {
        let service = Service::start(backend).await;
        let receiver = HttpTool::answering(Answer::text("ok")).await;
        let call = service.ended(&receiver.url("/x")).await;
        let Service { app, clock, database, allow } = service;
        app.stop().await;
        // A node claims the callback and is lost.
        let gone = Store::open(&database.url).await.unwrap();
        as_if_nothing_was_sent(&gone).await;
        let before = receiver.requests().len();
        let due = gone.due_callbacks(clock.now(), &ExcludedTargets::default(), 10).await.unwrap();
        let until = Time(clock.now().0 + 25_000_000);
        assert_eq!(gone.claim_callbacks(due, clock.now(), until).await.unwrap().len(), 1);
        gone.close().await;

        let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
        let service = Service::on(database, clock, &allow).await;
        // Once another callback is delivered, the service has also looked for this one.
        let other = HttpTool::answering(Answer::text("ok")).await;
        service.delivered(&*service.call(&other.url("/")).await).await;
        assert_eq!(receiver.requests().len(), before, "its lease is another's");
        service.clock.advance_ms(25_000);
        let callback = service.delivered(&call).await;
        assert_eq!(callback["attempts"], 2);
        service.app.stop().await;
    }
);

on_both_databases!(
    async fn call_shows_the_outcome_of_its_callback(backend: Backend) {
        let service = Service::start(backend).await;
        let receiver = HttpTool::answering(Answer::text("ok")).await;
        let call = service.ended(&receiver.url("/x")).await;
        let Service { app, database, .. } = service;
        // The callback is accepted with its call, and the service stops before it delivers it.
        let row = CallbackRow::of(&call, call.id).unwrap();
        app.store.insert_callbacks(&[row]).await.unwrap();
        bounded("the end of the service", app.stop()).await;

        let options = Options { egress_allow: vec!["127.0.0.1".into()], ..Options::default() };
        let app = App::start_at(database.url.clone(), options).await;
        let path = format!("/tool-calls/{}", call.id);
        let callback: Value = eventually("the callback", || async {
            let callback = app.get(&path).await.ok()["metadata"]["callback"].take();
            (callback["state"] == "delivered").then_some(callback)
        })
        .await;
        assert_eq!(callback["attempts"], 1);
        let page = app.get("/tool-calls").await.ok();
        assert_eq!(page["tool_calls"][0]["metadata"]["callback"], callback);
        assert_eq!(receiver.request().header("webhook-id"), callback["event_id"]);
    }
);
