//! A tool's handle on its own run: what it reports, and whether it is still wanted.

use std::panic::resume_unwind;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::ToolError;
use crate::domain::call::StatusUpdate;
use crate::domain::event::Emission;
use crate::domain::limits::Bounds;
use crate::domain::{Agent, ContentBlock, Progress, Tenant};
use crate::executor::Invocation;

/// One run of a tool. Cheap to clone; all clones are handles on the same run.
///
/// What it reports goes to those who watch the call. Only the answer goes to the model.
#[derive(Debug, Clone)]
pub struct Run(Invocation);

impl Run {
    /// The run that an executor was asked for.
    #[must_use]
    pub fn new(invocation: Invocation) -> Self {
        Self(invocation)
    }

    /// Returns `true` if there is a tool of this name for the caller: the key that the call came with may be for some only.
    pub(super) fn may_have(&self, tool: &str) -> bool {
        self.0.allowed.as_ref().is_none_or(|allowed| allowed.has(tool))
    }

    /// Shows one line for people about what is being done; it replaces the one before.
    pub fn tip(&self, tip: impl Into<String>) {
        self.0.emitter.status(StatusUpdate { tip: Some(tip.into()), ..StatusUpdate::default() });
    }

    /// Shows parameters, as `run.params([("city", "Bern")])`; merged deeply over the whole call.
    pub fn params(&self, fields: impl IntoIterator<Item = (impl Into<String>, impl Into<Value>)>) {
        self.0.emitter.status(StatusUpdate { params: object(fields), ..StatusUpdate::default() });
    }

    /// Adds facts to the call's metadata, as `run.metadata([("rows", 3)])`; merged deeply over the whole call.
    pub fn metadata(&self, fields: impl IntoIterator<Item = (impl Into<String>, impl Into<Value>)>) {
        self.0.emitter.status(StatusUpdate { metadata: object(fields), ..StatusUpdate::default() });
    }

    /// Only says that the work goes on, where silence is bounded.
    pub fn keep_alive(&self) {
        self.0.emitter.status(StatusUpdate::default());
    }

    /// Whether there are secrets among the arguments, which are taken out of whatever it says, a piece at a time.
    pub(super) fn has_secrets(&self) -> bool {
        self.0.redaction.is_some()
    }

    /// Says how far it is: `current` of `total` steps.
    pub fn progress(&self, current: impl Into<f64>, total: impl Into<f64>, message: impl Into<String>) {
        self.report(current.into(), Some(total.into()), message.into());
    }

    /// Says how many steps are done where nobody knows how many there will be.
    pub fn steps_done(&self, current: impl Into<f64>, message: impl Into<String>) {
        self.report(current.into(), None, message.into());
    }

    fn report(&self, current: f64, total: Option<f64>, message: String) {
        // JSON has no infinities: 0 of 0 bytes must not become `null` of something.
        if current.is_finite() {
            let progress = Progress { current, total: total.filter(|total| total.is_finite()), message: Some(message) };
            self.0.emitter.status(StatusUpdate { progress: Some(progress), ..StatusUpdate::default() });
        }
    }

    /// Shows something to whoever watches: a text, blocks, or an [`Emission`] with details. It waits while too much of it
    /// is not yet recorded.
    pub async fn emit(&self, emission: impl Into<Emission>) {
        self.0.emitter.emit(emission.into()).await;
    }

    /// [`Run::emit`] from within [`Run::blocking`].
    ///
    /// # Panics
    /// On an async thread.
    pub fn emit_blocking(&self, emission: impl Into<Emission>) {
        self.0.emitter.emit_blocking(emission.into());
    }

    /// Does work that blocks its thread on a thread of its own.
    ///
    /// A thread cannot be stopped from outside: long work looks at [`Run::is_cancelled`] of the run that it is given, which
    /// is true once the call has ended for whatever reason.
    ///
    /// # Errors
    /// Those of `work`, or that the service has stopped.
    ///
    /// # Panics
    /// If `work` does.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        // Dropping the future is how a call ends early; the guard is how the thread hears of it.
        let cancel = self.0.cancel.child_token();
        let run = Self(Invocation { cancel: cancel.clone(), ..self.0.clone() });
        let _tell_the_thread = cancel.drop_guard();
        match tokio::task::spawn_blocking(move || work(run)).await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => resume_unwind(payload),
                Err(_) => Err(ToolError::new("the service has stopped")),
            },
        }
    }

    /// Completes when the run must stop. Seldom needed: what a tool awaits stops by itself.
    pub async fn cancelled(&self) {
        self.0.cancel.cancelled().await;
    }

    /// Whether the run must stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// The service's id of the call.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.0.id
    }

    /// The caller's id of the call.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.0.call_id
    }

    /// The conversation that the call belongs to.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.0.session.as_deref()
    }

    /// The name that the tool was called by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The id of its conversation, to be kept.
    /// Whose the call is. What a tool keeps between calls it keeps for each tenant apart.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.0.tenant
    }

    pub(super) fn shared_session(&self) -> Option<&std::sync::Arc<str>> {
        self.0.session.as_ref()
    }

    /// The arguments as JSON.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        &self.0.arguments
    }

    /// The context object `name` as its type. The tool has to say that it needs it: [`DefinitionBuilder::context`](super::DefinitionBuilder::context).
    ///
    /// ```
    /// use serde_json::json;
    /// use toolpost::tool::{NoArgs, Run, async_tool_fn};
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
    /// use toolpost::domain::ToolOutput;
    ///
    /// let context = json!({"user": {"name": "Ada"}});
    /// assert_eq!(greet.invoke_with(json!({}), context).await, Ok(ToolOutput::Text("Hello, Ada!".into())));
    /// # });
    /// ```
    ///
    /// # Errors
    /// If there is none, or it is not of that type. The message names the object and where it does not fit, not its values.
    pub fn context<T: DeserializeOwned>(&self, name: &str) -> Result<T, ToolError> {
        let object = self.0.context.get(name);
        let object = object.ok_or_else(|| ToolError::new(format!("the context \"{name}\" is missing")))?;
        serde_path_to_error::deserialize(object).map_err(|error| {
            let path = error.path().to_string();
            let place = if path == "." { String::new() } else { format!(" at {path}") };
            ToolError::new(format!("the context \"{name}\" is not what the tool takes{place}"))
        })
    }

    /// On whose behalf the call is made, if the caller says so.
    #[must_use]
    pub fn agent(&self) -> Option<&Agent> {
        self.0.agent.as_deref()
    }

    /// Which attempt this is, counted from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// How long the run may take in all, in milliseconds.
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        self.0.timeout_ms
    }

    /// How much of its answer a model is shown.
    #[must_use]
    pub fn output_bounds(&self) -> Bounds {
        self.0.output
    }

    /// W3C Trace Context of the request, to be passed on.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.0.traceparent.as_deref()
    }
}

/// A JSON object from its fields: `object([("rows", 3)])`.
#[must_use]
pub fn object(fields: impl IntoIterator<Item = (impl Into<String>, impl Into<Value>)>) -> Map<String, Value> {
    fields.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

impl From<Vec<ContentBlock>> for Emission {
    fn from(content: Vec<ContentBlock>) -> Self {
        Self { content, details: Map::new() }
    }
}

impl From<ContentBlock> for Emission {
    fn from(block: ContentBlock) -> Self {
        vec![block].into()
    }
}

impl From<String> for Emission {
    fn from(text: String) -> Self {
        ContentBlock::Text(text).into()
    }
}

impl From<&str> for Emission {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}
