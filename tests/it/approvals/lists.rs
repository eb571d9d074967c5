//! The list of approvals: oldest first, in pages, with filters.

use serde_json::{Value, json};

use super::{decide, gated, key, open, waiting, waiting_with};
use crate::support::shapes::ids;
use crate::support::{Backend, Event};

on_both_databases!(
    async fn pending_approvals_are_listed_oldest_first(backend: Backend) {
        let app = open(backend).await;
        for name in ["pay", "mail"] {
            gated(&app, name, json!({})).await;
        }
        let mut calls = Vec::new();
        for (name, session) in [("pay", "a"), ("mail", "a"), ("pay", "b")] {
            calls.push(waiting_with(&app, json!({"name": name, "session": session})).await);
        }
        let all: Vec<String> = calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect();
        let page = |query: &str| {
            let path = format!("/approvals{query}");
            let app = &app;
            async move { app.get(&path).await.ok() }
        };
        assert_eq!(ids(&page("").await["approvals"]), all);
        let first = page("?limit=2").await;
        assert_eq!(ids(&first["approvals"]), all[..2]);
        let rest = page(&format!("?limit=2&cursor={}", first["next_cursor"].as_str().unwrap())).await;
        assert_eq!((ids(&rest["approvals"]), &rest["next_cursor"]), (all[2..].to_vec(), &Value::Null));
        assert_eq!(ids(&page("?name=pay&session=a").await["approvals"]), all[..1]);
        assert_eq!(page("?status=approved").await["approvals"], json!([]));
        decide(&app, &calls[0], "approve", json!({})).await.ok();
        decide(&app, &calls[1], "reject", json!({})).await.ok();
        assert_eq!(ids(&page("?status=approved").await["approvals"]), all[..1]);
        assert_eq!(ids(&page("?status=rejected").await["approvals"]), all[1..2]);
        assert_eq!(ids(&page("?status=pending").await["approvals"]), all[2..]);
        app.get("/approvals?status=maybe").await.problem(422);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn key_sees_only_approvals_of_its_tools() {
    let app = open(Backend::Sqlite).await;
    for name in ["pay", "mail"] {
        gated(&app, name, json!({})).await;
    }
    let (pay, mail) = (waiting(&app, "pay", json!({})).await, waiting(&app, "mail", json!({})).await);
    let (restricted, _) = key(&app, json!({"scopes": ["approve"], "tools": ["pay"]})).await;
    let listed = restricted.get("/approvals").await.ok();
    assert_eq!(ids(&listed["approvals"]), [pay["id"].as_str().unwrap()]);
    decide(&restricted, &mail, "approve", json!({})).await.problem(404);
}

on_both_databases!(
    async fn stream_of_approvals_is_filtered_and_resumes(backend: Backend) {
        let app = open(backend).await;
        for name in ["pay", "mail"] {
            gated(&app, name, json!({})).await;
        }
        let mut pays = app.events("/approvals/events?name=pay").await;
        waiting(&app, "mail", json!({})).await;
        let pay = waiting(&app, "pay", json!({})).await;
        let first = pays.next().await.unwrap();
        assert_eq!((&first.data["id"], &first.data["approval"]["status"]), (&pay["id"], &json!("pending")));
        decide(&app, &pay, "approve", json!({})).await.ok();
        let is_over = |event: &Event| event.data["status"] == "SUCCESS";
        let live = pays.until(is_over).await;
        let again = app.events_after("/approvals/events?name=pay", &first.id).await.until(is_over).await;
        assert_eq!(again, live);
    }
);
