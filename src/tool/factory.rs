//! Tools that are made for whom they work: a [`ToolFactory`] makes an instance for a call, a session, or for all.

use std::any::Any;
use std::future::{Future, ready};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::error::{panic_message, read};
use super::{BuiltinTool, DefinitionBuilder, IntoToolOutput, InvalidArgument, Run, Tool, ToolError};
use crate::domain::{Failure, Session, ToolOutput};
use crate::executor::instances::{InstanceScope, Instances, Pool};
use crate::executor::{Available, BoxFuture, Executor, Invocation};

mod pool;

use pool::{InstanceHandle, InstancePool};

/// How long one disposal may take.
const DISPOSAL: Duration = Duration::from_secs(10);

/// Makes instances of a tool.
///
/// An instance is made when the first call of its scope runs, with that call's [`Run`], from which it learns for whom it
/// works. However many calls of one scope come at once, one instance is made for all of them; if making it fails, that call
/// fails, and the next one tries again. A call has one instance for all of its attempts, and nothing is made while its
/// arguments still come.
///
/// At the end of its scope, when the last call that uses it has ended, an instance is disposed of: a call's own after the
/// call, a session's when the session is deleted or did nothing for long (`instances.idle_ms`), any of them when the tool is
/// replaced and when the service stops.
///
/// ```
/// use toolpost::tool::{BuiltinTool, NoArgs, Run, InstanceScope, Tool, ToolError, ToolFactory};
///
/// /// A basket that its session fills.
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
///     async fn make(&self, run: Run) -> Result<Basket, ToolError> {
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
    /// What it makes.
    type Tool: Tool;

    /// How long an instance lasts, and who shares it.
    const SCOPE: InstanceScope = InstanceScope::Call;

    /// Says more about the tool, as [`Tool::about`], which is not asked: there is no instance yet.
    fn about(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
    }

    /// Whether a session has the tool at all. It is asked for every list and call of a session, and must be quick.
    fn is_available(&self, session: &Session) -> bool {
        let _ = session;
        true
    }

    /// Makes an instance for the call that runs. What is shared must not depend on whose call happens to be the first.
    ///
    /// # Errors
    /// The call ends `TOOL_EXECUTION_ERROR` with the error's message; so it does after a panic.
    fn make(&self, run: Run) -> impl Future<Output = Result<Self::Tool, ToolError>> + Send;

    /// Lets an instance close what it has opened. It is bounded to 10 s.
    ///
    /// # Errors
    /// An error, or a panic, goes to the log and has no other consequence.
    fn dispose(&self, tool: Self::Tool) -> impl Future<Output = Result<(), ToolError>> + Send {
        drop(tool);
        ready(Ok(()))
    }
}

impl BuiltinTool {
    /// From a [`ToolFactory`].
    pub fn from_factory<F: ToolFactory>(factory: F) -> Self {
        let about = DefinitionBuilder::of::<<F::Tool as Tool>::Args>(<F::Tool as Tool>::NAME);
        let definition = factory.about(about).into_definition();
        let schema = definition.input_schema.clone().into();
        let executor = FactoryExecutor::new(Arc::new(factory), schema, Instances::default());
        // The instance's own validation needs an instance; until then the type of the arguments has to do.
        let validate = |arguments: &serde_json::Value| read::<<F::Tool as Tool>::Args>(arguments).map(drop);
        Self { definition, executor: Arc::new(executor), validate: Some(Arc::new(validate)) }
    }

    /// Hides the tool from sessions for which `is_available` is false: from their lists, and from their calls.
    #[must_use]
    pub fn available_if(self, is_available: impl Fn(&Session) -> bool + Send + Sync + 'static) -> Self {
        let executor = AvailabilityFilter { inner: self.executor, is_available: Arc::new(is_available) };
        Self { executor: Arc::new(executor), ..self }
    }
}

/// The executor of a tool that is made by a factory.
struct FactoryExecutor<F: ToolFactory> {
    factory: Arc<F>,
    schema: Arc<serde_json::Value>,
    kept: Arc<InstancePool<F>>,
}

impl<F: ToolFactory> FactoryExecutor<F> {
    fn new(factory: Arc<F>, schema: Arc<serde_json::Value>, instances: Instances) -> Self {
        let kept = Arc::new(InstancePool::new(factory.clone(), instances.clone()));
        instances.register(&(kept.clone() as Arc<dyn Pool>));
        Self { factory, schema, kept }
    }
}

impl<F: ToolFactory> Executor for FactoryExecutor<F> {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, Failure>> {
        let (kept, schema) = (self.kept.clone(), self.schema.clone());
        Box::pin(async move {
            let name = invocation.name.clone();
            let work = async {
                let args = read::<<F::Tool as Tool>::Args>(&invocation.arguments);
                let refused = |invalid: Vec<InvalidArgument>| {
                    InvalidArgument::failure(&invalid, &name, &invocation.arguments, &schema)
                };
                let args = args.map_err(refused)?;
                let run = Run::new(invocation.clone());
                let failed = |error: ToolError| error.into_failure(&name);
                let held: Arc<InstanceHandle<F>> = kept.get(&run).await.map_err(failed)?;
                held.tool().validate(&args).map_err(refused)?;
                held.tool().call(args, run).await.and_then(IntoToolOutput::into_answer).map_err(failed)
            };
            match AssertUnwindSafe(work).catch_unwind().await {
                Ok(result) => result,
                Err(payload) => {
                    Err(Failure::execution(&name, format!("the tool panicked: {}", panic_message(&*payload))))
                }
            }
        })
    }

    fn for_entry(&self, instances: &Instances) -> Option<Arc<dyn Executor>> {
        Some(Arc::new(Self::new(self.factory.clone(), self.schema.clone(), instances.clone())))
    }

    fn pool(&self) -> Option<Arc<dyn Pool>> {
        Some(self.kept.clone())
    }

    fn is_available(&self) -> Option<Available> {
        let factory = self.factory.clone();
        Some(Arc::new(move |session| factory.is_available(session)))
    }
}

/// An executor with a say in who has its tool.
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

/// What came of a disposal, for the log.
async fn disposal<F: ToolFactory>(factory: Arc<F>, tool: F::Tool) {
    let name = <F::Tool as Tool>::NAME;
    let done = AssertUnwindSafe(async { factory.dispose(tool).await }).catch_unwind();
    let panicked = |payload: Box<dyn Any + Send>| format!("it panicked: {}", panic_message(&*payload));
    let fault = match tokio::time::timeout(DISPOSAL, done).await {
        Ok(Ok(Ok(()))) => return,
        Ok(Ok(Err(error))) => error.message().to_owned(),
        Ok(Err(payload)) => panicked(payload),
        Err(_) => format!("it took longer than {} s", DISPOSAL.as_secs()),
    };
    tracing::warn!(tool = name, fault, "an instance of a tool was not disposed of as it should have been");
}

#[cfg(test)]
mod tests;
