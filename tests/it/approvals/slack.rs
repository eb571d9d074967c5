//! The relay of `docs/guide/slack.md`, run unchanged between a service and a stub of Slack's API.

use std::process::Stdio;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::{decide, gated, key, waiting};
use crate::support::calls::{id_of, with};
use crate::support::fixture::project_file;
use crate::support::shapes::{failed, succeeded};
use crate::support::{Answer, App, Backend, Client, HttpTool, Options, ReceivedRequest, Response, bounded};

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const SLACK_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

/// A service, the relay and Slack.
struct Scene {
    _app: App,
    _relay: Child,
    /// The relay as its callers reach it.
    relay: Client,
    slack: HttpTool,
    caller: Client,
    /// An approver outside Slack.
    approver: Client,
    /// The id of the relay's key.
    relay_key: String,
}

impl Scene {
    async fn start() -> Self {
        Self::start_with(HttpTool::answering(Answer::json(&posted())).await).await
    }

    async fn start_with(slack: HttpTool) -> Self {
        let (egress_allow, signing_secret) = (vec!["127.0.0.1".into()], Some(SECRET.into()));
        let options = Options { egress_allow, signing_secret, ..Options::default() };
        let app = App::start_with(Backend::Sqlite, options).await;
        let (admin, _) = key(&app, json!({"scopes": ["admin"]})).await;
        let (caller, _) = key(&admin, json!({"scopes": ["call", "read", "tools"]})).await;
        let (approver, _) = key(&admin, json!({"scopes": ["approve", "read"]})).await;
        let (token, relay_key) = admin.key(json!({"scopes": ["approve"]})).await;
        let (child, relay) = relay(&app.url(""), &token, &slack).await;
        gated(&caller, "pay", json!({"notify_url": relay.url("/toolpost")})).await;
        Self { _app: app, _relay: child, relay, slack, caller, approver, relay_key }
    }

    /// Waits until Slack has received this many requests of the relay, and returns the last one.
    async fn message(&self, count: usize) -> ReceivedRequest {
        self.slack.received(count).await;
        let requests = self.slack.requests();
        assert_eq!(requests.len(), count, "{requests:#?}");
        requests.into_iter().next_back().unwrap()
    }

    /// Presses a button of a message as Slack's user Ada.
    async fn press(&self, message: &ReceivedRequest, button: &str) -> Response {
        let body = click(&message.json(), button);
        self.send(&body, &signature(SLACK_SECRET, &now(), &body), &now()).await
    }

    async fn send(&self, body: &str, signature: &str, sent_at: &str) -> Response {
        let request = self.relay.request(reqwest::Method::POST, "/slack").body(body.to_owned());
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let request = request.header("x-slack-request-timestamp", sent_at).header("x-slack-signature", signature);
        crate::support::client::send(request).await
    }
}

