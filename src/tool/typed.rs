//! [`BuiltinTool`]: a definition, a typed executor and optional validation.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::error::{panic_message, read};
use super::{DefinitionBuilder, IntoToolOutput, InvalidArgument, Run, Tool, ToolError};
use crate::domain::{Failure, ToolDefinition, ToolOutput};
use crate::executor::{BoxFuture, Executor, Invocation, ResultSlot, emitter};

/// A function that checks arguments that the schema allows.
pub type Validate = Arc<dyn Fn(&Value) -> Result<(), Vec<InvalidArgument>> + Send + Sync>;

/// A tool in this process, ready for registration.
#[derive(Clone)]
pub struct BuiltinTool {
    /// The definition of the tool.
    pub definition: ToolDefinition,
    /// The code that runs the tool.
    pub executor: Arc<dyn Executor>,
    /// Validation before the run. The executor repeats it, so no path to the tool bypasses it.
    pub validate: Option<Validate>,
}

impl fmt::Debug for BuiltinTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BuiltinTool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl BuiltinTool {
    /// Creates a built-in tool from a [`Tool`].
    pub fn new<T: Tool>(tool: T) -> Self {
        let about = tool.definition(DefinitionBuilder::of::<T::Args>(T::NAME));
        let tool = Arc::new(tool);
        let validator = tool.clone();
        Self::typed(
            about,
            move |args| validator.validate(args),
            move |args, run| {
                let tool = tool.clone();
                async move { tool.call(args, run).await }
            },
        )
    }

    /// Changes the definition of a tool created from a function:
    /// `tool.with_definition(|definition| definition.read_only())`.
    #[must_use]
    pub fn with_definition(self, change: impl FnOnce(DefinitionBuilder) -> DefinitionBuilder) -> Self {
        Self { definition: change(self.definition.into()).into_definition(), ..self }
    }

    /// Runs the tool once without a service, for the tests of a tool. The schema is not checked, reports are discarded,
    /// and no timeout applies.
    ///
    /// # Errors
    /// Returns the failure of the call.
    pub async fn invoke(&self, arguments: Value) -> Result<ToolOutput, Failure> {
        self.invoke_with(arguments, Value::Null).await
    }

    /// Runs the tool like [`BuiltinTool::invoke`], with context objects by name.
    ///
    /// # Errors
    /// Returns the failure of the call.
    pub async fn invoke_with(&self, arguments: Value, context: Value) -> Result<ToolOutput, Failure> {
        let context = match context {
            Value::Object(objects) => Arc::new(objects),
            _ => Arc::default(),
        };
        let (emitter, _) = emitter::channel();
        let invocation = Invocation {
            id: Uuid::nil(),
            tenant: crate::domain::Tenant::default(),
            allowed: None,
            call_id: "try_out".into(),
            name: self.definition.name.as_str().into(),
            naming: crate::domain::Naming::default(),
            arguments: Arc::new(arguments),
            context,
            agent: None,
            redaction: None,
            session: None,
            session_snapshot: None,
            attempt: 1,
            idle_timeout_ms: None,
            elapsed_ms: 0,
            awaits_external: false,
            result_slot: ResultSlot::default(),
            output: crate::domain::limits::Bounds::default(),
            timeout_ms: u64::MAX,
            traceparent: None,
            emitter,
            cancel: CancellationToken::new(),
        };
        let answer = self.executor.execute(invocation).await;
        if let Some(pool) = self.executor.pool() {
            pool.release_call(Uuid::nil());
        }
        answer
    }

    fn typed<A, V, F, R, O>(about: DefinitionBuilder, validate: V, call: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        V: Fn(&A) -> Result<(), Vec<InvalidArgument>> + Send + Sync + 'static,
        F: Fn(A, Run) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, ToolError>> + Send + 'static,
        O: IntoToolOutput,
    {
        let definition = about.into_definition();
        let schema = definition.input_schema.clone();
        let typed = Arc::new(Typed { schema, validate, call, args: PhantomData::<fn() -> A> });
        let validator = typed.clone();
        Self {
            definition,
            executor: Arc::new(Shared(typed)),
            validate: Some(Arc::new(move |arguments| {
                catch_unwind(AssertUnwindSafe(|| validator.check(arguments).map(drop))).unwrap_or_else(|payload| {
                    let message = format!("the check of the arguments panicked: {}", panic_message(&*payload));
                    Err(vec![InvalidArgument::at("", message)])
                })
            })),
        }
    }
}

/// Creates a tool from a quick function, which runs on the async thread: `|args: Sum| Ok(args.a + args.b)`.
pub fn tool_fn<A, O>(
    name: &str,
    description: &str,
    function: impl Fn(A) -> Result<O, ToolError> + Send + Sync + 'static,
) -> BuiltinTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: IntoToolOutput,
{
    async_tool_fn(name, description, move |args, _| std::future::ready(function(args)))
}

/// Creates a tool from an async function: `|args: Page, run| async move { … }`.
pub fn async_tool_fn<A, O, R>(
    name: &str,
    description: &str,
    function: impl Fn(A, Run) -> R + Send + Sync + 'static,
) -> BuiltinTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: IntoToolOutput,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    BuiltinTool::typed(DefinitionBuilder::of::<A>(name).description(description), |_| Ok(()), function)
}

/// Creates a tool from a blocking function, which gets a thread of its own (see [`Run::blocking`]).
pub fn blocking_tool_fn<A, O>(
    name: &str,
    description: &str,
    function: impl Fn(A, Run) -> Result<O, ToolError> + Send + Sync + 'static,
) -> BuiltinTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: IntoToolOutput,
{
    let function = Arc::new(function);
    async_tool_fn(name, description, move |args, run: Run| {
        let function = function.clone();
        async move { run.blocking(move |run| function(args, run)).await }
    })
}

struct Typed<A, V, F> {
    schema: Value,
    validate: V,
    call: F,
    args: PhantomData<fn() -> A>,
}

impl<A, V, F> Typed<A, V, F>
where
    A: DeserializeOwned,
    V: Fn(&A) -> Result<(), Vec<InvalidArgument>>,
{
    /// Deserializes the arguments and applies the tool's own validation.
    fn check(&self, arguments: &Value) -> Result<A, Vec<InvalidArgument>> {
        let args = read(arguments)?;
        (self.validate)(&args)?;
        Ok(args)
    }
}

struct Shared<A, V, F>(Arc<Typed<A, V, F>>);

impl<A, V, F, R, O> Executor for Shared<A, V, F>
where
    A: DeserializeOwned + Send + 'static,
    V: Fn(&A) -> Result<(), Vec<InvalidArgument>> + Send + Sync + 'static,
    F: Fn(A, Run) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
    O: IntoToolOutput,
{
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let typed = self.0.clone();
        Box::pin(async move {
            let name = invocation.name.clone();
            let work = async {
                let args = typed.check(&invocation.arguments).map_err(|invalid| {
                    InvalidArgument::failure(&invalid, &name, &invocation.arguments, &typed.schema)
                })?;
                let result = (typed.call)(args, Run::new(invocation)).await;
                result.and_then(O::into_answer).map_err(|error| error.into_failure(&name))
            };
            // A panic fails only this call. It leaves no state of the service inconsistent, hence `AssertUnwindSafe`. A
            // tool must keep its own shared state consistent, as with any panic.
            match AssertUnwindSafe(work).catch_unwind().await {
                Ok(result) => result,
                Err(payload) => {
                    Err(Failure::execution(&name, format!("the tool panicked: {}", panic_message(&*payload))))
                }
            }
        })
    }
}

#[cfg(test)]
pub(in crate::tool) mod tests;
