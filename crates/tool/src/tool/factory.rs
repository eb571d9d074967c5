//! Tools with instances: a [`ToolFactory`] creates an instance per call, per session or per tenant.

use std::future::{Future, ready};
use std::sync::Arc;

use serde_json::Value;

use super::error::read;
use super::typed::catch_panic;
use super::{BuiltinTool, DefinitionBuilder, IntoToolOutput, InvalidArgument, Run, Tool, ToolError};
use crate::executor::instances::{InstanceScope, Instances, Pool};
use crate::executor::{Available, BoxFuture, Executor, Invocation};
use toolpost_core::domain::{Failure, Session, ToolOutput};

mod pool;

use pool::InstancePool;

/// A factory that creates tool instances per call, per session or per tenant.
///
/// An instance is created when the first call of its scope runs, from that call's [`Run`], which names the tenant, the
/// session and the agent. Concurrent calls of one scope share one creation. If it fails, the call fails, and the next
/// call tries again. All attempts of a call use one instance, which is not created before the arguments are complete.
///
/// An instance is disposed of when its scope has ended and no call uses it any longer. The scope of a call ends with the
/// call; the scope of a session ends when the session is deleted or idle (`instances.idle_ms`). All instances are
/// disposed of when the tool is replaced or the service stops.
///
/// ```
/// use toolpost_tool::tool::{BuiltinTool, NoArgs, Run, InstanceScope, Tool, ToolError, ToolFactory};
///
/// /// The basket of one session.
/// struct Basket {
///     owner: String,
///     items: std::sync::atomic::AtomicU32,
/// }
///
/// impl Tool for Basket {
///     const NAME: &'static str = "add_to_basket";
///     type Args = NoArgs;
///     type Output = String;
///
///     async fn call(&self, _: NoArgs, _: Run) -> Result<String, ToolError> {
///         let items = self.items.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
///         Ok(format!("{}: {items}", self.owner))
///     }
/// }
///
/// struct Baskets;
///
/// impl ToolFactory for Baskets {
///     type Tool = Basket;
///     const SCOPE: InstanceScope = InstanceScope::Session;
///
///     async fn create(&self, run: Run) -> Result<Basket, ToolError> {
///         let owner = run.session().ok_or("a basket needs a session")?.to_owned();
///         Ok(Basket { owner, items: 0.into() })
///     }
///
///     async fn dispose(&self, basket: Basket) -> Result<(), ToolError> {
///         println!("{} leaves {:?} items", basket.owner, basket.items);
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let basket = BuiltinTool::from_factory(Baskets);
/// let failure = basket.invoke(serde_json::json!({})).await.unwrap_err();
/// assert_eq!(failure.message, "a basket needs a session");
/// # }
/// ```
pub trait ToolFactory: Send + Sync + 'static {
    /// The tool that the factory creates.
    type Tool: Tool;

    /// Lifetime of an instance, and the calls that share it.
    const SCOPE: InstanceScope = InstanceScope::Call;

    /// Completes the definition. It replaces [`Tool::definition`], which needs an instance.
    fn definition(&self, definition: DefinitionBuilder) -> DefinitionBuilder {
        definition
    }

    /// Returns `true` if the tool is available in a session. It runs for every list and call of a session, and must be
    /// quick.
    fn is_available(&self, session: &Session) -> bool {
        let _ = session;
        true
    }

    /// Creates an instance for the running call. A shared instance must not depend on which call created it.
    ///
    /// # Errors
    /// An error or a panic ends the call with `TOOL_EXECUTION_ERROR`.
    fn create(&self, run: Run) -> impl Future<Output = Result<Self::Tool, ToolError>> + Send;

    /// Releases the resources of an instance, within 10 s.
    ///
    /// # Errors
    /// An error or a panic is logged and has no other effect.
    fn dispose(&self, tool: Self::Tool) -> impl Future<Output = Result<(), ToolError>> + Send {
        drop(tool);
        ready(Ok(()))
    }
}

