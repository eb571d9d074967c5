//! The handle of a tool to its own run: progress reports, context and cancellation.

use std::panic::resume_unwind;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::ToolError;
use crate::executor::Invocation;
use toolpost_core::domain::call::StatusUpdate;
use toolpost_core::domain::event::Emission;
use toolpost_core::domain::limits::Bounds;
use toolpost_core::domain::{Agent, AllowList, Progress, Tenant};

/// A handle to one run of a tool. Clones are cheap and refer to the same run.
///
/// Reports go to the subscribers of the call. Only the result goes to the model.
#[derive(Debug, Clone)]
pub struct Run(pub(super) Invocation);

impl Run {
    /// Creates the handle for an invocation of an executor.
    #[must_use]
    pub fn new(invocation: Invocation) -> Self {
        Self(invocation)
    }

    /// Returns the tools that the caller may call; `None` means all tools of the tenant.
    #[must_use]
    pub fn allowed(&self) -> Option<&AllowList> {
        self.0.allowed.as_deref()
    }

    /// Shows people a line about the current activity; it replaces the previous line.
    pub fn tip(&self, tip: impl Into<String>) {
        self.0.emitter.status(StatusUpdate { tip: Some(tip.into()), ..StatusUpdate::default() });
    }

    /// Merges fields deeply into the displayed parameters of the call: `run.params([("city", "Bern")])`.
    pub fn params(&self, fields: impl IntoIterator<Item = (impl Into<String>, impl Into<Value>)>) {
        self.0.emitter.status(StatusUpdate { params: object(fields), ..StatusUpdate::default() });
    }

    /// Merges fields deeply into the metadata of the call: `run.metadata([("rows", 3)])`.
    pub fn metadata(&self, fields: impl IntoIterator<Item = (impl Into<String>, impl Into<Value>)>) {
        self.0.emitter.status(StatusUpdate { metadata: object(fields), ..StatusUpdate::default() });
    }

    /// Resets the idle timeout without reporting anything.
    pub fn keep_alive(&self) {
        self.0.emitter.status(StatusUpdate::default());
    }

    /// Reports progress: `current` of `total` steps.
    pub fn progress(&self, current: impl Into<f64>, total: impl Into<f64>, message: impl Into<String>) {
        self.report(current.into(), Some(total.into()), message.into());
    }

    /// Reports the number of completed steps if the total is unknown.
    pub fn steps_done(&self, current: impl Into<f64>, message: impl Into<String>) {
        self.report(current.into(), None, message.into());
    }

    fn report(&self, current: f64, total: Option<f64>, message: String) {
        // JSON cannot represent infinities and NaN; "0 of 0 bytes" must not become `null`.
        if current.is_finite() {
            let progress = Progress { current, total: total.filter(|total| total.is_finite()), message: Some(message) };
            self.0.emitter.status(StatusUpdate { progress: Some(progress), ..StatusUpdate::default() });
        }
    }

    /// Sends intermediate output to subscribers: a text, blocks, or an [`Emission`] with details. Waits while too much
    /// output is not yet recorded.
    pub async fn emit(&self, emission: impl Into<Emission>) {
        self.0.emitter.emit(emission.into()).await;
    }

    /// Calls [`Run::emit`] from within [`Run::blocking`].
    ///
    /// # Panics
    /// Panics on an async thread.
    pub fn emit_blocking(&self, emission: impl Into<Emission>) {
        self.0.emitter.emit_blocking(emission.into());
    }

    /// Runs blocking work on a thread of its own.
    ///
    /// A thread cannot be stopped from outside: long work must check [`Run::is_cancelled`] of the run that it receives,
    /// which is `true` once the call has ended for any reason.
    ///
    /// # Errors
    /// Returns the error of `work`, or an error if the service has stopped.
    ///
    /// # Panics
    /// Panics if `work` panics.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        // A call ends early by dropping this future. The guard then cancels the token of the thread.
        let cancel = self.0.cancel.child_token();
        let run = Self(Invocation { cancel: cancel.clone(), ..self.0.clone() });
        let _cancel_on_drop = cancel.drop_guard();
        match tokio::task::spawn_blocking(move || work(run)).await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => resume_unwind(payload),
                Err(_) => Err(ToolError::new("the service has stopped")),
            },
        }
    }

    /// Waits until the run must stop. Rarely needed, because everything that a tool awaits is dropped then.
    pub async fn cancelled(&self) {
        self.0.cancel.cancelled().await;
    }

    /// Returns `true` if the run must stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// Returns the call id that the service assigned.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.0.id
    }

    /// Returns the call id that the caller assigned.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.0.call_id
    }

    /// Returns the id of the session of the call.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.0.session.as_deref()
    }

    /// Returns the name by which the tool was called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the tenant of the call. A tool must keep its state separate for each tenant.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.0.tenant
    }

    /// Returns the arguments as JSON.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        &self.0.arguments
    }

    /// Returns the context object `name`, deserialized. The tool must declare that it needs the object with
    /// [`DefinitionBuilder::context`](super::DefinitionBuilder::context).
    ///
    /// ```
    /// use serde_json::json;
    /// use toolpost_tool::tool::{NoArgs, Run, async_tool_fn};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct User {
    ///     name: String,
    /// }
    ///
    /// let greet = async_tool_fn("greet", "Greets the user.", |_: NoArgs, run: Run| async move {
    ///     let user: User = run.context("user")?;
    ///     Ok(format!("Hello, {}!", user.name))
    /// })
    /// .with_definition(|definition| definition.context("user"));
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use toolpost_core::domain::ToolOutput;
    ///
    /// let context = json!({"user": {"name": "Ada"}});
    /// assert_eq!(greet.invoke_with(json!({}), context).await, Ok(ToolOutput::Text("Hello, Ada!".into())));
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns an error if the object is missing or does not match the type. The message names the object and the path
    /// of the mismatch, but no values.
    pub fn context<T: DeserializeOwned>(&self, name: &str) -> Result<T, ToolError> {
        let object = self.0.context.get(name);
        let object = object.ok_or_else(|| ToolError::new(format!("the context object \"{name}\" is missing")))?;
        serde_path_to_error::deserialize(object).map_err(|error| {
            let path = error.path().to_string();
            let location = if path == "." { String::new() } else { format!(" at {path}") };
            ToolError::new(format!(
                "the context object \"{name}\" does not have the type that the tool expects{location}"
            ))
        })
    }

    /// Returns the agent that makes the call, if the caller named one.
    #[must_use]
    pub fn agent(&self) -> Option<&Agent> {
        self.0.agent.as_deref()
    }

    /// Returns the number of this attempt, starting at 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Returns the maximum duration of the run, in milliseconds.
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        self.0.timeout_ms
    }

    /// Returns how much of the output the model is shown.
    #[must_use]
    pub fn output_bounds(&self) -> Bounds {
        self.0.output
    }

    /// Returns the W3C `traceparent` of the request, for outgoing requests.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.0.traceparent.as_deref()
    }
}

/// Creates a JSON object from its fields: `object([("rows", 3)])`.
#[must_use]
pub fn object(fields: impl IntoIterator<Item = (impl Into<String>, impl Into<Value>)>) -> Map<String, Value> {
    fields.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}
