use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::tool::NoArgs;
use crate::tool::typed::tests::invocation;
use toolpost_core::domain::Time;

type Log = Arc<Mutex<Vec<String>>>;

/// A tool that returns its number.
struct NumberTool(usize);

impl Tool for NumberTool {
    const NAME: &'static str = "numbered";
    type Args = NoArgs;
    type Output = String;

    async fn call(&self, _: NoArgs, _: Run) -> Result<String, ToolError> {
        Ok(self.0.to_string())
    }
}

/// A factory with one instance per session and a log of its actions.
struct Numbers {
    log: Log,
    fault: &'static str,
}

impl ToolFactory for Numbers {
    type Tool = NumberTool;
    const SCOPE: InstanceScope = InstanceScope::Session;

    fn is_available(&self, session: &Session) -> bool {
        &*session.id != "stranger"
    }

    async fn create(&self, run: Run) -> Result<NumberTool, ToolError> {
        tokio::task::yield_now().await;
        let mut log = self.log.lock().unwrap();
        log.push(format!("made for {}", run.session().unwrap_or("no session")));
        Ok(NumberTool(log.iter().filter(|entry| entry.starts_with("made")).count()))
    }

    async fn dispose(&self, tool: NumberTool) -> Result<(), ToolError> {
        self.log.lock().unwrap().push(format!("disposed of {}", tool.0));
        match self.fault {
            "panic" => panic!("cannot be closed"),
            "hang" => std::future::pending().await,
            "error" => Err("it is stuck".into()),
            _ => Ok(()),
        }
    }
}

fn numbers(fault: &'static str) -> (Arc<dyn Executor>, Instances, Log) {
    let (log, instances) = (Log::default(), Instances::default());
    let tool = BuiltinTool::from_factory(Numbers { log: log.clone(), fault });
    let executor = tool.executor.for_entry(&instances).unwrap();
    (executor, instances, log)
}

async fn called(executor: &Arc<dyn Executor>, call: u128, session: Option<&str>) -> Value {
    let (mut invocation, _reports) = invocation(json!({}));
    (invocation.id, invocation.session) = (Uuid::from_u128(call), session.map(Arc::from));
    match executor.execute(invocation).await {
        Ok(ToolOutput::Text(text)) => text.into(),
        other => panic!("{other:?}"),
    }
}

fn entries(log: &Log) -> Vec<String> {
    log.lock().unwrap().clone()
}

#[tokio::test]
async fn concurrent_calls_of_a_session_share_one_instance() {
    let (executor, instances, log) = numbers("");
    let calls = (0..10).map(|call| called(&executor, call, Some("a")));
    assert_eq!(futures_util::future::join_all(calls).await, vec![Value::from("1"); 10]);
    assert_eq!(called(&executor, 10, Some("b")).await, "2");
    instances.release_session(&toolpost_core::domain::Tenant::default(), "a");
    instances.wait_disposed().await;
    assert_eq!(entries(&log), ["made for a", "made for b", "disposed of 1"]);
    assert_eq!(called(&executor, 11, Some("a")).await, "3");
    assert_eq!(called(&executor, 12, Some("b")).await, "2");
}

#[tokio::test]
async fn call_without_session_has_its_own_instance() {
    let (executor, instances, log) = numbers("");
    assert_eq!((called(&executor, 1, None).await, called(&executor, 1, None).await), ("1".into(), "1".into()));
    assert_eq!(called(&executor, 2, None).await, "2");
    executor.pool().unwrap().release_call(Uuid::from_u128(1));
    instances.wait_disposed().await;
    assert_eq!(entries(&log), ["made for no session", "made for no session", "disposed of 1"]);
}

#[tokio::test]
async fn failed_disposal_does_not_affect_others() {
    for fault in ["panic", "error"] {
        let (executor, instances, log) = numbers(fault);
        for session in ["a", "b"] {
            called(&executor, 1, Some(session)).await;
        }
        instances.close().await;
        assert_eq!(entries(&log).iter().filter(|entry| entry.starts_with("disposed")).count(), 2, "{fault}");
        assert_eq!(called(&executor, 2, Some("a")).await, "3", "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_disposal_times_out() {
    let (executor, instances, log) = numbers("hang");
    called(&executor, 1, Some("a")).await;
    instances.release_session(&toolpost_core::domain::Tenant::default(), "a");
    instances.wait_disposed().await;
    assert_eq!(entries(&log), ["made for a", "disposed of 1"]);
}

#[tokio::test(start_paused = true)]
async fn only_unused_session_instances_are_released_when_idle() {
    let (executor, instances, log) = numbers("");
    let minute = Duration::from_secs(60);
    called(&executor, 1, Some("a")).await;
    tokio::time::advance(minute).await;
    called(&executor, 2, Some("b")).await;
    instances.release_idle(minute);
    instances.wait_disposed().await;
    assert_eq!(entries(&log), ["made for a", "made for b", "disposed of 1"]);
}

#[tokio::test]
async fn replaced_tool_releases_its_instances() {
    let (executor, instances, log) = numbers("");
    called(&executor, 1, Some("a")).await;
    drop(executor);
    instances.wait_disposed().await;
    assert_eq!(entries(&log), ["made for a", "disposed of 1"]);
    assert!(instances.live().is_empty());
}

#[test]
fn factory_and_tool_both_restrict_availability() {
    let factory = Numbers { log: Log::default(), fault: "" };
    let tool = BuiltinTool::from_factory(factory).available_if(|session| session.parent.is_none());
    let is_available = tool.executor.is_available().unwrap();
    let session = |id: &str| Session::new(id.into(), Time(0));
    assert!(is_available(&session("a")));
    assert!(!is_available(&session("stranger")));
    assert!(!is_available(&Session { parent: Some("a".into()), ..session("b") }));
    let plain = crate::tool::tool_fn("t", "d", |_: NoArgs| Ok(()));
    assert!(plain.executor.is_available().is_none());
    assert!(plain.available_if(|_| true).executor.for_entry(&Instances::default()).is_none());
}
