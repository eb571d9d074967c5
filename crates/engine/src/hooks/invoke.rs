//! Invocation of one hook, within its timeout.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;

use super::Hooks;
use super::call::HookCall;
use super::counts::HookOutcome;
use super::hook::{Hook, HookFn, Target};
use super::response::{BeforeDecision, Rewrite};
use toolpost_core::domain::{Call, HookEvent, HookFault, HookFaultKind, json};
use toolpost_tool::executor::http::{WebhookAnswer, webhook_headers};
use toolpost_tool::executor::signing_key::SigningKey;

/// Maximum length of a recorded failure reason, in characters.
const MAX_REASON: usize = 500;

/// The kind and the reason of a hook failure.
type HookFailure = (HookFaultKind, String);

impl Hooks {
    /// Runs a before-hook.
    ///
    /// # Errors
    /// Returns a [`HookFault`] if the hook fails or times out.
    pub async fn before(&self, hook: &Hook, call: HookCall) -> Result<BeforeDecision, HookFault> {
        let decision = self.within(hook, async {
            match &hook.target {
                Target::Webhook { url, key } => {
                    read(self.post(url, key.as_ref(), call.body()).await?, BeforeDecision::read)
                }
                Target::Before(function) => invoke(function, call).await.map(BeforeDecision::bounded),
                _ => Ok(BeforeDecision::Continue),
            }
        });
        let decision = decision.await?;
        let is_blocked = matches!(decision, BeforeDecision::Block(_));
        self.count_ended(hook, if is_blocked { HookOutcome::Blocked } else { HookOutcome::Ok });
        Ok(decision)
    }

    /// Runs a persist hook of an ended call, and applies its rewrite to `image`. Returns `true` if anything changed.
    ///
    /// # Errors
    /// Returns a [`HookFault`] if the hook fails or times out. Nothing changes then.
    pub async fn persist(&self, hook: &Hook, image: &mut Call) -> Result<bool, HookFault> {
        let changed = match &hook.target {
            Target::Redact(redact) => Some(image.rewrite(|record| redact.apply(record))),
            Target::Truncate(truncate) => Some(image.rewrite(|record| truncate.apply(record))),
            _ => None,
        };
        if let Some(changed) = changed {
            self.count_invocation(hook);
            self.count_ended(hook, HookOutcome::Ok);
            return Ok(changed);
        }
        let call = HookCall::of(HookEvent::ToolResultPersist, image);
        let rewrite = self.within(hook, async {
            match &hook.target {
                Target::Webhook { url, key } => read(self.post(url, key.as_ref(), call.body()).await?, Rewrite::read),
                Target::Persist(function) => invoke(function, call).await,
                _ => Ok(Rewrite::default()),
            }
        });
        let rewrite = rewrite.await?;
        self.count_ended(hook, HookOutcome::Ok);
        let changes = !rewrite.is_empty();
        if changes {
            image.rewrite(|record| rewrite.apply(record));
        }
        Ok(changes)
    }

    /// Runs an after-hook. `body` is rendered once for all hooks of a call.
    pub(super) async fn after(&self, hook: &Hook, call: HookCall, body: Bytes) -> Result<(), HookFault> {
        self.within(hook, async {
            match &hook.target {
                Target::Webhook { url, key } => self.post(url, key.as_ref(), body).await.map(drop),
                Target::After(function) => invoke(function, call).await,
                _ => Ok(()),
            }
        })
        .await?;
        self.count_ended(hook, HookOutcome::Ok);
        Ok(())
    }

    async fn within<T>(&self, hook: &Hook, run: impl Future<Output = Result<T, HookFailure>>) -> Result<T, HookFault> {
        self.count_invocation(hook);
        let timeout_ms = hook.definition.timeout_ms;
        let result = tokio::time::timeout(Duration::from_millis(timeout_ms), run).await;
        let late = |_| Err((HookFaultKind::Timeout, format!("no answer within {timeout_ms} ms")));
        result.unwrap_or_else(late).map_err(|(kind, reason)| {
            self.count_ended(hook, outcome_of(kind));
            let reason = json::shorten(&reason, MAX_REASON);
            tracing::warn!(hook = hook.id, event = hook.event().as_str(), ?kind, reason, "a hook failed");
            HookFault { hook: hook.id.clone(), event: hook.event(), kind, reason }
        })
    }

    fn count_invocation(&self, hook: &Hook) {
        self.counts.count_invocation();
        hook.counts.count_invocation();
    }

    /// Counts the end of a run, and returns the number of runs on this node with the same event and outcome.
    pub(super) fn count_ended(&self, hook: &Hook, outcome: HookOutcome) -> u64 {
        hook.counts.count_ended(hook.event(), outcome);
        self.counts.count_ended(hook.event(), outcome)
    }

    async fn post(&self, url: &str, key: Option<&SigningKey>, body: Bytes) -> Result<WebhookAnswer, HookFailure> {
        let id = self.ids.next().to_string();
        let headers = webhook_headers(key.unwrap_or(&self.key), &id, self.clock.now(), &body);
        self.client.ask(url, headers, body).await.map_err(|reason| (HookFaultKind::Failed, reason))
    }
}

fn outcome_of(kind: HookFaultKind) -> HookOutcome {
    match kind {
        HookFaultKind::Timeout => HookOutcome::Timeout,
        HookFaultKind::Unreadable => HookOutcome::Unreadable,
        HookFaultKind::Failed => HookOutcome::Failed,
    }
}

fn read<T>(answer: WebhookAnswer, read: fn(&[u8]) -> Result<T, String>) -> Result<T, HookFailure> {
    let read = match answer {
        WebhookAnswer::Body(body) => read(&body),
        WebhookAnswer::Unreadable(reason) => Err(reason),
    };
    read.map_err(|reason| (HookFaultKind::Unreadable, reason))
}

/// Invokes a function. A panic is a failure of the hook, not of the call.
async fn invoke<T>(function: &HookFn<T>, call: HookCall) -> Result<T, HookFailure> {
    let result = AssertUnwindSafe(async { function(call).await }).catch_unwind().await;
    let panicked = |_| Err("it panicked".into());
    result.unwrap_or_else(panicked).map_err(|super::HookError(reason)| (HookFaultKind::Failed, reason))
}