impl BuiltinTool {
    /// Creates a tool from a [`ToolFactory`].
    pub fn from_factory<F: ToolFactory>(factory: F) -> Self {
        let definition = DefinitionBuilder::of::<Args<F>>(<F::Tool as Tool>::NAME);
        let definition = factory.definition(definition).into_definition();
        let schema = definition.input_schema.clone().into();
        let executor = FactoryExecutor::new(Arc::new(factory), schema, Instances::default());
        // The tool's own validation needs an instance. Before a run, only the type of the arguments is checked.
        let validate = |arguments: &Value| read::<Args<F>>(arguments).map(drop);
        Self { definition, executor: Arc::new(executor), validate: Some(Arc::new(validate)) }
    }

    /// Hides the tool from the lists and calls of sessions for which `is_available` returns `false`.
    #[must_use]
    pub fn available_if(self, is_available: impl Fn(&Session) -> bool + Send + Sync + 'static) -> Self {
        let executor = AvailabilityFilter { inner: self.executor, is_available: Arc::new(is_available) };
        Self { executor: Arc::new(executor), ..self }
    }
}

type Args<F> = <<F as ToolFactory>::Tool as Tool>::Args;

/// The executor of a tool with a factory.
struct FactoryExecutor<F: ToolFactory> {
    pool: Arc<InstancePool<F>>,
    schema: Arc<Value>,
}

impl<F: ToolFactory> FactoryExecutor<F> {
    fn new(factory: Arc<F>, schema: Arc<Value>, instances: Instances) -> Self {
        let pool = Arc::new(InstancePool::new(factory, instances.clone()));
        instances.register(&(pool.clone() as Arc<dyn Pool>));
        Self { pool, schema }
    }
}

impl<F: ToolFactory> Executor for FactoryExecutor<F> {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let (pool, schema) = (self.pool.clone(), self.schema.clone());
        Box::pin(async move {
            let (name, arguments) = (invocation.name.clone(), invocation.arguments.clone());
            let invalid =
                |invalid: Vec<InvalidArgument>| InvalidArgument::failure(&invalid, &name, &arguments, &schema);
            let failed = |error: ToolError| error.into_failure(&name);
            let work = async {
                let args = read::<Args<F>>(&arguments).map_err(invalid)?;
                let run = Run::new(invocation);
                let instance = pool.get(&run).await.map_err(failed)?;
                instance.tool().validate(&args).map_err(invalid)?;
                instance.tool().call(args, run).await.and_then(IntoToolOutput::into_answer).map_err(failed)
            };
            catch_panic(&name, work).await
        })
    }

    fn for_entry(&self, instances: &Instances) -> Option<Arc<dyn Executor>> {
        Some(Arc::new(Self::new(self.pool.factory.clone(), self.schema.clone(), instances.clone())))
    }

    fn pool(&self) -> Option<Arc<dyn Pool>> {
        Some(self.pool.clone())
    }

    fn is_available(&self) -> Option<Available> {
        let factory = self.pool.factory.clone();
        Some(Arc::new(move |session| factory.is_available(session)))
    }
}

/// An executor that restricts its tool to some sessions.
struct AvailabilityFilter {
    inner: Arc<dyn Executor>,
    is_available: Available,
}

impl Executor for AvailabilityFilter {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        self.inner.execute(invocation)
    }

    fn role(&self) -> Option<crate::executor::ToolRole> {
        self.inner.role()
    }

    fn for_entry(&self, instances: &Instances) -> Option<Arc<dyn Executor>> {
        let inner = self.inner.for_entry(instances)?;
        Some(Arc::new(Self { inner, is_available: self.is_available.clone() }))
    }

    fn pool(&self) -> Option<Arc<dyn Pool>> {
        self.inner.pool()
    }

    fn is_available(&self) -> Option<Available> {
        let (inner, own) = (self.inner.is_available(), self.is_available.clone());
        Some(Arc::new(move |session| own(session) && inner.as_ref().is_none_or(|inner| inner(session))))
    }
}

#[cfg(test)]
mod tests;
