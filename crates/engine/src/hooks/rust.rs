//! Hooks written in Rust by users of the library.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::call::HookCall;
use super::hook::{Hook, HookError, HookFn, HookSource, Target};
use super::response::{BeforeDecision, Rewrite};
use toolpost_core::domain::{FailurePolicy, HookDefinition, HookEvent, Time};

/// A hook that runs before a tool.
pub trait BeforeToolCall: Send + Sync + 'static {
    /// Continues the call, changes its arguments, or blocks it.
    ///
    /// # Errors
    /// Returns a [`HookError`] if the hook cannot decide. Its failure policy determines whether the call runs.
    fn before_tool_call(&self, call: HookCall) -> impl Future<Output = Result<BeforeDecision, HookError>> + Send;
}

/// A hook that runs after a call has ended. It is detached: the call does not wait for it.
pub trait AfterToolCall: Send + Sync + 'static {
    /// Receives a call that has ended, with a result or a failure.
    ///
    /// # Errors
    /// Returns a [`HookError`] if the hook failed. The failure is counted and logged.
    fn after_tool_call(&self, call: HookCall) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// A hook that runs before the outcome of a call is stored.
pub trait ToolResultPersist: Send + Sync + 'static {
    /// Returns the changes to the stored outcome. The response to the caller is not affected.
    ///
    /// # Errors
    /// Returns a [`HookError`] if the hook cannot decide. Its failure policy determines whether the result is stored.
    fn tool_result_persist(&self, call: HookCall) -> impl Future<Output = Result<Rewrite, HookError>> + Send;
}

/// A hook in this process, ready to be registered with `Builder::hook` of the crate `toolpost`.
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

/// Returns the function that runs a hook.
fn function<H: Send + Sync + 'static, T, R: Future<Output = Result<T, HookError>> + Send + 'static>(
    hook: H,
    run: impl Fn(Arc<H>, HookCall) -> R + Send + Sync + 'static,
) -> HookFn<T> {
    let hook = Arc::new(hook);
    Arc::new(move |call| Box::pin(run(hook.clone(), call)))
}

impl RustHook {
    /// Creates a hook that runs before tools.
    pub fn before(hook: impl BeforeToolCall) -> Self {
        let function = function(hook, |hook, call| async move { hook.before_tool_call(call).await });
        Self { definition: HookDefinition::of(HookEvent::BeforeToolCall), target: Target::Before(function) }
    }

    /// Creates a hook that runs after calls have ended.
    pub fn after(hook: impl AfterToolCall) -> Self {
        let function = function(hook, |hook, call| async move { hook.after_tool_call(call).await });
        Self { definition: HookDefinition::of(HookEvent::AfterToolCall), target: Target::After(function) }
    }

    /// Creates a hook that runs before outcomes are stored.
    pub fn persist(hook: impl ToolResultPersist) -> Self {
        let function = function(hook, |hook, call| async move { hook.tool_result_persist(call).await });
        Self { definition: HookDefinition::of(HookEvent::ToolResultPersist), target: Target::Persist(function) }
    }

    /// Restricts the hook to tools whose names match one of these globs.
    #[must_use]
    pub fn tools<T: Into<String>>(mut self, globs: impl IntoIterator<Item = T>) -> Self {
        self.definition.matches.tools = globs.into_iter().map(Into::into).collect();
        self
    }

    /// Restricts the hook to tools of one of these groups.
    #[must_use]
    pub fn groups<T: Into<String>>(mut self, groups: impl IntoIterator<Item = T>) -> Self {
        self.definition.matches.groups = groups.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the priority. Hooks with higher values run first.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.definition.priority = priority;
        self
    }

    /// Sets the timeout, in milliseconds.
    #[must_use]
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.definition.timeout_ms = timeout_ms;
        self
    }

    /// Sets the effect of a failure of the hook on the call.
    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.definition.failure_policy = policy;
        self
    }

    pub(super) fn register(self, id: String, now: Time) -> Result<Hook, Vec<(String, String)>> {
        Hook::new(id, self.definition, self.target, HookSource::Rust, now)
    }
}
