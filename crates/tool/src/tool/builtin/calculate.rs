//! `calculate`: exact arithmetic for models.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool::{DefinitionBuilder, Json, Run, Tool, ToolError};

pub mod expression;
pub mod functions;
pub mod number;

/// The tool `calculate`. See [`expression`] for its language.
#[derive(Debug, Clone, Copy)]
pub struct Calculate;

/// Evaluates an arithmetic expression exactly as written and returns the number. Supports + - * / % ^ and parentheses,
/// the functions sqrt, cbrt, abs, exp, ln, log2, log10, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, floor, ceil,
/// round, trunc, min and max, and the constants pi, tau and e. Angles are in radians. -2^2 is -4 and 2^3^2 is 2^9.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalculateArgs {
    /// The expression, like "2 * (3 + 4)" or "sqrt(2) / max(1, 3)". No variables, no units.
    #[schemars(length(min = 1, max = 4096))]
    pub expression: String,
}

impl Tool for Calculate {
    const NAME: &'static str = "calculate";
    type Args = CalculateArgs;
    type Output = Json<Value>;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Calculator")
            .category(super::CATEGORY)
            .example(json!({"expression": "2 * (3 + 4)"}), 14)
            .example(json!({"expression": "sqrt(2)^2"}), 2.000_000_000_000_000_4)
            .read_only()
            .closed_world()
    }

    async fn call(&self, args: CalculateArgs, _: Run) -> Result<Json<Value>, ToolError> {
        // One pass over at most 4 kB takes microseconds and needs no thread.
        Ok(Json(expression::evaluate(&args.expression)?.to_json()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::BuiltinTool;
    use toolpost_core::domain::{Code, Failure, ToolOutput};

    async fn calculate(expression: &str) -> Result<Value, Failure> {
        match BuiltinTool::new(Calculate).invoke(json!({"expression": expression})).await? {
            ToolOutput::Data(value) => Ok((*value).clone()),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn result_is_a_short_json_number() {
        for (expression, text) in
            [("3 + 4", "7"), ("14 / 2", "7"), ("7 / 2", "3.5"), ("0.1 + 0.2", "0.30000000000000004")]
        {
            assert_eq!(calculate(expression).await.unwrap().to_string(), text, "{expression}");
        }
    }

    #[tokio::test]
    async fn invalid_expression_is_an_error() {
        let failure = calculate("1 / 0").await.unwrap_err();
        assert_eq!(failure.code, Code::ToolExecutionError);
        assert_eq!(failure.text, "Error executing tool \"calculate\": 1 / 0 is a division by zero");
        assert!(!failure.retryable);
    }

    #[test]
    fn examples_are_correct_and_description_names_every_function() {
        let definition = BuiltinTool::new(Calculate).definition;
        for example in &definition.examples {
            let text = example.arguments["expression"].as_str().unwrap();
            assert_eq!(Some(expression::evaluate(text).unwrap().to_json()), example.output);
        }
        for name in functions::names() {
            assert!(definition.description.contains(name), "{name}");
        }
        assert_eq!(definition.input_schema["properties"]["expression"]["maxLength"], 4096);
    }
}
