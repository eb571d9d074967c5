//! Tools that workers register, and that are removed when their workers are gone.

use serde_json::{Value, json};

use super::{claim_one, claim_with, finish, tool};
use crate::support::shapes::succeeded;
use crate::support::{App, Backend, Client, Options, Response, eventually};

async fn offer(client: &Client, worker: &str, tools: Value) -> Response {
    client.put("/workers/q/tools", &json!({"worker": worker, "tools": tools})).await
}

fn definition(name: &str) -> Value {
    json!({"name": name, "input_schema": {"type": "object"}})
}

on_both_databases!(
    async fn worker_registers_its_tools(backend: Backend) {
        let app = App::start(backend).await;
        let registered = offer(&app, "w", json!([definition("a"), definition("b")])).await.ok();
        let a = &registered["tools"][0];
        assert_eq!((&a["name"], &a["source"], &a["revision"]), (&json!("a"), &json!("api"), &json!(1)));
        assert_eq!(a["executor"], json!({"type": "worker", "queue": "q", "lease_ms": 30_000}));
        let calling = app.posted(json!({"name": "b"}));
        finish(&app, &claim_one(&app, "w").await, &json!("ok")).await;
        assert_eq!(succeeded(&calling.await.unwrap().ok()), "ok");
        // The same definition again, also of another worker, changes nothing.
        for worker in ["w", "w2"] {
            let again = offer(&app, worker, json!([definition("a")])).await.ok();
            assert_eq!(again["tools"][0]["revision"], 1);
        }
        let workers = app.get("/workers").await.ok()["workers"].clone();
        let tools: Vec<&Value> = workers.as_array().unwrap().iter().map(|worker| &worker["tools"]).collect();
        assert_eq!(tools, [&json!(["a"]), &json!(["a"])]);
        let mut changed = definition("a");
        changed["description"] = json!("New.");
        assert_eq!(offer(&app, "w", json!([changed])).await.ok()["tools"][0]["revision"], 2);
    }
);

on_both_databases!(
    async fn tools_are_registered_all_or_none(backend: Backend) {
        let app = App::start(backend).await;
        app.echo_of("taken", json!({})).await;
        let other = json!({"name": "x", "input_schema": {"type": "object"}, "executor": {"type": "external"}});
        let elsewhere = json!({"name": "x", "input_schema": {"type": "object"},
            "executor": {"type": "worker", "queue": "other"}});
        for (tools, status, pointer) in [
            (json!([definition("a"), {"name": "b!", "input_schema": {"type": "object"}}]), 422, json!("/tools/1/name")),
            (json!([definition("a"), definition("a")]), 422, json!("/tools/1/name")),
            (json!([definition("a"), other]), 422, json!("/tools/1/executor/type")),
            (json!([definition("a"), elsewhere]), 422, json!("/tools/1/executor/queue")),
            (json!([definition("a"), definition("taken")]), 409, json!(null)),
        ] {
            let problem = offer(&app, "w", tools).await.problem(status);
            assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
            app.get("/tools/a").await.problem(404);
        }
        assert!(app.get("/tools/taken").await.ok()["executor"]["name"] == "echo");
    }
);

on_both_databases!(
    async fn workers_that_register_concurrently_agree(backend: Backend) {
        let app = App::start(backend).await;
        let offers: Vec<_> = (0..8)
            .map(|n| {
                let app = (*app).clone();
                tokio::spawn(
                    async move { offer(&app, &format!("w{n}"), json!([definition("a"), definition("b")])).await },
                )
            })
            .collect();
        for offer in offers {
            assert_eq!(offer.await.unwrap().ok()["tools"][1]["revision"], 1);
        }
    }
);

/// Starts a service that forgets the tools of a worker after 3 s.
async fn forgetful(backend: Backend) -> App {
    let configure: fn(&mut toolpost::config::Config) = |config| config.workers.forget_ms = 3000;
    App::start_with(backend, Options { configure: Some(configure), ..Options::default() }).await
}

on_both_databases!(
    async fn tools_of_lost_workers_are_removed(backend: Backend) {
        let app = forgetful(backend).await;
        offer(&app, "gone", json!([definition("a"), definition("b")])).await.ok();
        offer(&app, "here", json!([definition("b")])).await.ok();
        tool(&app, json!({})).await;
        // A worker that waits is not gone.
        let waiting = {
            let app = (*app).clone();
            tokio::spawn(async move { claim_with(&app, "here", json!({"wait_ms": 9000})).await.ok() })
        };
        eventually("the removal", async || (app.get("/tools/a").await.status == 404).then_some(())).await;
        app.get("/tools/b").await.ok();
        // Tools that no worker has registered stay.
        app.get("/tools/t").await.ok();
        assert_eq!(waiting.await.unwrap(), json!({"calls": []}));
        eventually("the removal", async || (app.get("/tools/b").await.status == 404).then_some(())).await;
        offer(&app, "gone", json!([definition("a")])).await.ok();
        app.get("/tools/a").await.ok();
    }
);
