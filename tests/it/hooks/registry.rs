//! `/hooks`, and hooks in the settings.

use serde_json::{Value, json};
use toolpost::config::Config;
use toolpost::domain::{HookDefinition, HookEvent};

use super::silent;
use crate::support::shapes::{is_time, points_at};
use crate::support::{App, Backend};

const SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

on_both_databases!(
    async fn hook_is_registered_listed_read_and_deleted(backend: Backend) {
        let app = App::start(backend).await;
        assert_eq!(app.get("/hooks").await.ok(), json!({"hooks": [], "total": 0}));
        let whole = json!({
            "event": "before_tool_call", "url": "https://hooks.example.com/x?y=z",
            "match": {"tools": ["mail_*"], "groups": []}, "priority": 3, "timeout_ms": 100,
            "failure_policy": "closed", "secret": SECRET,
        });
        let answer = app.post("/hooks", &whole).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let created = answer.json;
        for (name, value) in whole.as_object().unwrap().iter().filter(|(name, _)| *name != "secret") {
            assert_eq!(created[name], *value, "{name}");
        }
        assert_eq!((&created["has_secret"], &created["source"]), (&true.into(), &"api".into()));
        assert!(is_time(&created["created_at"]) && !created.to_string().contains("whsec"));
        let least = app.post("/hooks", &json!({"event": "after_tool_call", "url": "http://h/"})).await.json;
        assert_eq!((&least["timeout_ms"], &least["failure_policy"]), (&5000.into(), &"open".into()));
        assert_eq!((&least["match"], &least["has_secret"]), (&json!({"tools": [], "groups": []}), &false.into()));

        let path = format!("/hooks/{}", created["id"].as_str().unwrap());
        assert_eq!(app.get(&path).await.ok(), created);
        assert_eq!(app.get("/hooks").await.ok(), json!({"hooks": [created, least], "total": 2}));
        assert_eq!(app.delete(&path).await.status, 204);
        app.get(&path).await.problem(404);
        app.delete(&path).await.problem(404);
        assert_eq!(app.get("/hooks").await.ok()["total"], 1);
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn invalid_hook_is_rejected_with_its_pointer() {
    let app = App::on_sqlite().await;
    let hook =
        |more: Value| crate::support::calls::with(json!({"event": "before_tool_call", "url": "http://h/"}), more);
    for (body, pointer) in [
        (json!({"url": "http://h/"}), "/event"),
        (json!({"event": "never", "url": "http://h/"}), "/event"),
        (hook(json!({"timout_ms": 1})), "/timout_ms"),
        (hook(json!({"match": {"tool": ["a"]}})), "/match/tool"),
        (hook(json!({"match": ["a"]})), "/match"),
        (hook(json!({"match": {"tools": ["["]}})), "/match/tools/0"),
        (hook(json!({"timeout_ms": 60_001})), "/timeout_ms"),
        (hook(json!({"secret": "hush"})), "/secret"),
        (hook(json!({"url": "http://user@h/"})), "/url"),
        (hook(json!({"failure_policy": "ajar"})), "/failure_policy"),
        (
            json!({"event": "tool_result_persist", "builtin": "redact", "options": {"patterns": ["("]}}),
            "/options/patterns/0",
        ),
    ] {
        points_at(&app.post("/hooks", &body).await.problem(422), pointer);
    }
    app.get("/hooks/none").await.problem(404);
    assert_eq!(app.get("/hooks").await.ok()["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_hooks_run_first_and_cannot_be_deleted() {
    fn configure(config: &mut Config) {
        let mut hook = HookDefinition::of(HookEvent::AfterToolCall);
        hook.url = Some("http://127.0.0.1:1/".into());
        config.hooks.push(hook);
    }
    let app = App::tuned(Backend::Sqlite, configure).await;
    let receiver = silent().await;
    app.hook("after_tool_call", &receiver, "/", json!({})).await;
    let hooks = app.get("/hooks").await.ok()["hooks"].clone();
    assert_eq!((&hooks[0]["id"], &hooks[0]["source"]), (&"config-1".into(), &"config".into()));
    assert_eq!(app.delete("/hooks/config-1").await.problem(409)["code"], "HOOK_NOT_REGISTERED");
    app.call("echo", json!({})).await;
    receiver.received(1).await;
}

#[test]
fn hooks_are_read_from_the_settings_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolpost.toml");
    let text = "[[hooks]]\nevent = \"before_tool_call\"\nurl = \"http://h/\"\npriority = 2\n\
        match = { tools = [\"Mail_*\"] }\nsecret = \"whsec_hidden\"\n\
        [[hooks]]\nevent = \"tool_result_persist\"\nbuiltin = \"redact\"\noptions = { pointers = [\"/details/Key\"] }\n";
    std::fs::write(&file, text).unwrap();
    let config = Config::load(Some(&file)).unwrap();
    assert_eq!((config.hooks.len(), config.hooks[0].priority), (2, 2));
    assert_eq!(config.hooks[0].matches.tools, ["Mail_*"]);
    assert_eq!(config.hooks[1].options.as_ref().unwrap()["pointers"][0], "/details/Key");
    assert!(!format!("{config:?}").contains("hidden"));
    std::fs::write(&file, "[[hooks]]\nevent = \"before_tool_call\"\nurll = \"http://h/\"\n").unwrap();
    assert!(Config::load(Some(&file)).unwrap_err().to_string().contains("urll"));
}
