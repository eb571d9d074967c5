//! Idle sessions are deleted; sessions in use are kept.

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolpost::config::Config;
use toolpost::domain::{Clock, IdGenerator, Session, Time};

use super::{external, made};
use crate::support::{App, Backend, Database, bounded, eventually};

fn soon(config: &mut Config) {
    config.sessions.idle_ms = 2000;
}

on_both_databases!(
    async fn idle_session_is_deleted_and_one_with_a_running_call_is_not(backend: Backend) {
        let app = App::tuned(backend, soon).await;
        external(&app, "ask").await;
        let id = app.accepted(json!({"name": "ask", "session": "busy", "wait": "accepted"})).await;
        app.in_phase(&id, "external").await;
        // Created after the busy session, but deleted first.
        made(&app, json!({"id": "idle"})).await;
        let gone = async |session: &str| {
            let path = format!("/sessions/{session}");
            eventually("its end", || async { (app.get(&path).await.status == 404).then_some(()) }).await;
        };
        gone("idle").await;
        assert_eq!(app.get("/sessions/busy").await.status, 200);
        app.post(&format!("/tool-calls/{id}/result"), &json!("done")).await.ok();
        app.ended(&id).await;
        gone("busy").await;
        assert_eq!(app.stored(&id).await["output"], "done");
    }
);

on_both_databases!(
    async fn session_is_idle_since_its_last_call(backend: Backend) {
        let database = Database::fresh(backend).await;
        let clock = Clock::manual(Time(1_767_225_600_000_000));
        let mut config = Config::default();
        config.store.database_url.clone_from(&database.url);
        config.sessions.idle_ms = 0;
        let app =
            toolpost::app::App::builder(config).clock(clock.clone(), IdGenerator::random()).start().await.unwrap();
        app.store.make_session(&Session::new("s".into(), clock.now())).await.unwrap();
        // Runs one expiry pass on the test's own clock.
        let look = async || {
            let stop = CancellationToken::new();
            let idle = std::time::Duration::from_millis(1000);
            let engine = app.engine.clone();
            let keeping = tokio::spawn(engine.keep_sessions(idle, stop.clone()));
            eventually("a look", || async {
                let used = app.store.session("s").await.unwrap().map(|session| session.updated_at);
                (used != Some(Time(1_767_225_600_000_000))).then_some(())
            })
            .await;
            stop.cancel();
            bounded("the end of the looks", keeping).await.unwrap();
            app.store.session("s").await.unwrap()
        };
        clock.advance_ms(900);
        let request = toolpost::domain::CallRequest { name: "echo".into(), ..Default::default() };
        let submission =
            toolpost::engine::Submission { calls: vec![request], session: Some("s".into()), ..Default::default() };
        let submitted = app.engine.submit_now(&app.operator, submission, &app.engine.ids(1), 0).unwrap();
        bounded("a call", submitted.wait_all()).await.unwrap();
        clock.advance_ms(900);
        assert_eq!(look().await.unwrap().updated_at, Time(1_767_225_600_900_000), "it was used after it was made");
        app.stop().await;
    }
);
