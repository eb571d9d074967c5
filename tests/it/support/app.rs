//! A running service with a client, and tools that many tests need.

use std::ops::Deref;

use serde_json::{Value, json};
use toolpost::store::Store;

use super::service::Service;
use super::{Backend, Client, HttpTool, Options};

/// A service under test; dereferences to its [`Client`].
pub struct App {
    service: Service,
    client: Client,
}

impl Deref for App {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl App {
    pub async fn start(backend: Backend) -> Self {
        Self::of(Service::start(backend).await)
    }

    pub async fn start_with(backend: Backend, options: Options) -> Self {
        Self::of(Service::start_with(backend, options).await)
    }

    /// Starts a service on an existing database.
    pub async fn start_at(url: String, options: Options) -> Self {
        Self::of(Service::start_at(url, options).await)
    }

    /// Starts a service on SQLite, for tests that do not depend on the database.
    pub async fn on_sqlite() -> Self {
        Self::start(Backend::Sqlite).await
    }

    /// Starts a service whose `http` tools may reach the test's own servers.
    pub async fn with_egress(backend: Backend) -> Self {
        Self::start_with(backend, Options { egress_allow: vec!["127.0.0.1".into()], ..Options::default() }).await
    }

    /// Stops the service gracefully and starts it on the same database with the same options.
    pub async fn restart(self) -> Self {
        Self::of(self.service.restart().await)
    }

    /// Starts a second service on the same database.
    pub async fn second(&self) -> Self {
        Self::of(self.service.second().await)
    }

    /// Returns the service's own store, for tests that make the database fail.
    pub fn store(&self) -> &Store {
        self.service.store()
    }

    /// Returns the URL of the database, for tests that write to it directly.
    pub fn database_url(&self) -> String {
        self.service.database_url().to_owned()
    }

    fn of(service: Service) -> Self {
        let client = Client::new(&service.url(""));
        Self { service, client }
    }
}

impl Client {
    /// Registers a definition.
    pub async fn register(&self, definition: Value) -> Value {
        let answer = self.post("/tools", &definition).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json
    }

    /// Registers a tool that runs `echo` with this input schema.
    pub async fn echo_with(&self, name: &str, input_schema: Value) -> Value {
        self.register(echo_tool(name, input_schema)).await
    }

    /// Registers a tool that runs `echo` with an object schema of these properties, all optional.
    pub async fn echo_of(&self, name: &str, properties: Value) -> Value {
        self.echo_with(name, json!({"type": "object", "properties": properties})).await
    }

    /// Registers an `http` tool that accepts any object and posts it to `server`.
    pub async fn http_tool(&self, name: &str, server: &HttpTool) -> Value {
        self.register(http_tool(name, json!({"url": server.url("/run")}))).await
    }
}

/// Builds a definition that runs the built-in `echo`.
pub fn echo_tool(name: &str, input_schema: Value) -> Value {
    json!({
        "name": name, "description": "Answers with its arguments.", "input_schema": input_schema,
        "executor": {"type": "builtin", "name": "echo"},
    })
}

/// Builds a definition that accepts any object; `request` has the fields of the `http` executor.
pub fn http_tool(name: &str, request: Value) -> Value {
    let mut executor = json!({"type": "http"});
    executor.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
    json!({
        "name": name, "description": "Asks a server.", "input_schema": {"type": "object"}, "executor": executor,
    })
}
