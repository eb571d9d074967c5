//! Aborting a session ends its calls in any phase, and nothing else.

use serde_json::{Value, json};
use toolpost::tool::{NoArgs, async_tool_fn};

use super::{abort, external, listed, made, read};
use crate::support::calls::gated;
use crate::support::shapes::failed;
use crate::support::{Answer, App, Backend, HttpTool, Options, bounded};

fn aborted(call: &Value) {
    assert_eq!(failed(call, "CANCELLED"), "Error: Operation aborted");
}

on_both_databases!(
    async fn running_queued_waiting_and_external_calls_all_end_cancelled(backend: Backend) {
        let app = App::with_egress(backend).await;
        let (server, free) = (HttpTool::answering(Answer::Never).await, gated("done").await);
        app.tool("job", &server, json!({"async": true, "limits": {"max_concurrency": 1}})).await;
        app.tool("free", &free, json!({"async": true})).await;
        external(&app, "ask").await;
        let body = |name: &str, session: &str| json!({"name": name, "session": session, "wait": "accepted"});
        let running = app.accepted(body("job", "s")).await;
        server.received(1).await;
        let queued = app.accepted(body("job", "s")).await;
        let external = app.accepted(body("ask", "s")).await;
        app.in_phase(&external, "external").await;
        let other = app.accepted(body("free", "other")).await;
        free.received(1).await;
        // The second call of the batch waits for the first.
        let serial = json!({"session": "s", "mode": "serial", "calls": [{"name": "ask"}, {"name": "ask"}]});
        let batch = app.posted(serial);
        crate::support::eventually("the batch", || async {
            (listed(&read(&app, "s").await, "pending", "id").len() == 5).then_some(())
        })
        .await;
        assert_eq!(abort(&app, "s").await["state"], "ABORTED");
        for id in [&running, &queued, &external] {
            aborted(&app.ended(id).await);
        }
        let results = batch.await.unwrap().ok()["results"].clone();
        results.as_array().unwrap().iter().for_each(aborted);
        server.closed().await;
        let session = read(&app, "s").await;
        assert_eq!((&session["pending"], session["counts"]["failed"].as_u64()), (&json!([]), Some(5)));
        free.open();
        assert_eq!(app.ended(&other).await["output"], "done", "other sessions go on");
        assert_eq!(abort(&app, "s").await["state"], "ABORTED", "once more changes nothing");
    }
);

on_both_databases!(
    async fn unpublished_call_ends(backend: Backend) {
        // A read-only call is stored only after it has run for a while, but the abort must reach it before that.
        let (started, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let hold = async_tool_fn("hold", "Never ends.", move |_: NoArgs, _| {
            let started = started.clone();
            async move {
                started.send(()).unwrap();
                std::future::pending::<()>().await;
                Ok(())
            }
        });
        let extra = vec![hold.with_definition(|about| about.read_only())];
        let app = App::start_with(backend, Options { extra, ..Options::default() }).await;
        made(&app, json!({"id": "s"})).await;
        let waiting = app.posted(json!({"session": "s", "name": "hold"}));
        bounded("the start", begun.recv()).await.unwrap();
        abort(&app, "s").await;
        aborted(&bounded("the end", waiting).await.unwrap().ok());
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn session_abort_on_another_node_cancels_local_calls() {
    requires_postgres!();
    let app = App::with_egress(Backend::Postgres).await;
    let server = HttpTool::answering(Answer::Never).await;
    app.tool("job", &server, json!({})).await;
    let second = app.second().await;
    let waiting = app.posted(json!({"name": "job", "session": "s"}));
    server.received(1).await;
    abort(&second, "s").await;
    aborted(&waiting.await.unwrap().ok());
}

on_both_databases!(
    async fn deleting_a_session_ends_its_calls(backend: Backend) {
        let app = App::start(backend).await;
        external(&app, "ask").await;
        let id = app.accepted(json!({"name": "ask", "session": "s", "wait": "accepted"})).await;
        app.in_phase(&id, "external").await;
        assert_eq!(app.delete("/sessions/s").await.status, 204);
        aborted(&app.ended(&id).await);
        app.get("/sessions/s").await.problem(404);
    }
);
