//! Injection of inputs that the model does not supply: presets, secrets and context.

use std::sync::Arc;

use serde_json::Value;

use crate::registry::{Entry, presets};
use toolpost_core::domain::preset::PresetSource;
use toolpost_core::domain::process::EnvValue;
use toolpost_core::domain::tool::{HttpAuth, SecretRef};
use toolpost_core::domain::{Call, Code, ExecutorSpec, Failure, Outcome, Preset, Tenant, json};
use toolpost_tool::executor::emitter::Report;
use toolpost_tool::executor::vault::SealContext;
use toolpost_tool::executor::{Redaction, Secrets, Vault};
use toolpost_tool::tool::InvalidArgument;

/// The metadata member that lists ignored arguments.
const DROPPED: &str = "dropped_arguments";

/// Inputs that only the executor receives.
#[derive(Default)]
pub(crate) struct ExecutorInputs {
    /// The arguments including presets. `None` if the tool has no presets and the call's own arguments are complete.
    pub arguments: Option<Arc<Value>>,
    /// The secrets given to the tool, which are removed from everything that it returns.
    pub redaction: Option<Arc<Redaction>>,
}

/// Resolves the inputs of executors.
pub(crate) struct InputInjector<'a> {
    /// The configured secrets to which presets and executors refer.
    pub secrets: &'a Secrets,
    /// Decrypts stored preset values.
    pub vault: &'a Vault,
}

impl InputInjector<'_> {
    /// Adds presets and secrets to `inputs`, whose values are never recorded or shown. `is_first` means that the
    /// tool has not run for this call, and `is_handed_out` that only its result is awaited.
    ///
    /// # Errors
    /// Returns a [`Failure`] if an input is missing or invalid.
    pub fn inject_inputs(
        &self,
        call: &mut Call,
        inputs: &mut ExecutorInputs,
        entry: &Entry,
        is_first: bool,
        is_handed_out: bool,
    ) -> Result<(), Box<Failure>> {
        let definition = &entry.definition;
        let missing = |name: &&String| !call.context.contains_key(name.as_str());
        if let Some(name) = definition.context.iter().find(missing) {
            let message = format!("the tool requires the context object \"{name}\", which was not provided");
            return Err(Failure::execution(&call.name, message).into());
        }
        let mut secrets = self.credentials(&definition.executor);
        if !definition.presets.is_empty() {
            let given = self.inject(call, entry, &mut secrets, is_handed_out)?;
            let validate = entry.validate_with_presets.as_ref().filter(|_| is_first);
            if let Some(Err(invalid)) = validate.map(|validate| validate(&given)) {
                let failure = InvalidArgument::failure(&invalid, &entry.name, &given, entry.input.schema());
                return Err(redact_violations(call, entry, failure).into());
            }
            inputs.arguments = Some(Arc::new(given));
        }
        if !secrets.is_empty() {
            let redaction = Redaction::of(&secrets)
                .map_err(|_| Failure::execution(&call.name, "its secret values are too long to be redacted"))?;
            inputs.redaction = redaction.map(Arc::new);
        }
        Ok(())
    }

    /// Returns the secrets in the definition of an executor: the credentials of an `http` tool, or environment values
    /// of a `process` tool. Secrets that are not set are skipped; the executor reports them.
    fn credentials(&self, executor: &ExecutorSpec) -> Vec<Value> {
        let named: Vec<&str> = match executor {
            ExecutorSpec::Http(spec) => match &spec.auth {
                Some(HttpAuth::Bearer { token: secret } | HttpAuth::Basic { password: secret, .. }) => {
                    vec![&secret.secret]
                }
                None => Vec::new(),
            },
            ExecutorSpec::Process(spec) => {
                let secrets = spec.env.values().filter_map(|value| match value {
                    EnvValue::Secret(SecretRef { secret }) => Some(secret.as_str()),
                    EnvValue::Text(_) => None,
                });
                secrets.collect()
            }
            // Credentials of upstream servers are not part of the definition.
            ExecutorSpec::Builtin { .. }
            | ExecutorSpec::Mcp { .. }
            | ExecutorSpec::External {}
            | ExecutorSpec::Worker(_) => Vec::new(),
        };
        named.into_iter().filter_map(|named| self.secrets.get(named).ok()).map(Value::String).collect()
    }

    /// Merges presets into the arguments. Presets are applied last and take precedence.
    fn inject(
        &self,
        call: &mut Call,
        entry: &Entry,
        secrets: &mut Vec<Value>,
        is_handed_out: bool,
    ) -> Result<Value, Box<Failure>> {
        let presets = &entry.definition.presets;
        let effective = call.effective_arguments.clone().unwrap_or_default();
        let dropped = presets::named_in(presets, &effective);
        let shown = presets::without(presets, &effective);
        let mut given = shown.as_object().cloned().unwrap_or_default();
        if !dropped.is_empty() {
            // A hook has set these arguments. They are ignored and not shown.
            call.set_effective_arguments(shown);
            list_ignored(call, dropped);
        }
        for (name, preset) in presets {
            if preset.overridable && given.contains_key(name) {
                continue;
            }
            match self.value(&call.tenant, &entry.name, name, preset) {
                Ok((value, is_secret)) => {
                    secrets.extend(is_secret.then(|| value.clone()));
                    given.insert(name.clone(), value);
                }
                // The tool already has the value: only its result is awaited.
                Err(_) if is_handed_out => {}
                Err(fault) => {
                    let message = format!("preset \"{name}\": {fault}");
                    return Err(Failure::execution(&call.name, message).into());
                }
            }
        }
        Ok(Value::Object(given))
    }

    /// Returns the value of a preset, and whether it is a secret.
    fn value(&self, tenant: &Tenant, tool: &str, name: &str, preset: &Preset) -> Result<(Value, bool), String> {
        match &preset.origin {
            // An overridable value is visible to the model; any other value must be redacted.
            PresetSource::Value(value) => Ok((value.clone(), !preset.overridable)),
            PresetSource::Secret(secret) => Ok((self.secrets.get(secret)?.into(), true)),
            PresetSource::Stored(Some(sealed)) => {
                let context = SealContext { tenant, tool, name };
                let opened = self.vault.open(sealed, &context).map_err(|error| error.to_string())?;
                let value = json::parse(&opened).map_err(|_| "the stored value is not valid JSON".to_owned())?;
                Ok((value, true))
            }
            PresetSource::Stored(None) => Err(format!("no value is stored; set one with PUT /tools/{tool}/presets")),
        }
    }
}

