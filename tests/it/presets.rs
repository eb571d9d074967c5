//! Arguments from the operator and context from callers, which only the tool receives.

use serde_json::{Value, json};
use toolpost::executor::Secrets;

use crate::support::{Answer, App, Backend, HttpTool, Options};

mod context;
mod injected;
mod precedence;
mod stored;
mod visibility;

/// The secret of these services.
const SECRET: &str = "sk-live-4f9a/+ü";

/// Returns options with the secret `MAIL_KEY`, a key for sealing, and access to the test's own servers.
fn options() -> Options {
    Options {
        egress_allow: vec!["127.0.0.1".into()],
        secrets: Some(Secrets::new(|name| (name == "MAIL_KEY").then(|| SECRET.to_owned()))),
        configure: Some(|config| {
            config.secrets.encryption_keys.0 = format!("k1:{}=", "A".repeat(43));
            let user = json!({"name": "of the server"}).as_object().unwrap().clone();
            config.context.0.insert("user".into(), user);
        }),
        ..Options::default()
    }
}

async fn service(backend: Backend) -> App {
    App::start_with(backend, options()).await
}

/// Returns the schema of a mail, with `to`, `key` and `region` required and no additional properties.
fn mail_schema() -> Value {
    json!({
        "type": "object", "required": ["to", "key", "region"], "additionalProperties": false,
        "properties": {
            "to": {"type": "string"}, "key": {"type": "string"}, "region": {"type": "string"},
            "unit": {"type": "string", "default": "F"},
        },
    })
}

/// Registers `mail`, which posts to `server`, with a secret, a value and a default.
async fn mail(app: &App, server: &HttpTool) -> Value {
    app.register(json!({
        "name": "mail", "description": "Sends mail.", "input_schema": mail_schema(),
        "presets": {
            "key": {"secret": "MAIL_KEY"}, "region": {"value": "eu-central"},
            "unit": {"value": "C", "overridable": true},
        },
        "executor": {"type": "http", "url": server.url("/mail")},
    }))
    .await
}

/// Returns the body of the server's last request as JSON.
fn last(server: &HttpTool) -> Value {
    server.requests().last().expect("a request").json()
}

async fn server() -> HttpTool {
    HttpTool::answering(Answer::json(&json!("sent"))).await
}
