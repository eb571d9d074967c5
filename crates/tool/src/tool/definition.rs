//! A builder for tool definitions.

use schemars::JsonSchema;
use serde_json::Value;

use toolpost_core::domain::tool::{Annotations, CacheScope, CacheSpec, Example, OutputCheck, RetrySpec};
use toolpost_core::domain::{ExecutorSpec, LimitsSpec, Preset, ToolDefinition};

mod schema;

/// A builder for a [`ToolDefinition`].
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct DefinitionBuilder(ToolDefinition);

impl DefinitionBuilder {
    /// Creates the definition of a built-in tool `name` with arguments of type `A`.
    pub fn of<A: JsonSchema>(name: &str) -> Self {
        let (description, input_schema) = schema::of_arguments::<A>();
        Self::with_schema(name, input_schema).description(description)
    }

    /// Creates the definition of a built-in tool `name` with a handwritten schema.
    pub fn with_schema(name: &str, input_schema: Value) -> Self {
        let executor = ExecutorSpec::Builtin { name: name.to_owned() };
        Self(ToolDefinition::plain(name.to_owned(), input_schema, executor))
    }

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.0.title = Some(title.into());
        self
    }

    /// Sets the description, which the model reads.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.0.description = description.into();
        self
    }

    /// Sets the category under which the tool is listed.
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.0.category = Some(category.into());
        self
    }

    /// Adds a tag, which searches match.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.0.tags.push(tag.into());
        self
    }

    /// Adds the tool to a group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.0.groups.push(group.into());
        self
    }

    /// Sets the version of the tool.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.0.version = Some(version.into());
        self
    }

    /// Adds an example: arguments and their result.
    pub fn example(mut self, arguments: Value, output: impl Into<Value>) -> Self {
        self.0.examples.push(Example { arguments, output: Some(output.into()) });
        self
    }

    /// Marks the tool as read-only, which includes non-destructive, idempotent and safe to run concurrently.
    pub fn read_only(mut self) -> Self {
        let open_world = self.0.annotations.open_world;
        self.0.annotations = Annotations { read_only: true, destructive: false, idempotent: true, open_world };
        self
    }

    /// Marks the tool as non-destructive.
    pub fn non_destructive(mut self) -> Self {
        self.0.annotations.destructive = false;
        self
    }

    /// Marks the tool as idempotent: a repetition with the same arguments has no further effect, so the call may be
    /// retried.
    pub fn idempotent(mut self) -> Self {
        self.0.annotations.idempotent = true;
        self
    }

    /// Marks the tool as closed world: it has no effect outside the service.
    pub fn closed_world(mut self) -> Self {
        self.0.annotations.open_world = false;
        self
    }

    /// Sets whether the tool may run concurrently with other calls of a batch. The default follows
    /// [`DefinitionBuilder::read_only`].
    pub fn concurrency_safe(mut self, safe: bool) -> Self {
        self.0.concurrency_safe = Some(safe);
        self
    }

    /// Makes the tool asynchronous: its calls are accepted and queued, and callers do not wait for the result.
    pub fn asynchronous(mut self) -> Self {
        self.0.asynchronous = true;
        self
    }

    /// Sets the maximum duration of one attempt, in milliseconds.
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.0.limits.timeout_ms = Some(timeout_ms);
        self
    }

    /// Sets all limits.
    pub fn limits(mut self, limits: LimitsSpec) -> Self {
        self.0.limits = limits;
        self
    }

    /// Sets how retryable failures are retried (see [`ToolError::retryable`](super::ToolError::retryable)).
    pub fn retry(mut self, retry: RetrySpec) -> Self {
        self.0.retry = retry;
        self
    }

    /// Caches successful results for equal arguments for `ttl_ms` milliseconds. Only for
    /// [idempotent](DefinitionBuilder::idempotent) tools.
    pub fn cached(mut self, ttl_ms: u64, scope: CacheScope) -> Self {
        self.0.cache = Some(CacheSpec { ttl_ms, scope });
        self
    }

    /// Adds a preset, an argument that the operator supplies:
    /// `about.preset("api_key", Preset::secret("MAIL_API_KEY"))`.
    pub fn preset(mut self, argument: impl Into<String>, preset: Preset) -> Self {
        self.0.presets.insert(argument.into(), preset);
        self
    }

    /// Declares a context object that the tool needs (see [`Run::context`](super::Run::context)).
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.0.context.push(name.into());
        self
    }

    /// Sets the schema of the result from a type. A mismatch is recorded, or fails the call with
    /// [`OutputCheck::Strict`].
    pub fn returns<T: JsonSchema>(mut self, check: OutputCheck) -> Self {
        self.0.output_schema = Some(schema::of_result::<T>());
        self.0.output_check = check;
        self
    }

    /// Sets a URL that supplies the title, description and schemas, and is fetched again after `ttl_ms` milliseconds.
    /// Until the first response, the values of this definition apply.
    pub fn definition_url(mut self, url: impl Into<String>, ttl_ms: u64) -> Self {
        (self.0.definition_url, self.0.definition_ttl_ms) = (Some(url.into()), Some(ttl_ms));
        self
    }

    /// Returns the definition.
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
    fn read_only_sets_the_implied_annotations() {
        let annotations = DefinitionBuilder::of::<Value>("x").read_only().closed_world().into_definition().annotations;
        let expected = Annotations { read_only: true, destructive: false, idempotent: true, open_world: false };
        assert_eq!(annotations, expected);
    }
}
