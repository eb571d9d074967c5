//! `backup.md`: its commands, word for word, back up a running service, and another service continues from the backup.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::page;
use crate::support::calls::{gated, id_of};
use crate::support::shapes::succeeded;
use crate::support::{Backend, Client, Database, HttpTool, Node, eventually, postgres};

/// The key that seals stored presets; a secret that a backup needs in addition to the database.
const KEYS: (&str, &str) = ("TOOLPOST_ENCRYPTION_KEYS", "2026:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
const SIGNED: (&str, &str) = ("TOOLPOST_SIGNING_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");

/// Returns the commands below a heading of the page.
fn commands(heading: &str) -> String {
    let text = page("backup.md");
    let (_, behind) = text.split_once(&format!("\n### {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let (_, code) = behind.split_once("```sh\n").unwrap();
    code.split_once("```").unwrap().0.to_owned()
}

/// Runs the commands below a heading with these variables and with the programs of the test cluster.
async fn run(heading: &str, variables: &[(&str, String)]) {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", &commands(heading)]).envs(variables.iter().cloned());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", postgres::shared().bin().display()));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{heading}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The stored data before the backup.
struct BackupState {
    done: Value,
    running: String,
    outside: String,
    server: HttpTool,
    slow: HttpTool,
}

async fn work(app: &Client) -> BackupState {
    let (server, slow) = (HttpTool::answering(crate::support::Answer::text("sent")).await, gated("late").await);
    app.http_tool("mail", &server).await;
    app.put("/tools/mail/presets", &json!({"token": {"value": "tok-123456"}})).await.ok();
    app.http_tool("slow", &slow).await;
    app.register(json!({"name": "ask", "description": "Asks somebody.", "input_schema": {"type": "object"},
        "async": true, "executor": {"type": "external"}}))
        .await;
    let done = app.call("mail", json!({"to": "ann"})).await;
    succeeded(&done);
    let running = app.accepted(json!({"name": "slow", "wait": "accepted"})).await;
    slow.received(1).await;
    let outside = app.accepted(json!({"name": "ask", "arguments": {}})).await;
    app.in_phase(&outside, "external").await;
    BackupState { done, running, outside, server, slow }
}

/// Sends calls during the backup.
fn keep_busy(app: &Client) -> tokio::task::JoinHandle<()> {
    let app = Client::new(&app.url(""));
    tokio::spawn(async move {
        // Fewer calls than a page of the list has.
        for number in 0..400 {
            app.call("echo", json!({ "n": number })).await;
        }
    })
}

/// Checks the service on the restored database.
async fn check(app: &Client, before: &BackupState, later: &str) {
    let BackupState { done, running, outside, server, .. } = before;
    let stored = app.stored(&id_of(done)).await;
    assert_eq!((&stored["output"], &stored["status"]), (&done["output"], &json!("SUCCESS")));
    assert_eq!(app.get(&format!("/tool-calls/{later}")).await.status, 404, "it came after the backup");
    // The outcome of the running call is unknown because it is not safe to repeat; the external call still waits for
    // its result.
    let lost = app.ended(running).await;
    assert_eq!(lost["error"]["code"], "OUTCOME_UNKNOWN", "{lost:#}");
    let answer = app.post(&format!("/tool-calls/{outside}/result"), &json!({"output": "yes"})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    succeeded(&app.ended(outside).await);
    // A backup is a consistent snapshot, so counts match the calls. A call that was running may be running again.
    let is_good = |call: &&Value| call["name"] == "echo" && call["status"] == "SUCCESS";
    eventually("counts that are those of the calls", || async {
        let echoes = app.all_calls().await.iter().filter(is_good).count();
        (app.stats("echo").await["execution_count"] == echoes).then_some(())
    })
    .await;
    // Sealed values open with the keys that were kept with the backup.
    succeeded(&app.call("mail", json!({"to": "bob"})).await);
    assert_eq!(server.requests().last().unwrap().json()["arguments"], json!({"to": "bob", "token": "tok-123456"}));
}

/// Backs up a busy service with the commands of the page and restores it with them. Both use these variables.
async fn backed_up_and_restored(node: &mut Node, part: &str, variables: &[(&str, String)]) -> (BackupState, String) {
    let before = work(node).await;
    let busy = keep_busy(node);
    eventually("work", || async { (node.stats("echo").await["execution_count"].as_u64() > Some(20)).then_some(()) })
        .await;
    run(&format!("{part}: back up"), variables).await;
    let later = id_of(&node.call("mail", json!({"to": "cyd"})).await);
    busy.abort();
    node.kill().await;
    before.slow.open();
    run(&format!("{part}: restore"), variables).await;
    (before, later)
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_backup_of_a_running_service_can_be_restored() {
    requires_postgres!();
    let mut node = Node::start(Backend::Sqlite, &[KEYS, SIGNED]).await;
    let file = |url: &str| url.strip_prefix("sqlite://").unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let restored = folder.path().join("restored.db");
    let variables = [
        ("DB", file(node.database_url())),
        ("BACKUP", folder.path().join("backup.db").display().to_string()),
        ("RESTORED", restored.display().to_string()),
    ];
    // Files of an earlier database must not affect the restored one.
    for suffix in ["", "-wal", "-shm"] {
        std::fs::write(format!("{}{suffix}", restored.display()), "of another database").unwrap();
    }
    let (before, later) = backed_up_and_restored(&mut node, "SQLite", &variables).await;
    let backup = folder.path().join("backup.db");
    assert!(is_alone(&backup), "a backup is one file");
    let other = Node::on(Database::at(format!("sqlite://{}", restored.display())), &[KEYS, SIGNED]).await;
    check(&other, &before, &later).await;
}

/// Returns `true` if the database file has no companion files that it needs.
fn is_alone(file: &Path) -> bool {
    ["-wal", "-journal"].iter().all(|suffix| !Path::new(&format!("{}{suffix}", file.display())).exists())
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_backup_of_a_running_service_can_be_restored() {
    requires_postgres!();
    let mut node = Node::start(Backend::Postgres, &[KEYS, SIGNED]).await;
    let folder = tempfile::tempdir().unwrap();
    let restored = postgres::shared().url("toolpost_restored");
    let variables = [
        ("DATABASE_URL", node.database_url().to_owned()),
        ("BACKUP", folder.path().join("toolpost.dump").display().to_string()),
        ("RESTORED_URL", restored.clone()),
    ];
    let (before, later) = backed_up_and_restored(&mut node, "PostgreSQL", &variables).await;
    let other = Node::on(Database::at(restored), &[KEYS, SIGNED]).await;
    check(&other, &before, &later).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_without_the_keys_leaves_only_sealed_values_sealed() {
    let mut node = Node::start(Backend::Sqlite, &[KEYS, SIGNED]).await;
    let before = work(&node).await;
    node.kill().await;
    before.slow.open();
    let other = Node::on(Database::at(node.database_url().to_owned()), &[SIGNED]).await;
    assert_eq!(other.stored(&id_of(&before.done)).await["status"], "SUCCESS");
    let call = other.call("mail", json!({"to": "bob"})).await;
    assert_eq!(call["status"], "ERROR", "{call:#}");
    assert_eq!(before.server.requests().len(), 1, "it was not asked without its token");
}
