//! Tools that run programs on the server.

use std::fs;

use serde_json::{Value, json};
use toolpost::config::Config;
use toolpost::executor::Secrets;

use crate::support::calls::with;
use crate::support::{App, Backend, Options, eventually};

mod chaos;
mod cleanup;
mod declared;
mod environment;
mod library;
mod limits;
mod privileges;
mod results;
mod scripts;
mod supervised;

/// Starts a service that accepts programs over the API. It names the helper, because the test binary is not `toolpost`.
async fn service() -> App {
    service_with(Options::default()).await
}

async fn service_with(options: Options) -> App {
    App::start_with(Backend::Sqlite, Options { configure: Some(open), ..options }).await
}

fn open(config: &mut Config) {
    config.process.registration = true;
    config.process.helper = env!("CARGO_BIN_EXE_toolpost").into();
}

/// Starts a service with the secret `KEY`.
async fn service_with_secret(value: &'static str) -> App {
    let secrets = Secrets::new(move |name| (name == "KEY").then(|| value.to_owned()));
    service_with(Options { secrets: Some(secrets), ..Options::default() }).await
}

/// Builds a definition that accepts any object; `executor` has further members of the executor.
fn program(name: &str, argv: &[&str], executor: Value) -> Value {
    let executor = with(json!({"type": "process", "argv": argv}), executor);
    json!({"name": name, "input_schema": {"type": "object"}, "executor": executor})
}

/// Calls a program that runs only this script.
async fn shell(app: &App, script: &str) -> Value {
    shell_with(app, script, json!({})).await
}

async fn shell_with(app: &App, script: &str, executor: Value) -> Value {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let name = format!("script_{}", NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    app.register(program(&name, &["sh", "-c", script], executor)).await;
    app.call(&name, json!({})).await
}

/// Returns all descendants of a process, including zombies.
fn below(id: u32) -> Vec<u32> {
    let mut found = vec![id];
    let parents: Vec<(u32, u32)> = processes().filter_map(|id| Some((id, parent(id)?))).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(id, _)| id));
        next += 1;
    }
    found.split_off(1)
}

fn processes() -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse().ok())
}

fn parent(id: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Returns the living processes that have this `MARK` in their environment.
fn marked(mark: &str) -> Vec<u32> {
    let variable = format!("MARK={mark}");
    let is_marked = |id: &u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    processes().filter(is_marked).collect()
}

/// Returns the marked process that was started with this command line.
fn started_as(mark: &str, words: &[&str]) -> Option<u32> {
    let line: Vec<u8> = words.iter().flat_map(|word| word.bytes().chain([0])).collect();
    marked(mark).into_iter().find(|id| fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|found| found == line))
}

/// Returns a word that is unique to this test.
fn mark() -> String {
    tempfile::tempdir().unwrap().path().display().to_string()
}

async fn wait_for_some(mark: &str, count: usize) {
    eventually("the processes", || async { (marked(mark).len() >= count).then_some(()) }).await;
}

async fn wait_for_none(mark: &str) {
    eventually("the end of all processes", || async { marked(mark).is_empty().then_some(()) }).await;
}

fn kill(id: u32) {
    let killed = std::process::Command::new("kill").args(["-KILL", &id.to_string()]).status();
    assert!(killed.unwrap().success());
}
