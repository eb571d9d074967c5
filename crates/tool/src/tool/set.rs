//! [`ToolSet`]: tools that run calls outside of a service, as in a worker program.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::call_data::start;
use super::{BuiltinTool, CallData, ToolRun};
use crate::executor::instances::Instances;
use toolpost_core::domain::ToolDefinition;

/// Tools that run calls without a service, for programs that receive calls from one, such as workers.
///
/// A tool behaves as in the process of the service: it checks its arguments, its errors and panics are failures, and a
/// [`ToolFactory`](super::ToolFactory) creates its instances per call, per session or once. Only
/// [`available_if`](BuiltinTool::available_if) has no effect, because the service decides which calls exist.
///
/// ```
/// use tokio_util::sync::CancellationToken;
/// use toolpost_core::domain::ToolOutput;
/// use toolpost_tool::tool::{CallData, NoArgs, Report, Run, ToolSet, async_tool_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let greet = async_tool_fn("greet", "Greets.", |_: NoArgs, run: Run| async move {
///     run.tip("thinking");
///     Ok("Hello!")
/// });
/// let tools = ToolSet::new([greet]);
/// let call = CallData { name: "greet".into(), ..CallData::default() };
/// let mut run = tools.run(call, CancellationToken::new()).expect("the set has this tool");
/// assert_eq!(run.output.await, Ok(ToolOutput::Text("Hello!".into())));
/// let Some(Report::Status(status)) = run.reports.try_next() else { panic!("one report") };
/// assert_eq!(status.tip.as_deref(), Some("thinking"));
/// tools.close().await;
/// # }
/// ```
#[derive(Debug)]
pub struct ToolSet {
    tools: Vec<BuiltinTool>,
    instances: Instances,
}

impl ToolSet {
    /// Creates a set of tools. Of two tools with one name, the first is used.
    pub fn new(tools: impl IntoIterator<Item = BuiltinTool>) -> Self {
        let instances = Instances::default();
        let with_instances = |tool: BuiltinTool| match tool.executor.for_entry(&instances) {
            Some(executor) => BuiltinTool { executor, ..tool },
            None => tool,
        };
        Self { tools: tools.into_iter().map(with_instances).collect(), instances }
    }

    /// Returns the definitions of the tools, in order.
    pub fn definitions(&self) -> impl Iterator<Item = &ToolDefinition> {
        self.tools.iter().map(|tool| &tool.definition)
    }

    /// Starts a run of the tool that the call names; `None` if the set does not have the tool.
    ///
    /// Fire `cancel` when the call ends before its work does, so that the threads of blocking tools stop. Then drop
    /// [`ToolRun::output`].
    #[must_use]
    pub fn run(&self, call: CallData, cancel: CancellationToken) -> Option<ToolRun> {
        let tool = self.tools.iter().find(|tool| tool.definition.name == call.name)?;
        Some(start(&*tool.executor, call, cancel))
    }

    /// Releases the instances of sessions that were idle for this time.
    pub fn release_idle(&self, idle: Duration) {
        self.instances.release_idle(idle);
    }

    /// Releases all instances and waits until they are disposed of, at most a few seconds for each scope.
    pub async fn close(&self) {
        self.instances.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::{Map, Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::tool::Report;
    use crate::tool::{InstanceScope, NoArgs, Run, Tool, ToolError, ToolFactory, async_tool_fn};
    use toolpost_core::domain::{Failure, ToolOutput};

    fn call(name: &str, session: &str) -> CallData {
        CallData { name: name.into(), id: Uuid::from_u128(7), session: Some(session.into()), ..CallData::default() }
    }

    async fn output_of(set: &ToolSet, call: CallData) -> Result<ToolOutput, Failure> {
        set.run(call, CancellationToken::new()).unwrap().output.await
    }

    #[tokio::test]
    async fn tool_reads_its_call_and_reports() {
        let tool = async_tool_fn("t", "Tests.", |_: NoArgs, run: Run| async move {
            run.keep_alive();
            run.tip("one");
            run.emit("content").await;
            let user: Value = run.context("user")?;
            Ok(json!([run.id(), run.call_id(), run.session(), run.attempt(), run.timeout_ms(), user]))
        });
        let set = ToolSet::new([tool]);
        let context = Map::from_iter([("user".to_owned(), json!(1))]);
        let call = CallData { call_id: "c".into(), attempt: 2, timeout_ms: 50, context, ..call("t", "s") };
        let mut run = set.run(call, CancellationToken::new()).unwrap();
        let expected = json!([Uuid::from_u128(7), "c", "s", 2, 50, 1]);
        assert_eq!(run.output.await, Ok(ToolOutput::Json(expected)));
        let Report::Status(status) = run.reports.next().await else { panic!("the status is first") };
        assert_eq!(status.tip.as_deref(), Some("one"));
        assert!(matches!(run.reports.next().await, Report::Emission(_)));
        assert_eq!(run.reports.try_next(), None);
        assert!(set.run(self::call("other", "s"), CancellationToken::new()).is_none());
    }

    struct Counter(AtomicU32, Arc<AtomicU32>);

    impl Tool for Counter {
        const NAME: &'static str = "count";
        type Args = NoArgs;
        type Output = u32;

        async fn call(&self, _: NoArgs, _: Run) -> Result<u32, ToolError> {
            Ok(self.0.fetch_add(1, Ordering::Relaxed) + 1)
        }
    }

    struct Counters(Arc<AtomicU32>);

    impl Counters {
        fn tool(disposed: &Arc<AtomicU32>) -> BuiltinTool {
            BuiltinTool::from_factory(Self(disposed.clone()))
        }
    }

    impl ToolFactory for Counters {
        type Tool = Counter;
        const SCOPE: InstanceScope = InstanceScope::Session;

        async fn create(&self, _: Run) -> Result<Counter, ToolError> {
            Ok(Counter(AtomicU32::new(0), self.0.clone()))
        }

        async fn dispose(&self, counter: Counter) -> Result<(), ToolError> {
            counter.1.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    #[tokio::test]
    async fn instances_last_as_long_as_their_sessions() {
        let disposed = Arc::default();
        let set = ToolSet::new([Counters::tool(&disposed)]);
        for (session, count) in [("a", 1), ("a", 2), ("b", 1), ("a", 3)] {
            assert_eq!(output_of(&set, call("count", session)).await, Ok(ToolOutput::Json(json!(count))));
        }
        set.close().await;
        assert_eq!(disposed.load(Ordering::Relaxed), 2);
    }
}
