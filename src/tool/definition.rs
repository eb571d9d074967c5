//! What there is to say about a tool: a builder over its definition.

use schemars::JsonSchema;
use serde_json::Value;

use crate::domain::tool::{Annotations, CacheScope, CacheSpec, Example, OutputCheck, RetrySpec};
use crate::domain::{ExecutorSpec, LimitsSpec, Preset, ToolDefinition};

mod schema;

/// A definition in the making.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct DefinitionBuilder(ToolDefinition);

impl DefinitionBuilder {
    /// A built-in tool called `name` that takes `A`.
    pub fn of<A: JsonSchema>(name: &str) -> Self {
        let (description, input_schema) = schema::of_arguments::<A>();
        Self::with_schema(name, input_schema).description(description)
    }

    /// A built-in tool called `name` with a schema written by hand.
    pub fn with_schema(name: &str, input_schema: Value) -> Self {
        let executor = ExecutorSpec::Builtin { name: name.to_owned() };
        Self(ToolDefinition::plain(name.to_owned(), input_schema, executor))
    }

    /// The name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.0.title = Some(title.into());
        self
    }

    /// What the model reads.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.0.description = description.into();
        self
    }

    /// The heading to list it under.
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.0.category = Some(category.into());
        self
    }

    /// One more word to find it by.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.0.tags.push(tag.into());
        self
    }

    /// One more group that it belongs to.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.0.groups.push(group.into());
        self
    }

    /// The author's version.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.0.version = Some(version.into());
        self
    }

    /// One more worked example.
    pub fn example(mut self, arguments: Value, output: impl Into<Value>) -> Self {
        self.0.examples.push(Example { arguments, output: Some(output.into()) });
        self
    }

    /// It changes nothing: neither destructive nor different when repeated, and safe beside other calls.
    pub fn read_only(mut self) -> Self {
        let open_world = self.0.annotations.open_world;
        self.0.annotations = Annotations { read_only: true, destructive: false, idempotent: true, open_world };
        self
    }

    /// It destroys nothing.
    pub fn harmless(mut self) -> Self {
        self.0.annotations.destructive = false;
        self
    }

    /// Running it again with the same arguments changes nothing more, so it may be repeated.
    pub fn idempotent(mut self) -> Self {
        self.0.annotations.idempotent = true;
        self
    }

    /// It reaches nothing outside of the service.
    pub fn closed_world(mut self) -> Self {
        self.0.annotations.open_world = false;
        self
    }

    /// Whether it may run beside others in a batch; follows [`DefinitionBuilder::read_only`] unless given.
    pub fn concurrency_safe(mut self, safe: bool) -> Self {
        self.0.concurrency_safe = Some(safe);
        self
    }

    /// Its calls are accepted and queued; callers are not kept waiting.
    pub fn asynchronous(mut self) -> Self {
        self.0.asynchronous = true;
        self
    }

    /// The longest run of one attempt, in milliseconds.
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.0.limits.timeout_ms = Some(timeout_ms);
        self
    }

    /// All of its bounds.
    pub fn limits(mut self, limits: LimitsSpec) -> Self {
        self.0.limits = limits;
        self
    }

    /// How retryable failures are tried again (see [`ToolError::retryable`](super::ToolError::retryable)).
    pub fn retry(mut self, retry: RetrySpec) -> Self {
        self.0.retry = retry;
        self
    }

    /// Its good results serve equal calls for so long. Only for tools that are [`DefinitionBuilder::idempotent`].
    pub fn cached(mut self, ttl_ms: u64, scope: CacheScope) -> Self {
        self.0.cache = Some(CacheSpec { ttl_ms, scope });
        self
    }

    /// An argument that the operator gives: `about.preset("api_key", Preset::secret("MAIL_API_KEY"))`.
    pub fn preset(mut self, argument: impl Into<String>, preset: Preset) -> Self {
        self.0.presets.insert(argument.into(), preset);
        self
    }

    /// One more context object that it needs (see [`Run::context`](super::Run::context)).
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.0.context.push(name.into());
        self
    }

    /// The schema of its result, from a type; a mismatch is noted or, with [`OutputCheck::Strict`], is an error.
    pub fn returns<T: JsonSchema>(mut self, check: OutputCheck) -> Self {
        self.0.output_schema = Some(schema::of_result::<T>());
        self.0.output_check = check;
        self
    }

    /// Title, description and schemas come from this URL, and are asked for again after `ttl_ms`; until there is an answer,
    /// its own serve.
    pub fn definition_url(mut self, url: impl Into<String>, ttl_ms: u64) -> Self {
        (self.0.definition_url, self.0.definition_ttl_ms) = (Some(url.into()), Some(ttl_ms));
        self
    }

    /// The definition.
    #[must_use]
    pub fn into_definition(self) -> ToolDefinition {
        self.0
    }
}

impl From<ToolDefinition> for DefinitionBuilder {
    fn from(definition: ToolDefinition) -> Self {
        Self(definition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_says_all_that_follows_from_it() {
        let annotations = DefinitionBuilder::of::<Value>("x").read_only().closed_world().into_definition().annotations;
        let expected = Annotations { read_only: true, destructive: false, idempotent: true, open_world: false };
        assert_eq!(annotations, expected);
    }
}
