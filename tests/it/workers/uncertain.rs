//! Offers and claims whose acknowledgement by the database is lost.

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use super::{called, claim_now, claim_one, finish, tool};
use crate::support::calls::id_of;
use crate::support::pg_proxy::PgProxy;
use crate::support::pg_proxy::loss::Loss;
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Database, Options, eventually};

/// Starts a service that loses acknowledgements as `loss` determines. The tool may not run twice, and its leases are long.
async fn service(database: &Database, loss: &std::sync::Arc<Loss>) -> (App, PgProxy) {
    let proxy = PgProxy::losing(&database.url, loss);
    let app = App::start_at(proxy.url().to_owned(), Options::default()).await;
    tool(&app, json!({})).await;
    (app, proxy)
}

/// Waits until the service has seen a worker, whose claim then waits.
async fn waits(app: &App, worker: &str) {
    eventually("the worker", async || {
        let listed = app.get("/workers").await.ok();
        listed["workers"].as_array().unwrap().iter().any(|one| one["worker"] == worker).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_with_a_lost_claim_acknowledgement_is_assigned_at_the_same_attempt() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let loss = Loss::of_statements(3, 1, &["JOURNAL_COMMIT_WITH_CLAIMS"]);
    let (app, _proxy) = service(&database, &loss).await;
    // The queue is known to be empty, so new calls go to waiting workers directly.
    assert_eq!(claim_now(&app, "first").await, Vec::<Value>::new());
    for round in 0..4 {
        let worker = format!("w{round}");
        let waiting = {
            let (app, worker) = ((*app).clone(), worker.clone());
            tokio::spawn(async move { claim_one(&app, &worker).await })
        };
        waits(&app, &worker).await;
        let lost = loss.count();
        loss.switch(true);
        let id = called(&app, json!({})).await;
        eventually("a lost acknowledgement", async || (loss.count() > lost).then_some(())).await;
        loss.switch(false);
        let call = waiting.await.unwrap();
        assert_eq!((id_of(&call), &call["attempt"]), (id.clone(), &json!(1)));
        finish(&app, &call, &json!("once")).await;
        let ended = app.ended(&id).await;
        assert_eq!((succeeded(&ended), &ended["attempts"]), ("once", &json!(1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_with_a_lost_offer_acknowledgement_is_assigned_once() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let loss = Loss::of_statements(5, 1, &["WRITE_OFFERS"]);
    let (app, _proxy) = service(&database, &loss).await;
    for _ in 0..4 {
        let lost = loss.count();
        loss.switch(true);
        let id = called(&app, json!({})).await;
        eventually("a lost acknowledgement", async || (loss.count() > lost).then_some(())).await;
        loss.switch(false);
        let call = claim_one(&app, "w").await;
        assert_eq!((id_of(&call), &call["attempt"]), (id.clone(), &json!(1)));
        assert_eq!(claim_now(&app, "w").await, Vec::<Value>::new());
        finish(&app, &call, &json!("once")).await;
        assert_eq!(succeeded(&app.ended(&id).await), "once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offer_lost_by_the_database_is_made_again() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let app = App::start_at(database.url.clone(), Options::default()).await;
    tool(&app, json!({})).await;
    let id = called(&app, json!({})).await;
    // What a crash does to an offer that is not on disk yet.
    eventually("the offer", async || {
        let mut connection = PgConnection::connect(&database.url).await.unwrap();
        let deleted = sqlx::query("DELETE FROM worker_calls WHERE state = 0").execute(&mut connection).await.unwrap();
        (deleted.rows_affected() == 1).then_some(())
    })
    .await;
    let call = claim_one(&app, "w").await;
    assert_eq!((id_of(&call), &call["attempt"]), (id.clone(), &json!(1)));
    finish(&app, &call, &json!("once")).await;
    let ended = app.ended(&id).await;
    assert_eq!((succeeded(&ended), &ended["attempts"]), ("once", &json!(1)));
}

/// Claims are rejected while `faults` says so.
const FAULTS: &str = "
    CREATE TABLE faults (claims BOOLEAN NOT NULL);
    INSERT INTO faults VALUES (TRUE);
    CREATE FUNCTION claims() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT f.claims FROM faults AS f) THEN RAISE EXCEPTION 'no claims'; END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER claims BEFORE INSERT ON worker_calls EXECUTE FUNCTION claims()";

#[tokio::test(flavor = "multi_thread")]
async fn worker_waits_on_after_the_database_has_rejected_its_claim() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let app = App::start_at(database.url.clone(), Options::default()).await;
    tool(&app, json!({})).await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    sqlx::raw_sql(FAULTS).execute(&mut connection).await.unwrap();
    // The queue is known to be empty, so the call goes to the waiting worker directly.
    assert_eq!(claim_now(&app, "w").await, Vec::<Value>::new());
    let waiting = {
        let app = (*app).clone();
        tokio::spawn(async move { claim_one(&app, "w").await })
    };
    waits(&app, "w").await;
    let rejected = called(&app, json!({})).await;
    assert_eq!(app.ended(&rejected).await["error"]["code"], "OVERLOADED");
    assert!(!waiting.is_finished(), "the worker got a call that has ended");
    sqlx::query("UPDATE faults SET claims = FALSE").execute(&mut connection).await.unwrap();
    let id = called(&app, json!({})).await;
    let call = waiting.await.unwrap();
    assert_eq!((id_of(&call), &call["attempt"]), (id.clone(), &json!(1)));
    finish(&app, &call, &json!("once")).await;
    let ended = app.ended(&id).await;
    assert_eq!((succeeded(&ended), &ended["attempts"]), ("once", &json!(1)));
}
