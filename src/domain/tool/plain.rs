//! A definition with default values.

use serde_json::Value;

use super::{Annotations, OutputCheck, RetrySpec, ToolDefinition};
use crate::domain::{ExecutorSpec, LimitsSpec, Presets};

impl ToolDefinition {
    /// Creates a definition with this name, schema and executor, and the defaults of all other fields.
    #[must_use]
    pub fn plain(name: String, input_schema: Value, executor: ExecutorSpec) -> Self {
        Self {
            name,
            title: None,
            description: String::new(),
            category: None,
            tags: Vec::new(),
            version: None,
            examples: Vec::new(),
            input_schema,
            definition_url: None,
            definition_ttl_ms: None,
            output_schema: None,
            output_check: OutputCheck::default(),
            annotations: Annotations::default(),
            groups: Vec::new(),
            asynchronous: false,
            concurrency_safe: None,
            limits: LimitsSpec::default(),
            retry: RetrySpec::default(),
            cache: None,
            coerce: true,
            presets: Presets::new(),
            context: Vec::new(),
            executor,
            upstream: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_definition_equals_minimal_json() {
        let executor = ExecutorSpec::Builtin { name: "echo".into() };
        let minimal = json!({"name": "t", "description": "", "input_schema": {"type": "object"}, "executor": executor});
        let read: ToolDefinition = serde_json::from_value(minimal).unwrap();
        assert_eq!(ToolDefinition::plain("t".into(), json!({"type": "object"}), executor), read);
    }
}
