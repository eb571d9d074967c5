//! [`BuiltinTool`]: a definition, a typed executor and optional validation.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::call_data::start;
use super::error::{panic_message, read};
use super::{CallData, DefinitionBuilder, IntoToolOutput, InvalidArgument, Run, Tool, ToolError, ToolRun};
use crate::executor::{BoxFuture, Executor, Invocation};
use toolpost_core::domain::{Failure, ToolDefinition, ToolOutput};

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
        let definition = tool.definition(DefinitionBuilder::of::<T::Args>(T::NAME));
        Self::with_executor(definition, tool)
    }

    fn with_executor<T: Tool>(definition: DefinitionBuilder, tool: T) -> Self {
        let definition = definition.into_definition();
        let executor = Arc::new(TypedExecutor { tool, schema: definition.input_schema.clone() });
        let validator = executor.clone();
        let validate = move |arguments: &Value| {
            catch_unwind(AssertUnwindSafe(|| validator.check(arguments).map(drop))).unwrap_or_else(|payload| {
                let message = format!("the check of the arguments panicked: {}", panic_message(&*payload));
                Err(vec![InvalidArgument::at("", message)])
            })
        };
        Self { definition, executor: Arc::new(executor), validate: Some(Arc::new(validate)) }
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
            Value::Object(objects) => objects,
            _ => Map::new(),
        };
        let name = self.definition.name.clone();
        let call = CallData { call_id: "try_out".into(), name, arguments, context, ..CallData::default() };
        let ToolRun { output, reports } = start(&*self.executor, call, CancellationToken::new());
        // Without a receiver, a tool that emits much does not wait.
        drop(reports);
        output.await
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
    let definition = DefinitionBuilder::of::<A>(name).description(description);
    BuiltinTool::with_executor(definition, FunctionTool { function, args: PhantomData })
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

/// A tool that is a function.
struct FunctionTool<A, F> {
    function: F,
    args: PhantomData<fn() -> A>,
}

impl<A, O, R, F> Tool for FunctionTool<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: IntoToolOutput,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
    F: Fn(A, Run) -> R + Send + Sync + 'static,
{
    // The name is in the definition.
    const NAME: &'static str = "";
    type Args = A;
    type Output = O;

    fn call(&self, args: A, run: Run) -> impl Future<Output = Result<O, ToolError>> + Send {
        (self.function)(args, run)
    }
}

/// The executor of a [`Tool`].
struct TypedExecutor<T> {
    tool: T,
    schema: Value,
}

impl<T: Tool> TypedExecutor<T> {
    /// Deserializes the arguments and applies the tool's own validation.
    fn check(&self, arguments: &Value) -> Result<T::Args, Vec<InvalidArgument>> {
        let args = read(arguments)?;
        self.tool.validate(&args)?;
        Ok(args)
    }
}

impl<T: Tool> Executor for Arc<TypedExecutor<T>> {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let typed = self.clone();
        Box::pin(async move {
            let name = invocation.name.clone();
            let work = async {
                let args = typed.check(&invocation.arguments).map_err(|invalid| {
                    InvalidArgument::failure(&invalid, &name, &invocation.arguments, &typed.schema)
                })?;
                let result = typed.tool.call(args, Run::new(invocation)).await;
                result.and_then(T::Output::into_answer).map_err(|error| error.into_failure(&name))
            };
            catch_panic(&name, work).await
        })
    }
}

/// Runs the code of a tool. A panic fails only this call.
pub(super) async fn catch_panic(
    name: &str,
    work: impl Future<Output = Result<ToolOutput, Failure>>,
) -> Result<ToolOutput, Failure> {
    // A panic leaves no state of the service inconsistent, hence `AssertUnwindSafe`. A tool must keep its own shared
    // state consistent, as with any panic.
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(output) => output,
        Err(payload) => Err(Failure::execution(name, format!("the tool panicked: {}", panic_message(&*payload)))),
    }
}

#[cfg(test)]
pub(super) mod tests;
