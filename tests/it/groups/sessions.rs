//! Groups as one session sees them.

use serde_json::json;

use super::{Grouping, service};
use crate::support::shapes::{names_field, points_at};
use crate::support::{App, Backend};

fn on(names: &[(&str, bool)]) -> Vec<(String, bool)> {
    names.iter().map(|(name, active)| ((*name).to_owned(), *active)).collect()
}

async fn session(app: &App, id: &str, tools: Option<&[&str]>) {
    let made = app.post("/sessions", &json!({"id": id, "tools": tools})).await;
    assert_eq!(made.status, 201, "{}", made.text());
}

on_both_databases!(
    async fn session_switches_precede_shared_ones(backend: Backend) {
        let app = service(backend).await;
        for id in ["one", "two"] {
            session(&app, id, None).await;
        }
        let answer = app.patch("/tool-groups?session=one", json!({"deactivate": ["a"]})).await.ok();
        assert_eq!(answer, app.get("/tool-groups?session=one").await.ok());
        assert_eq!(app.active("?session=one").await, on(&[("a", false), ("b", true)]));
        for query in ["", "?session=two"] {
            assert_eq!(app.active(query).await, on(&[("a", true), ("b", true)]), "{query}");
        }
        assert_eq!(app.listed("?session=one").await, ["in_b", "in_both", "in_none"]);
        assert_eq!(app.listed("?session=two").await.len(), 4);
        assert_eq!(app.listed("?session=one&groups=a").await, ["in_both"]);

        // The tenant's switches apply where the session has none.
        app.patch("/tool-groups", json!({"deactivate": ["a", "b"]})).await.ok();
        app.patch("/tool-groups?session=two", json!({"activate": ["a"]})).await.ok();
        assert_eq!(app.listed("?session=one").await, ["in_none"]);
        assert_eq!(app.listed("?session=two").await, ["in_a", "in_both", "in_none"]);
        assert_eq!(app.listed("").await, ["in_none"]);
        let app = app.restart().await;
        assert_eq!(app.active("?session=two").await, on(&[("a", true), ("b", false)]));
        let group = app.get("/tool-groups/a?session=two").await.ok();
        assert_eq!((&group["active"], &app.get("/tool-groups/a").await.ok()["active"]), (&json!(true), &json!(false)));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn session_switch_changes_only_its_group() {
    let app = service(Backend::Sqlite).await;
    session(&app, "one", None).await;
    let group = app.patch("/tool-groups/a?session=one", json!({"active": false})).await.ok();
    assert_eq!(group["active"], false);
    assert_eq!(app.patch("/tool-groups/a?session=one", json!({})).await.ok(), group);
    for field in ["description", "manageable"] {
        let value = if field == "manageable" { json!(true) } else { json!("x") };
        let problem = app.patch("/tool-groups/a?session=one", json!({ field: value })).await.problem(422);
        names_field(&problem, field);
    }
    assert_eq!(app.active("").await, on(&[("a", true), ("b", true)]));
}

on_both_databases!(
    async fn session_switch_is_atomic(backend: Backend) {
        let app = service(backend).await;
        session(&app, "one", None).await;
        let both = app.patch("/tool-groups?session=one", json!({"activate": ["a"], "deactivate": ["a"]})).await;
        points_at(&both.problem(422), "/deactivate/0");
        app.patch("/tool-groups?session=one", json!({"deactivate": ["a", "nobody"]})).await.problem(404);
        assert_eq!(app.active("?session=one").await, on(&[("a", true), ("b", true)]));
        for id in ["nobody", "", "%00"] {
            app.get(&format!("/tools?session={id}")).await.problem(404);
            app.get(&format!("/tool-groups?session={id}")).await.problem(404);
            app.get(&format!("/tool-groups/a?session={id}")).await.problem(404);
            app.patch(&format!("/tool-groups?session={id}"), json!({"deactivate": ["a"]})).await.problem(404);
            app.patch(&format!("/tool-groups?session={id}"), json!({})).await.problem(404);
            app.patch(&format!("/tool-groups/a?session={id}"), json!({"active": false})).await.problem(404);
        }
        assert_eq!(app.active("").await, on(&[("a", true), ("b", true)]));
    }
);

on_both_databases!(
    async fn concurrent_switches_of_one_session_are_all_kept(backend: Backend) {
        let app = service(backend).await;
        session(&app, "one", None).await;
        let names: Vec<String> = (0..8).map(|n| format!("g{n}")).collect();
        app.groups(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let switchers = names.into_iter().map(|name| {
            let client = (*app).clone();
            tokio::spawn(async move {
                client.patch("/tool-groups?session=one", json!({"deactivate": [name]})).await.ok();
            })
        });
        for switcher in switchers.collect::<Vec<_>>() {
            switcher.await.unwrap();
        }
        let inactive = app.active("?session=one").await.into_iter().filter(|(_, active)| !active).count();
        assert_eq!(inactive, 8);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn session_with_its_own_tools_has_no_others() {
    let app = service(Backend::Sqlite).await;
    session(&app, "own", Some(&["in_a", "echo", "nobody"])).await;
    assert_eq!(app.listed("?session=own").await, ["in_a"]);
    assert_eq!(app.get("/tools?session=own").await.ok()["total"], 2);
    assert_eq!(app.listed("?session=own&q=answers").await, ["in_a"]);
    let list = app.get("/tools?session=own&include_inactive=true").await.ok();
    let active = list["tools"].as_array().unwrap().iter().filter(|tool| tool["active"] == true).count();
    assert_eq!((active, &list["total"]), (2, &json!(9)));
    app.deactivate("a").await;
    assert_eq!(app.listed("?session=own").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn session_list_has_an_etag_that_follows_its_switches() {
    let app = service(Backend::Sqlite).await;
    session(&app, "one", None).await;
    for format in ["native", "anthropic", "prompt"] {
        let path = format!("/tools?session=one&format={format}");
        let first = app.get(&path).await.etag().to_owned();
        let unless = |etag: String| {
            let request = app.request(reqwest::Method::GET, &path).header("if-none-match", etag);
            async { crate::support::client::send(request).await.status }
        };
        assert_eq!(unless(first.clone()).await, 304);
        app.patch("/tool-groups?session=one", json!({"deactivate": ["a"]})).await.ok();
        assert_eq!(unless(first).await, 200);
        app.patch("/tool-groups?session=one", json!({"activate": ["a"]})).await.ok();
    }
}

on_both_databases!(
    async fn model_switches_manageable_groups(backend: Backend) {
        let app = service(backend).await;
        app.patch("/tool-groups/a", json!({"manageable": true})).await.ok();
        session(&app, "s", Some(&["reset_equipped_tools"])).await;
        let reset = |names: &[&str]| json!({"name": "reset_equipped_tools", "session": "s", "arguments": {"to_activate": names}});
        let none = app.call_with(reset(&[])).await;
        assert_eq!(none["structured"], json!({"active": [], "inactive": ["a"]}), "{none}");
        assert_eq!(app.active("?session=s").await, on(&[("a", false), ("b", true)]));
        let call = app.call_with(json!({"name": "in_a", "session": "s"})).await;
        assert_eq!(call["output"], "Error: Tool \"in_a\" is not available");
        let wrong = app.call_with(reset(&["b"])).await;
        assert!(wrong["output"].as_str().unwrap().ends_with("Manageable groups: a"), "{wrong}");
        app.call_with(reset(&["a"])).await;
        assert_eq!(app.active("?session=s").await, on(&[("a", true), ("b", true)]));
        assert_eq!(app.call_with(json!({"name": "in_a", "session": "s"})).await["status"], "SUCCESS");
    }
);
