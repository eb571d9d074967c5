//! Workers that the service refuses: their keys, their queues and their tools.

use serde_json::{Value, json};
use toolpost::tool::{NoArgs, tool_fn};
use toolpost_worker::{Worker, WorkerError};

use super::{Working, returns_n, worker};
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Client};

/// Returns the error of a worker with this key.
async fn error_of(worker: Worker) -> WorkerError {
    Working::start(worker).ended().await.unwrap_err()
}

fn status_of(error: &WorkerError) -> (u16, &str) {
    match error {
        WorkerError::KeyRefused { status, detail } => (*status, detail),
        other => panic!("{other}"),
    }
}

async fn key(admin: &Client, body: Value) -> String {
    admin.key(body).await.0
}

on_both_databases!(
    async fn rejected_key_ends_the_worker(backend: Backend) {
        let app = App::start(backend).await;
        let admin = app.with_key(&key(&app, json!({"scopes": ["admin"]})).await);
        assert_eq!(status_of(&error_of(worker(&app, [returns_n()])).await).0, 401);
        let unknown = error_of(worker(&app, [returns_n()]).key("tp_unknown")).await;
        assert_eq!(status_of(&unknown).0, 401);
        assert!(unknown.to_string().starts_with("the service refused the key (401): "), "{unknown}");
        for scopes in [json!(["work"]), json!(["tools"]), json!(["call"])] {
            let key = key(&admin, json!({"scopes": scopes})).await;
            assert_eq!(status_of(&error_of(worker(&app, [returns_n()]).key(key)).await).0, 403);
        }
        // The scope `work` is enough for tools that are registered already.
        let both = key(&admin, json!({"scopes": ["work", "tools"]})).await;
        Working::with(&admin, worker(&app, [returns_n()]).key(both), "t").await.stopped().await;
        let work = key(&admin, json!({"scopes": ["work"]})).await;
        let working = Working::start(worker(&app, [returns_n()]).key(work).register(false));
        assert_eq!(succeeded(&admin.call("t", json!({"n": 1})).await), "1");
        working.stopped().await;
    }
);

on_both_databases!(
    async fn key_of_other_queues_ends_the_worker(backend: Backend) {
        let app = App::start(backend).await;
        let admin = app.with_key(&key(&app, json!({"scopes": ["admin"]})).await);
        let bound = key(&admin, json!({"scopes": ["work", "tools"], "queues": ["mail"]})).await;
        let error = error_of(worker(&app, [returns_n()]).key(&bound)).await;
        assert_eq!(status_of(&error), (403, "the key may not fetch calls of the queue \"q\""));
        let working = Working::with(&admin, worker(&app, [returns_n()]).queue("mail").key(&bound), "t").await;
        assert_eq!(succeeded(&admin.call("t", json!({"n": 1})).await), "1");
        working.stopped().await;
    }
);

on_both_databases!(
    async fn rejected_tools_end_the_worker(backend: Backend) {
        let app = App::start(backend).await;
        let invalid = tool_fn("not a name", "Tests.", |_: NoArgs| Ok(()));
        let error = error_of(worker(&app, [returns_n(), invalid])).await;
        let WorkerError::ToolsRefused { code, errors, .. } = &error else { panic!("{error}") };
        assert_eq!((&**code, &*errors[0].pointer), ("INVALID_REQUEST", "/tools/1/name"));
        assert!(error.to_string().contains("\n- /tools/1/name: "), "{error}");
        app.echo_of("t", json!({})).await;
        let error = error_of(worker(&app, [returns_n()])).await;
        let WorkerError::ToolsRefused { code, .. } = &error else { panic!("{error}") };
        assert_eq!(code, "TOOL_EXISTS");
        let error = error_of(worker(&app, [returns_n()]).queue("no queue")).await;
        assert!(matches!(error, WorkerError::Refused { status: 404, .. }), "{error}");
    }
);
