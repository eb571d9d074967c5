//! What a tool is given beside the model's arguments: presets, context, on whose behalf.

use std::sync::Arc;

use serde_json::Value;

use crate::domain::preset::PresetSource;
use crate::domain::process::EnvValue;
use crate::domain::tool::{HttpAuth, SecretRef};
use crate::domain::{Call, Code, ExecutorSpec, Failure, Outcome, Preset, Tenant, json};
use crate::executor::emitter::Report;
use crate::executor::vault::SealContext;
use crate::executor::{Redaction, Secrets, Vault};
use crate::registry::{Entry, presets};

/// Under which name a call's metadata lists what a model sent in vain.
const DROPPED: &str = "dropped_arguments";

/// What only the executor sees; not shown by `Debug`.
#[derive(Clone, Default)]
pub(in crate::engine) struct ExecutorInputs {
    /// The arguments with the presets in them; `None` where there are none, and the call's own are all.
    pub arguments: Option<Arc<Value>>,
    /// The secrets that it was given, which nobody is to hear from it.
    pub redaction: Option<Arc<Redaction>>,
}

impl std::fmt::Debug for ExecutorInputs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Equipment")
    }
}

/// Opens what tools are given beside the model's arguments.
#[derive(Debug)]
pub(in crate::engine) struct Equipper<'a> {
    /// Where the secrets of presets come from.
    pub secrets: &'a Secrets,
    /// Opens the stored values of presets.
    pub vault: &'a Vault,
}

impl Equipper<'_> {
    /// Adds to `equipment` what a call runs with. Nothing of it is ever recorded or shown. `is_first` says that the tool has
    /// not been run for the call, and `is_handed_out` that only its result is awaited.
    ///
    /// # Errors
    /// Returns the [`Failure`] of a call that cannot be run.
    pub fn inject_inputs(
        &self,
        call: &mut Call,
        equipment: &mut ExecutorInputs,
        entry: &Entry,
        is_first: bool,
        is_handed_out: bool,
    ) -> Result<(), Box<Failure>> {
        let definition = &entry.definition;
        let missing = |name: &&String| !call.context.contains_key(name.as_str());
        if let Some(name) = definition.context.iter().find(missing) {
            let message = format!("the context \"{name}\" is missing: the tool needs it, and nobody has given it");
            return Err(Failure::execution(&call.name, message).into());
        }
        let mut secrets = self.credentials(&definition.executor);
        if !definition.presets.is_empty() {
            let given = self.inject(call, entry, &mut secrets, is_handed_out)?;
            if let Some(Err(invalid)) =
                entry.validate_with_presets.as_ref().filter(|_| is_first).map(|validate| validate(&given))
            {
                let schema = entry.input.schema();
                let failure = crate::tool::InvalidArgument::failure(&invalid, &entry.name, &given, schema);
                let arguments = call.effective_arguments.as_deref();
                return Err(redact_violations(definition.presets.keys(), arguments, schema, failure, &call.name).into());
            }
            equipment.arguments = Some(Arc::new(given));
        }
        if !secrets.is_empty() {
            let redaction = Redaction::of(&secrets).map_err(|_| {
                Failure::execution(&call.name, "the values of its presets are too long to be kept secret")
            })?;
            equipment.redaction = redaction.map(Arc::new);
        }
        Ok(())
    }

    /// What an `http` tool shows its server, or a `process` tool has in its environment. That one is not set is told when it
    /// is to be used.
    fn credentials(&self, executor: &ExecutorSpec) -> Vec<Value> {
        let named: Vec<String> = match executor {
            ExecutorSpec::Http(spec) => match &spec.auth {
                Some(HttpAuth::Bearer { token: secret } | HttpAuth::Basic { password: secret, .. }) => {
                    vec![secret.secret.clone()]
                }
                None => Vec::new(),
            },
            ExecutorSpec::Process(spec) => {
                let secret = |value: &EnvValue| match value {
                    EnvValue::Secret(SecretRef { secret }) => Some(secret.clone()),
                    EnvValue::Text(_) => None,
                };
                spec.env.values().filter_map(secret).collect()
            }
            // What a server of its own is given is no part of the definition.
            ExecutorSpec::Builtin { .. } | ExecutorSpec::Mcp { .. } | ExecutorSpec::External {} => Vec::new(),
        };
        named.into_iter().filter_map(|named| self.secrets.get(&named).ok()).map(Value::String).collect()
    }

    /// Returns the arguments with the presets, which come after everything else that makes them, and win.
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
            // A hook has put them there: they do not count either, and are not shown.
            call.set_effective_arguments(shown);
            note_dropped(call, dropped);
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
                // The tool has it already: only its result is awaited.
                Err(_) if is_handed_out => {}
                Err(fault) => {
                    let message = format!("preset \"{name}\": {fault}");
                    return Err(Failure::execution(&call.name, message).into());
                }
            }
        }
        Ok(Value::Object(given))
    }

    /// The value of a preset, and whether it is a secret.
    fn value(&self, tenant: &Tenant, tool: &str, name: &str, preset: &Preset) -> Result<(Value, bool), String> {
        match &preset.origin {
            // What the model may see is no secret; what it may not is to come back to it in no way.
            PresetSource::Value(value) => Ok((value.clone(), !preset.overridable)),
            PresetSource::Secret(secret) => Ok((self.secrets.get(secret)?.into(), true)),
            PresetSource::Stored(Some(sealed)) => {
                let place = SealContext { tenant, tool, name };
                let opened = self.vault.open(sealed, &place).map_err(|error| error.to_string())?;
                let value = json::parse(&opened).map_err(|_| "what is stored is no value".to_owned())?;
                Ok((value, true))
            }
            PresetSource::Stored(None) => Err(format!("it has no value; PUT /tools/{tool}/presets gives it one")),
        }
    }
}

