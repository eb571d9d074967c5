//! Groups of tools: creation, switches, sessions and deletion. An inactive tool appears nowhere.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::echo_tool;
use crate::support::client::send;
use crate::support::shapes::names;
use crate::support::{App, Client, Response};

mod calls;
mod cli;
mod crud;
mod delete;
mod lists;
mod named;
mod nodes;
mod sessions;
mod switch;

/// Requests about groups, for these tests.
pub trait Grouping {
    async fn patch(&self, path: &str, body: Value) -> Response;
    /// Creates active groups.
    async fn groups(&self, names: &[&str]);
    /// Registers a tool in these groups.
    async fn grouped(&self, name: &str, groups: &[&str]);
    /// Deactivates a group for all sessions.
    async fn deactivate(&self, name: &str);
    /// Returns the groups that this query lists, each with whether it is active.
    async fn active(&self, query: &str) -> Vec<(String, bool)>;
    /// Returns the names of the listed tools, without the built-in ones.
    async fn listed(&self, query: &str) -> Vec<String>;
}

impl Grouping for Client {
    async fn patch(&self, path: &str, body: Value) -> Response {
        send(self.request(Method::PATCH, path).json(&body)).await
    }

    async fn groups(&self, names: &[&str]) {
        for name in names {
            let answer = self.post("/tool-groups", &json!({ "name": name })).await;
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
    }

    async fn grouped(&self, name: &str, groups: &[&str]) {
        self.register(grouped(name, groups)).await;
    }

    async fn deactivate(&self, name: &str) {
        self.patch("/tool-groups", json!({"deactivate": [name]})).await.ok();
    }

    async fn active(&self, query: &str) -> Vec<(String, bool)> {
        let list = self.get(&format!("/tool-groups{query}")).await.ok();
        let groups = list["groups"].as_array().unwrap();
        assert_eq!(list["total"], groups.len());
        groups.iter().map(|group| (text(&group["name"]), group["active"].as_bool().unwrap())).collect()
    }

    async fn listed(&self, query: &str) -> Vec<String> {
        let list = self.get(&format!("/tools{query}")).await.ok();
        assert_eq!(list["total"], list["tools"].as_array().unwrap().len());
        let names = names(&list["tools"]).into_iter().map(str::to_owned);
        names
            .filter(|name| !["calculate", "current_time", "echo", "read_result", "wait"].contains(&name.as_str()))
            .collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn grouped(name: &str, groups: &[&str]) -> Value {
    let mut tool = echo_tool(name, json!({"type": "object"}));
    tool["groups"] = json!(groups);
    tool
}

/// Starts a service with the groups `a` and `b`, and tools in `a`, in `b`, in both and in none.
async fn service(backend: crate::support::Backend) -> App {
    let app = App::start(backend).await;
    app.groups(&["a", "b"]).await;
    for (name, groups) in [("in_a", &["a"][..]), ("in_b", &["b"]), ("in_both", &["a", "b"]), ("in_none", &[])] {
        app.grouped(name, groups).await;
    }
    app
}
