//! Hooks written in Rust, by users of the library.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::call::HookCall;
use super::hook::{Hook, HookSource};
use super::response::{BeforeDecision, Rewrite};
use super::target::{HookError, HookFn, Target};
use crate::domain::{FailurePolicy, HookDefinition, HookEvent, Time};

/// Is asked before a tool runs.
pub trait BeforeToolCall: Send + Sync + 'static {
    /// Lets the call go on, changes its arguments, or blocks it.
    ///
    /// # Errors
    /// If it cannot say; what follows is a matter of its failure policy.
    fn before_tool_call(&self, call: HookCall) -> impl Future<Output = Result<BeforeDecision, HookError>> + Send;
}

/// Is told of ends. Nobody waits for it.
pub trait AfterToolCall: Send + Sync + 'static {
    /// Sees a call that has ended, well or badly.
    ///
    /// # Errors
    /// If it failed, which is counted and logged.
    fn after_tool_call(&self, call: HookCall) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// Is asked before an end is stored.
pub trait ToolResultPersist: Send + Sync + 'static {
    /// Says what is to be stored instead. The caller's own answer stays as it is.
    ///
    /// # Errors
    /// If it cannot say; what follows is a matter of its failure policy.
    fn tool_result_persist(&self, call: HookCall) -> impl Future<Output = Result<Rewrite, HookError>> + Send;
}

/// A hook in this process, ready to be registered with [`crate::app::Builder::hook`].
#[derive(Clone)]
pub struct RustHook {
    definition: HookDefinition,
    target: Target,
}

impl fmt::Debug for RustHook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RustHook").field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl RustHook {
    /// One that is asked before tools run.
    pub fn before(hook: impl BeforeToolCall) -> Self {
        let hook = Arc::new(hook);
        let asked: HookFn<BeforeDecision> = Arc::new(move |call| {
            let hook = hook.clone();
            Box::pin(async move { hook.before_tool_call(call).await })
        });
        Self { definition: HookDefinition::of(HookEvent::BeforeToolCall), target: Target::Before(asked) }
    }

    /// One that is told of ends.
    pub fn after(hook: impl AfterToolCall) -> Self {
        let hook = Arc::new(hook);
        let asked: HookFn<()> = Arc::new(move |call| {
            let hook = hook.clone();
            Box::pin(async move { hook.after_tool_call(call).await })
        });
        Self { definition: HookDefinition::of(HookEvent::AfterToolCall), target: Target::After(asked) }
    }

    /// One that is asked before ends are stored.
    pub fn persist(hook: impl ToolResultPersist) -> Self {
        let hook = Arc::new(hook);
        let asked: HookFn<Rewrite> = Arc::new(move |call| {
            let hook = hook.clone();
            Box::pin(async move { hook.tool_result_persist(call).await })
        });
        Self { definition: HookDefinition::of(HookEvent::ToolResultPersist), target: Target::Persist(asked) }
    }

    /// Only about tools whose names fit one of these globs.
    #[must_use]
    pub fn tools<T: Into<String>>(mut self, globs: impl IntoIterator<Item = T>) -> Self {
        self.definition.matches.tools = globs.into_iter().map(Into::into).collect();
        self
    }

    /// Only about tools of one of these groups.
    #[must_use]
    pub fn groups<T: Into<String>>(mut self, groups: impl IntoIterator<Item = T>) -> Self {
        self.definition.matches.groups = groups.into_iter().map(Into::into).collect();
        self
    }

    /// Higher ones are asked first.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.definition.priority = priority;
        self
    }

    /// How long it may take.
    #[must_use]
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.definition.timeout_ms = timeout_ms;
        self
    }

    /// What its failure means for the call.
    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.definition.failure_policy = policy;
        self
    }

    pub(super) fn register(self, id: Arc<str>, now: Time) -> Result<Hook, Vec<(String, String)>> {
        Hook::new(id, self.definition, self.target, HookSource::Rust, now)
    }
}