impl ExecutorInputs {
    /// An outcome in which no secret is left.
    pub fn without_secrets(&self, outcome: Outcome) -> Outcome {
        match &self.redaction {
            Some(redaction) => redaction.outcome(outcome),
            None => outcome,
        }
    }

    /// A report in which no secret is left.
    pub fn report_without_secrets(&self, report: Report) -> Report {
        match &self.redaction {
            Some(redaction) => redaction.report(report),
            None => report,
        }
    }

    /// A failure in which no secret is left, and nothing of presets at all.
    pub fn failure_of(&self, call: &Call, entry: &Entry, failure: Failure) -> Failure {
        let failure = match &self.arguments {
            Some(_) if failure.code == Code::ToolValidationError => {
                let arguments = call.effective_arguments.as_deref();
                let names = entry.definition.presets.keys();
                redact_violations(names, arguments, entry.input.schema(), failure, &call.name)
            }
            _ => failure,
        };
        match &self.redaction {
            Some(redaction) => redaction.failure(failure),
            None => failure,
        }
    }
}

/// What a model may know of arguments that its tool refuses: a preset is none of its business.
fn redact_violations<'a>(
    mut presets: impl Iterator<Item = &'a String>,
    shown: Option<&Value>,
    schema: &Value,
    failure: Failure,
    tool: &str,
) -> Failure {
    let Some(Value::Object(mut details)) = failure.details.clone() else { return failure };
    let faults = details["validation_errors"].as_array().cloned().unwrap_or_default();
    let is_at = |name: &&String| {
        let place = format!("/{}", json::pointer_token(name));
        let is_within = |rest: &str| rest.is_empty() || rest.starts_with('/');
        let pointers = faults.iter().filter_map(|fault| fault["pointer"].as_str());
        pointers.filter_map(|pointer| pointer.strip_prefix(&place)).any(is_within)
    };
    if let Some(name) = presets.find(is_at) {
        return Failure::execution(tool, format!("preset \"{name}\": its value is not what the tool takes"));
    }
    details.insert("received".to_owned(), shown.cloned().unwrap_or_default());
    details.insert("expected_schema".to_owned(), schema.clone());
    failure.with_details(Value::Object(details))
}

/// Notes names under which a model, or a hook, sent something that does not count.
pub(in crate::engine) fn note_dropped(call: &mut Call, names: Vec<String>) {
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
