//! Planted secrets reach only the tool.

use reqwest::Method;
use serde_json::{Value, json};

use super::dump;
use super::markers::{Needle, all_forms};
use crate::support::client::send;
use crate::support::{Answer, Backend, Database, HttpTool, Node, ReceivedRequest};

const OF_ENVIRONMENT: Needle = Needle { what: "the secret of the environment", value: "sk-env/+\"7?&ü-planted" };
const OF_FILE: Needle = Needle { what: "the secret of the file", value: "sk-file/+'9?é-planted" };
const STORED: Needle = Needle { what: "the stored value", value: "sk-stored/+\\5=&ñ-planted" };
const CREDENTIAL: Needle = Needle { what: "the credential", value: "sk-bearer-planted-3141592" };
const OF_REQUEST: Needle = Needle { what: "the request's context", value: "ctx-request/+\"7?ü-planted" };
const OF_SERVER: Needle = Needle { what: "the server's context", value: "ctx-server/+7?ü-planted" };
const SECRETS: [Needle; 4] = [OF_ENVIRONMENT, OF_FILE, STORED, CREDENTIAL];
const CONTEXT: [Needle; 2] = [OF_REQUEST, OF_SERVER];

/// Returns all secrets in every form.
fn everything() -> String {
    SECRETS.map(|needle| all_forms(needle.value)).join("\n")
}

/// Leaks all secrets in the way that the path selects.
fn behave(request: &ReceivedRequest) -> Answer {
    let all = everything();
    let sse = |events: String| Answer::body("text/event-stream", events);
    let quoted = Value::String(all.clone()).to_string();
    match request.target.split('?').next().unwrap_or_default() {
        "/json" => Answer::json(&json!({"said": all, "key": {STORED.value: [all]}})),
        "/output" => Answer::json(&json!({
            "output": all, "details": {"d": all}, "structured": [all], "metadata": {"m": all},
        })),
        "/content" => Answer::json(&json!({"content": [{"type": "text", "text": all}, {"type": "note", "note": all}]})),
        "/error" => Answer::json(&json!({"success": false, "error": all})),
        "/image" => Answer::body("image/png", all),
        "/400" => Answer::status(400, "text/plain", all.repeat(20)),
        "/500" => Answer::status(500, "application/json", format!("{{\"message\":{quoted}}}")),
        "/type" => Answer::body("application/octet-stream", all),
        "/progress" => sse(format!(
            "event: progress\ndata: {{\"tip\":{quoted},\"params\":{{\"p\":{quoted}}},\"metadata\":{{\"m\":{quoted}}},\
             \"content\":{quoted},\"details\":{{\"d\":{quoted}}},\
             \"progress\":{{\"current\":1,\"message\":{quoted}}}}}\n\nevent: result\ndata: {quoted}\n\n"
        )),
        "/broken" => sse(format!("event: error\ndata: {{\"message\":{quoted}}}\n\n")),
        "/cut" => Answer::CutOff,
        "/close" => Answer::CloseEarly,
        "/never" => Answer::Never,
        "/callback" => Answer::text("thanks"),
        _ => Answer::text(&all),
    }
}

const WAYS: [&str; 14] = [
    "text", "json", "output", "content", "error", "image", "400", "500", "type", "progress", "broken", "cut", "close",
    "never",
];

on_both_databases!(
    async fn planted_secrets_reach_the_tool_only(backend: Backend) {
        let server = HttpTool::start("127.0.0.1", behave).await;
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let secrets = file("secrets", format!("OF_FILE={}\n", OF_FILE.value));
        let config = file("config.toml", format!("[context.shop]\nname = '{}'\n", OF_SERVER.value));
        let key = format!("k1:{}=", "A".repeat(43));
        let settings = [
            ("TOOLPOST_SECRET_OF_ENV", OF_ENVIRONMENT.value),
            ("TOOLPOST_SECRET_CREDENTIAL", CREDENTIAL.value),
            ("TOOLPOST_SECRETS_FILE", &secrets),
            ("TOOLPOST_CONFIG", &config),
            ("TOOLPOST_ENCRYPTION_KEYS", &key),
            ("TOOLPOST__LOG__FILTER", "trace"),
        ];
        let database = Database::fresh(backend).await;
        let mut node = Node::on(database.clone(), &settings).await;
        let mut heard = register(&node, &server).await;
        heard.extend(call(&node, &server).await);
        heard.extend(look(&node).await);
        for (origin, text) in &heard {
            SECRETS.iter().chain(&CONTEXT).for_each(|needle| needle.is_not_in(origin, text));
        }
        let requests = server.requests();
        assert!(requests.iter().any(|request| request.target == "/callback"), "no callback came");
        let sent = requests.iter().find(|request| request.target.starts_with("/text")).expect("a request").clone();
        for (name, needle) in [("a", &OF_ENVIRONMENT), ("b", &OF_FILE), ("c", &STORED)] {
            assert_eq!(sent.json()["arguments"][name], needle.value);
        }
        assert_eq!(sent.json()["context"], json!({"user": {"v": OF_REQUEST.value}, "shop": {"name": OF_SERVER.value}}));
        for request in requests.iter().filter(|request| request.target == "/callback") {
            SECRETS.iter().chain(&CONTEXT).for_each(|needle| needle.is_not_in("a callback", request.body.as_bytes()));
        }
        let files = dump::files(backend, &database);
        node.signal("TERM");
        let ended = node.end().await;
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.err.contains("TRACE"), "the log says little");
        for needle in SECRETS.iter().chain(&CONTEXT) {
            needle.is_not_in("the log", ended.err.as_bytes());
            needle.is_not_in("standard output", ended.out.as_bytes());
        }
        let rows = dump::rows(backend, &database).await;
        SECRETS.iter().chain(&CONTEXT).for_each(|needle| needle.is_not_in("the database's rows", &rows));
        // The context of a call is in its row until its end, so it may remain in free pages.
        for (origin, bytes) in [("the running database's files", files), ("its files", dump::files(backend, &database))]
        {
            SECRETS.iter().for_each(|needle| needle.is_not_in(origin, &bytes));
        }
    }
);