impl ExecutorInputs {
    /// Returns the arguments that the tool gets, including presets.
    pub fn arguments_of(&self, call: &Call) -> Arc<Value> {
        self.arguments.clone().or(call.effective_arguments.clone()).unwrap_or_default()
    }

    /// Redacts all secrets in an outcome.
    pub fn without_secrets(&self, outcome: Outcome) -> Outcome {
        match &self.redaction {
            Some(redaction) => redaction.outcome(outcome),
            None => outcome,
        }
    }

    /// Redacts all secrets in a report.
    pub fn report_without_secrets(&self, report: Report) -> Report {
        match &self.redaction {
            Some(redaction) => redaction.report(report),
            None => report,
        }
    }

    /// Redacts all secrets in a failure, and all details about presets.
    pub fn failure_of(&self, call: &Call, entry: &Entry, failure: Failure) -> Failure {
        let failure = match failure.code {
            Code::ToolValidationError if self.arguments.is_some() => redact_violations(call, entry, failure),
            _ => failure,
        };
        match &self.redaction {
            Some(redaction) => redaction.failure(failure),
            None => failure,
        }
    }
}

/// Removes presets from a validation failure, because the model must not see them.
fn redact_violations(call: &Call, entry: &Entry, failure: Failure) -> Failure {
    let Some(Value::Object(mut details)) = failure.details.clone() else { return failure };
    let faults = details["validation_errors"].as_array().cloned().unwrap_or_default();
    let is_at = |name: &&String| {
        let preset = format!("/{}", json::pointer_token(name));
        let is_within = |rest: &str| rest.is_empty() || rest.starts_with('/');
        let pointers = faults.iter().filter_map(|fault| fault["pointer"].as_str());
        pointers.filter_map(|pointer| pointer.strip_prefix(&preset)).any(is_within)
    };
    if let Some(name) = entry.definition.presets.keys().find(is_at) {
        return Failure::execution(&call.name, format!("preset \"{name}\": its value is invalid for the tool"));
    }
    details.insert("received".to_owned(), call.effective_arguments.as_deref().cloned().unwrap_or_default());
    details.insert("expected_schema".to_owned(), (**entry.input.schema()).clone());
    failure.with_details(Value::Object(details))
}

/// Lists ignored arguments of a model or a hook in the metadata of the call.
pub(crate) fn list_ignored(call: &mut Call, names: Vec<String>) {
    if names.is_empty() {
        return;
    }
    let mut dropped = match call.metadata.get(DROPPED) {
        None => Vec::new(),
        Some(Value::Array(dropped)) => dropped.clone(),
        Some(_) => return,
    };
    for name in names.into_iter().map(Value::String) {
        if !dropped.contains(&name) {
            dropped.push(name);
        }
    }
    call.extend_metadata([(DROPPED.to_owned(), Value::Array(dropped))]);
}
