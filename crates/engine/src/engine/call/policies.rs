//! The policies for a call, a part of step 3. They see the arguments that would run.

use serde_json::Value;

use super::run::CallRun;
use super::state::Requirement;
use crate::policies::{Input, Policies, Verdict, decide};
use crate::registry::Entry;
use toolpost_core::domain::call::POLICY;
use toolpost_core::domain::policy::PolicyEffect;
use toolpost_core::domain::{Clock, Failure, RequiredBy};

/// Evaluates the policies for calls.
#[derive(Clone, Copy)]
pub(super) struct PolicyCheck<'a> {
    pub policies: &'a Policies,
    pub clock: &'a Clock,
}

impl PolicyCheck<'_> {
    /// Evaluates the policies, and adds the name of the deciding policy to the metadata. Returns what requires an approval, if a
    /// policy asks for one.
    ///
    /// # Errors
    /// Returns `POLICY_DENIED` if a policy forbids the call or cannot be evaluated.
    pub async fn check(&self, run: &mut CallRun, entry: &Entry) -> Result<Option<Requirement>, Box<Failure>> {
        let policies = self.policies.for_tenant(&run.call().tenant);
        let arguments = run.call().effective_arguments.clone().unwrap_or_default();
        let tool = Some((&entry.definition, entry.made.source));
        let input = Input::new(run.call(), tool, &arguments, self.clock.now());
        let verdict = decide(policies, input, self.policies.bounds()).await;
        let Some(Verdict { policy, effect, reason, error }) = verdict else { return Ok(None) };
        run.amend(|call| call.extend_metadata([(POLICY.to_owned(), Value::String(policy.clone()))]));
        match effect {
            PolicyEffect::Allow => Ok(None),
            PolicyEffect::Deny => {
                Err(Failure::policy_denied(&entry.name, &policy, reason.as_deref(), error.as_deref()).into())
            }
            PolicyEffect::Approve => Ok(Some(Requirement { by: RequiredBy::Policy, policy: Some(policy), reason })),
        }
    }
}