/// Starts the relay as the guide does.
async fn relay(service: &str, token: &str, slack: &HttpTool) -> (Child, Client) {
    let mut command = Command::new(project_file("clients/python/.venv/bin/flask"));
    command.arg("--app").arg(project_file("examples/slack_approvals.py")).args(["run", "--port", "0"]);
    command.env("TOOLPOST_SIGNING_SECRET", SECRET).env("TOOLPOST_URL", service).env("TOOLPOST_API_KEY", token);
    command.env("SLACK_API", slack.url("/api/")).env("SLACK_TOKEN", "xoxb-1").env("SLACK_CHANNEL", "C012");
    command.env("SLACK_SIGNING_SECRET", SLACK_SECRET).env("no_proxy", "127.0.0.1").env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("PYTHONPATH", project_file("clients/python/src"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let url = loop {
        let line = bounded("the start of the relay", lines.next_line()).await.unwrap().expect("its address");
        if let Some((_, url)) = line.split_once("Running on ") {
            break url.to_owned();
        }
    };
    // The relay must not wait for a reader of its log.
    tokio::spawn(async move { while lines.next_line().await.is_ok_and(|line| line.is_some()) {} });
    (child, Client::new(&url))
}

/// Returns Slack's response to a message.
fn posted() -> Value {
    json!({"ok": true, "channel": "C012", "ts": "1503435956.000247"})
}

fn now() -> String {
    (toolpost::domain::Clock::system().now().0 / 1_000_000).to_string()
}

/// Signs a request as Slack does.
fn signature(secret: &str, sent_at: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("v0:{sent_at}:{body}").as_bytes());
    mac.finalize().into_bytes().iter().fold("v0=".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Builds the body that Slack posts when a button of a message is pressed.
fn click(message: &Value, button: &str) -> String {
    let elements = message["blocks"][1]["elements"].as_array().expect("buttons");
    let pressed = elements.iter().find(|element| element["action_id"] == button).expect("the button");
    let payload = json!({
        "type": "block_actions", "user": {"id": "U061F7AUR", "username": "ada"}, "actions": [pressed],
        "channel": {"id": message["channel"]},
        "message": {"ts": "1503435956.000247", "text": message["text"], "blocks": message["blocks"]},
    });
    let encoded = payload.to_string().bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02X}"));
    format!("payload={encoded}")
}

/// Returns the text that a message shows.
fn shown(message: &ReceivedRequest) -> String {
    message.json()["blocks"][0]["text"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn approve_button_runs_the_call_with_the_shown_arguments() {
    let scene = Scene::start().await;
    let call = waiting(&scene.caller, "pay", json!({"amount": 5})).await;
    let message = scene.message(1).await;
    assert_eq!((&*message.target, message.header("authorization")), ("/api/chat.postMessage", "Bearer xoxb-1"));
    assert_eq!(message.json()["channel"], "C012");
    assert!(shown(&message).contains("pay") && shown(&message).contains("\"amount\": 5"), "{}", shown(&message));
    assert_eq!(scene.press(&message, "approve").await.status, 200);
    let ended = scene.caller.ended(&id_of(&call)).await;
    assert_eq!(succeeded(&ended), r#"{"amount":5}"#);
    assert_eq!(ended["approval"]["decisions"][0]["by"], json!(scene.relay_key));
    let update = scene.message(2).await;
    assert_eq!(update.target, "/api/chat.update");
    assert_eq!((&update.json()["ts"], &update.json()["channel"]), (&json!("1503435956.000247"), &json!("C012")));
    assert!(shown(&update).ends_with("approve by U061F7AUR"), "{}", shown(&update));
    assert_eq!(update.json()["blocks"].as_array().unwrap().len(), 1, "the buttons are gone");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn reject_button_ends_the_call() {
    let scene = Scene::start().await;
    let call = waiting(&scene.caller, "pay", json!({"amount": 50})).await;
    let message = scene.message(1).await;
    assert_eq!(scene.press(&message, "reject").await.status, 200);
    let ended = scene.caller.ended(&id_of(&call)).await;
    assert!(failed(&ended, "APPROVAL_DENIED").ends_with("decided in Slack by U061F7AUR"), "{ended:#}");
    assert!(shown(&scene.message(2).await).ends_with("reject by U061F7AUR"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn forged_requests_decide_nothing_and_show_nothing() {
    let scene = Scene::start().await;
    let call = waiting(&scene.caller, "pay", json!({})).await;
    let message = scene.message(1).await;
    let body = click(&message.json(), "approve");
    let old = (now().parse::<u64>().unwrap() - 600).to_string();
    for (signature, sent_at) in [
        (signature("guessed", &now(), &body), now()),
        (signature(SLACK_SECRET, &now(), "payload=%7B%7D"), now()),
        (signature(SLACK_SECRET, &old, &body), old.clone()),
        (String::new(), "0".to_owned()),
    ] {
        assert_eq!(scene.send(&body, &signature, &sent_at).await.status, 401);
    }
    let forged = json!({"type": "approval.requested", "data": with(call.clone(), json!({"name": "forged"}))});
    let headers = [("webhook-id", "1"), ("webhook-timestamp", &*now()), ("webhook-signature", "v1,AAAA")];
    assert_eq!(scene.relay.post_with("/toolpost", &headers, &forged).await.status, 401);
    assert_eq!(scene.caller.stored(&id_of(&call)).await["approval"], call["approval"]);
    assert_eq!(scene.slack.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn message_with_a_stale_digest_decides_nothing() {
    let scene = Scene::start().await;
    let call = waiting(&scene.caller, "pay", json!({"amount": 5})).await;
    let old = scene.message(1).await;
    let changed = with(scene.caller.get("/tools/pay").await.ok(), json!({"description": "Pays at once."}));
    scene.caller.put("/tools/pay", &changed).await.ok();
    let new = scene.message(2).await;
    assert_eq!(new.target, "/api/chat.postMessage");
    assert_eq!(scene.press(&old, "approve").await.status, 200, "Slack needs an answer in any case");
    let update = scene.message(3).await;
    assert!(shown(&update).contains("not decided: the digest is not that of the pending approval"), "{update:?}");
    let stored = scene.caller.stored(&id_of(&call)).await;
    assert_eq!((&stored["phase"], &stored["approval"]["decisions"]), (&json!("approval"), &json!([])));
    scene.press(&new, "approve").await;
    succeeded(&scene.caller.ended(&id_of(&call)).await);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn message_of_a_decided_call_shows_the_decision() {
    let scene = Scene::start().await;
    let call = waiting(&scene.caller, "pay", json!({})).await;
    let message = scene.message(1).await;
    decide(&scene.approver, &call, "reject", json!({})).await.ok();
    scene.press(&message, "approve").await;
    assert!(shown(&scene.message(2).await).ends_with("not decided: the approval is decided already"));
    failed(&scene.caller.ended(&id_of(&call)).await, "APPROVAL_DENIED");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn arguments_too_long_for_slack_get_no_buttons() {
    let scene = Scene::start().await;
    waiting(&scene.caller, "pay", json!({"note": "x".repeat(4000)})).await;
    let message = scene.message(1).await;
    assert!(shown(&message).contains("too long to be shown here"), "{}", shown(&message));
    assert_eq!(message.json()["blocks"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn message_rejected_by_slack_is_sent_again() {
    let refused = json!({"ok": false, "error": "ratelimited"});
    let slack = crate::retries::answers(vec![Answer::json(&refused), Answer::json(&posted())]).await;
    let scene = Scene::start_with(slack).await;
    let call = waiting(&scene.caller, "pay", json!({"amount": 5})).await;
    let again = scene.message(2).await;
    assert_eq!(scene.slack.requests()[0].body, again.body);
    scene.press(&again, "approve").await;
    succeeded(&scene.caller.ended(&id_of(&call)).await);
}