type ResponseBodies = Vec<(String, Vec<u8>)>;

/// Registers one tool for every way to leak a secret, with presets of every kind.
async fn register(node: &Node, server: &HttpTool) -> ResponseBodies {
    let mut heard = ResponseBodies::new();
    for way in WAYS {
        let limits = if way == "never" { json!({"timeout_ms": 50}) } else { json!({}) };
        let tool = json!({
            "name": way, "description": "Says it all.", "limits": limits, "context": ["user", "shop"],
            "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": false},
            "presets": {"a": {"secret": "OF_ENV"}, "b": {"secret": "OF_FILE"}, "c": {}},
            "executor": {"type": "http", "url": server.url(&format!("/{way}")), "headers": {"x-key": "{b}"},
                "query": {"k": "{a}"}, "auth": {"type": "bearer", "token": {"secret": "CREDENTIAL"}}},
        });
        heard.push((format!("registering {way}"), node.post("/tools", &tool).await.body));
        let put = node.put(&format!("/tools/{way}/presets"), &json!({"c": {"value": STORED.value}})).await;
        assert_eq!(put.status, 200, "{}", put.text());
        heard.push((format!("presets of {way}"), put.body));
        for wrong in [json!(STORED.value), json!({"value": STORED.value, "x": 1}), json!({"secret": STORED.value})] {
            let refused = node.put(&format!("/tools/{way}/presets"), &json!({"c": wrong})).await;
            assert_eq!(refused.status, 422);
            heard.push(("a refused preset".to_owned(), refused.body));
        }
    }
    heard
}

/// Calls every tool in every way and returns the response bodies.
async fn call(node: &Node, server: &HttpTool) -> ResponseBodies {
    let context = json!({"user": {"v": OF_REQUEST.value}});
    let mut heard = ResponseBodies::new();
    for way in WAYS {
        let body = |extra: Value| {
            let mut body = json!({"name": way, "arguments": {"x": 1}, "context": context});
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            body
        };
        heard.push((format!("the answer of {way}"), node.post("/tool-calls", &body(json!({}))).await.body));
        let events = node.call_streamed(&body(json!({}))).await.rest().await;
        heard.push((format!("the events of {way}"), format!("{events:?}").into_bytes()));
        let accepted_call = body(json!({"wait": "accepted", "callback_url": server.url("/callback")}));
        let accepted = node.post("/tool-calls", &accepted_call).await;
        let id = accepted.json["id"].as_str().expect("an id").to_owned();
        heard.push((format!("the acceptance of {way}"), accepted.body));
        let waited = node.get(&format!("/tool-calls/{id}?wait_ms=20000")).await;
        assert!(waited.json["ended_at"].is_string(), "{}", waited.text());
        heard.push((format!("the call of {way}"), waited.body));
        let history = node.events(&format!("/tool-calls/{id}/events")).await.rest().await;
        heard.push((format!("the history of {way}"), format!("{history:?}").into_bytes()));
        let wrong = body(json!({"arguments": {"x": "no", "a": 1}}));
        heard.push((format!("a refused call of {way}"), node.post("/tool-calls", &wrong).await.body));
        let missing = json!({"name": way, "arguments": {"x": 1}});
        heard.push((format!("{way} without context"), node.post("/tool-calls", &missing).await.body));
        let message = json!({"context": context, "role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": way, "arguments": "{\"x\":1}"}}]});
        heard.push((format!("the message of {way}"), node.post("/tool-calls", &message).await.body));
    }
    let refused = json!({"name": "text", "context": {"user": OF_REQUEST.value}});
    heard.push(("a refused context".to_owned(), node.post("/tool-calls", &refused).await.body));
    crate::support::eventually("the callbacks", || async {
        let callbacks = server.requests().iter().filter(|request| request.target == "/callback").count();
        (callbacks >= WAYS.len()).then_some(())
    })
    .await;
    heard
}

/// Returns the bodies of all resources that can be read.
async fn look(node: &Node) -> ResponseBodies {
    let mut heard = ResponseBodies::new();
    let formats = ["native", "openai", "openai-responses", "openai-strict", "anthropic", "gemini", "mcp", "prompt"];
    let lists = formats.map(|format| format!("/tools?format={format}"));
    let others = [
        "/openapi.json",
        "/tool-calls?limit=200",
        "/stats",
        "/tools?q=says",
        "/tools/text",
        "/tools/text/presets",
        "/healthz",
        "/readyz",
        "/tools/text/stats",
        "/none",
    ];
    for path in lists.iter().map(String::as_str).chain(others) {
        heard.push((path.to_owned(), send(node.request(Method::GET, path)).await.body));
    }
    let validate = json!({"arguments": {"x": 1, "c": 1}});
    heard.push(("validation".to_owned(), node.post("/tools/text/validate", &validate).await.body));
    heard
}
