//! Callbacks: deliveries of ended calls to `callback_url`. The clock moves only when a test advances it.

use std::sync::Arc;

use serde_json::{Value, json};
use toolpost::app::App;
use toolpost::config::Config;
use toolpost::domain::{Call, CallRequest, Clock, IdGenerator, Time};
use toolpost::engine::Submission;
use toolpost::formats::native::ToolCall;
use toolpost::store::callbacks::CallbackRow;

use crate::support::{Backend, Database, bounded, eventually};

mod delivery;
mod failures;
mod others;
mod outages;
mod restarts;

/// A service without its HTTP server.
struct Service {
    app: App,
    clock: Clock,
    database: Database,
    allow: Vec<String>,
}

impl Service {
    /// Starts a service that may reach the test's own servers.
    async fn start(backend: Backend) -> Self {
        Self::on(Database::fresh(backend).await, Clock::manual(Time(1_767_225_600_123_456)), &["127.0.0.1"]).await
    }

    async fn on(database: Database, clock: Clock, allow: &[&str]) -> Self {
        let mut config = Config::default();
        config.store.database_url.clone_from(&database.url);
        config.egress.allow = allow.iter().map(|&entry| entry.to_owned()).collect();
        let allow = config.egress.allow.clone();
        let app = App::builder(config).clock(clock.clone(), IdGenerator::random()).start().await.unwrap();
        Self { app, clock, database, allow }
    }

    /// Starts another service with the same database and the same clock.
    async fn another(&self) -> Self {
        let allow: Vec<&str> = self.allow.iter().map(String::as_str).collect();
        Self::on(self.database.clone(), self.clock.clone(), &allow).await
    }

    /// Stops the service and starts it again.
    async fn restart(self) -> Self {
        let Self { app, clock, database, allow } = self;
        bounded("the end of the service", app.stop()).await;
        let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
        Self::on(database, clock, &allow).await
    }

    /// Returns an ended call that has no callback yet.
    async fn ended(&self, url: &str) -> Arc<Call> {
        let request = CallRequest {
            name: "echo".into(),
            call_id: Some("call_北\u{0}".into()),
            arguments: Some(json!({"text": "a\u{0}😀"})),
            ..CallRequest::default()
        };
        let submission = Submission { calls: vec![request], callback_url: Some(url.into()), ..Submission::default() };
        let submitted = self.app.engine.submit_now(&self.app.operator, submission, &self.app.engine.ids(1), 0).unwrap();
        bounded("a call", submitted.wait_all()).await.unwrap().pop().unwrap()
    }

    /// Returns an ended call whose callback is due.
    async fn call(&self, url: &str) -> Arc<Call> {
        let call = self.ended(url).await;
        let row = CallbackRow::of(&call, self.app.engine.new_id()).unwrap();
        self.app.store.insert_callbacks(&[row]).await.unwrap();
        self.app.callback_wakeup.notify_one();
        call
    }

    /// Waits until `metadata.callback` of the call fulfils the condition, and returns it.
    async fn callback(&self, call: &Call, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually("a callback to get on", || async {
            let found = self.app.store.call(call.id).await.ok()??.metadata.get("callback")?.clone();
            is_so(&found).then_some(found)
        })
        .await
    }

    async fn delivered(&self, call: &Call) -> Value {
        self.callback(call, |callback| callback["state"] == "delivered").await
    }

    /// Returns `metadata.callback` after the given number of finished attempts.
    async fn tried(&self, call: &Call, times: u32) -> Value {
        let is_over = |callback: &Value| callback.get("next_attempt_at").is_some() || callback["state"] != "pending";
        self.callback(call, |callback| callback["attempts"] == times && is_over(callback)).await
    }

    /// Moves the clock to the next attempt.
    fn go_to_next(&self, callback: &Value) {
        let next = Time::parse(callback["next_attempt_at"].as_str().unwrap()).unwrap();
        // Rendered times are truncated to milliseconds.
        self.clock.advance_ms((next.0 - self.clock.now().0) / 1000 + 2);
        self.app.callback_wakeup.notify_one();
    }
}

/// Returns the call as the API shows it.
fn shown(call: &Call) -> Value {
    serde_json::to_value(ToolCall::from(call)).unwrap()
}
