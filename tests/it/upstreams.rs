//! Upstream MCP servers, whose tools are tools of the service.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use toolpost::config::Config;
use toolpost::executor::Secrets;

use crate::support::fixture::project_file;
use crate::support::{App, Backend, Client, Options, eventually};

mod calls;
mod declared;
mod http;
mod http_server;
mod lifecycle;
mod persistence;
mod pins;
mod raw_server;
mod tools;
mod uncorrelated;
mod while_starting;

/// The fixture server in its own folder.
pub struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    /// Creates a server with these tools.
    fn new(tools: &Value) -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        fixture.offer(tools);
        fixture
    }

    /// Creates a server with tools of these names that accept any object.
    pub fn named(names: &[&str]) -> Self {
        Self::new(&names.iter().map(|name| tool(name)).collect())
    }

    /// Replaces the tools without a notification.
    fn offer(&self, tools: &Value) {
        // The server may read the file at any time, so it is replaced atomically.
        let (part, whole) = (self.path("tools.part"), self.path("tools.json"));
        fs::write(&part, tools.to_string()).unwrap();
        fs::rename(part, whole).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the declaration of the server, with further members.
    fn declared(&self, more: Value) -> Value {
        let script = project_file("tests/fixtures/mcp/server.py");
        let mut declared = json!({"command": "python3", "args": [script, self.folder.path()]});
        declared.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        declared
    }

    /// Writes an `mcpServers` file that declares the server as `s`, and returns its path.
    fn file(&self, more: Value) -> PathBuf {
        self.file_of(&json!({"s": self.declared(more)}))
    }

    pub fn file_of(&self, servers: &Value) -> PathBuf {
        let file = self.path("mcp.json");
        fs::write(&file, json!({ "mcpServers": servers }).to_string()).unwrap();
        file
    }

    /// Starts a service with the server as `s`.
    pub async fn served(&self, more: Value) -> App {
        self.served_on(Backend::Sqlite, more).await
    }

    async fn served_on(&self, backend: Backend, more: Value) -> App {
        App::start_with(backend, options(self.file(more))).await
    }

    /// Returns the number of starts of the server.
    fn starts(&self) -> usize {
        fs::read_to_string(self.path("starts")).unwrap_or_default().lines().count()
    }

    /// Returns the messages with this method that the server has received.
    fn heard(&self, method: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path("heard.jsonl")).unwrap_or_default();
        // The last line may be incomplete.
        let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        all.filter(|message| message["method"] == method).collect()
    }

    /// Waits until the server has received `count` messages with this method, and returns them.
    async fn hears(&self, method: &str, count: usize) -> Vec<Value> {
        eventually(method, || async { Some(self.heard(method)).filter(|heard| heard.len() >= count) }).await
    }
}

pub fn options(file: PathBuf) -> Options {
    let secrets = Secrets::new(|name| (name == "TOKEN").then(|| "tok-planted-1234567".to_owned()));
    Options { mcp_servers: Some(file), configure: Some(quick), secrets: Some(secrets), ..Options::default() }
}

/// Names the helper, because the test binary is not `toolpost`, and shortens all delays.
fn quick(config: &mut Config) {
    config.process.helper = env!("CARGO_BIN_EXE_toolpost").into();
    config.mcp_servers.start_wait_ms = 15_000;
    config.mcp_servers.call_wait_ms = 15_000;
    config.mcp_servers.initial_backoff_ms = 10;
    config.mcp_servers.max_backoff_ms = 100;
    config.egress.allow = vec!["127.0.0.1".into()];
}

/// Builds a tool of an upstream server that accepts any object.
fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("Does {name}."), "inputSchema": {"type": "object"}})
}

impl Client {
    async fn upstream(&self, name: &str) -> Value {
        self.get(&format!("/upstreams/{name}")).await.ok()
    }

    /// Waits until the server is in this state.
    async fn upstream_in(&self, name: &str, state: &str) -> Value {
        eventually(state, || async { Some(self.upstream(name).await).filter(|server| server["state"] == state) }).await
    }

    /// Returns the names of the active tools of this server.
    async fn tools_of(&self, server: &str) -> Vec<String> {
        let list = self.get("/tools").await.ok();
        let names = list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        names.filter(|name| name.starts_with(&format!("{server}."))).map(str::to_owned).collect()
    }

    /// Waits until the server has exactly these tools.
    async fn has_tools(&self, server: &str, tools: &[&str]) {
        eventually("the tools", || async { (self.tools_of(server).await == tools).then_some(()) }).await;
    }
}

/// Returns the living processes that have this mark in their environment.
fn marked(mark: &str) -> Vec<String> {
    let variable = format!("MARK={mark}");
    let is_marked = |id: &String| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    all.filter(|id| id.bytes().all(|byte| byte.is_ascii_digit())).filter(is_marked).collect()
}

async fn wait_for_none(mark: &str) {
    eventually("the end of all processes", || async { marked(mark).is_empty().then_some(()) }).await;
}
