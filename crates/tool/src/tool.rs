//! Tools written in Rust: a [`Tool`] is a type with one async function, and simple tools can be single functions. Both
//! become a [`BuiltinTool`].

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

#[cfg(feature = "executors")]
pub mod builtin;
pub mod call_data;
pub mod definition;
pub mod error;
pub mod factory;
pub mod output;
pub mod run;
pub mod set;
pub mod typed;
#[cfg(feature = "executors")]
pub mod web_fetch;
#[cfg(feature = "executors")]
pub mod workspace;

pub use crate::executor::InstanceScope;
pub use crate::executor::emitter::Report;
pub use call_data::{CallData, Reports, ToolRun};
pub use definition::DefinitionBuilder;
pub use error::{InvalidArgument, ToolError};
pub use factory::ToolFactory;
pub use output::{IntoToolOutput, Json};
pub use run::{Run, object};
pub use set::ToolSet;
pub use typed::{BuiltinTool, Validate, async_tool_fn, blocking_tool_fn, tool_fn};

/// A tool with typed arguments.
///
/// The input schema is derived from [`Tool::Args`]: the model reads the doc comments of the type and its fields,
/// `#[serde(deny_unknown_fields)]` rejects unknown members, and attributes like `#[schemars(range(min = 1))]` become
/// constraints.
///
/// ```
/// use toolpost_tool::tool::{DefinitionBuilder, InvalidArgument, Run, Tool, ToolError};
///
/// /// Rolls dice and adds them up.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Dice {
///     /// Number of dice.
///     #[schemars(range(min = 1, max = 100))]
///     count: u32,
///     /// Number of sides of each die.
///     sides: u32,
/// }
///
/// struct Roll;
///
/// impl Tool for Roll {
///     const NAME: &'static str = "roll";
///     type Args = Dice;
///     type Output = u32;
///
///     fn definition(&self, definition: DefinitionBuilder) -> DefinitionBuilder {
///         definition.title("Roll dice").read_only().closed_world()
///     }
///
///     fn validate(&self, dice: &Dice) -> Result<(), Vec<InvalidArgument>> {
///         match dice.sides {
///             0 | 1 => Err(vec![InvalidArgument::at("/sides", "a die has at least 2 sides")]),
///             _ => Ok(()),
///         }
///     }
///
///     async fn call(&self, dice: Dice, run: Run) -> Result<u32, ToolError> {
///         let mut sum = 0;
///         for die in 1..=dice.count {
///             run.progress(die, dice.count, "rolling");
///             sum += dice.sides; // loaded
///         }
///         Ok(sum)
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// The name, which matches `^[A-Za-z0-9_.-]{1,128}$`.
    const NAME: &'static str;

    /// The type of the arguments. Its schema must be that of an object; use [`NoArgs`] for a tool without arguments.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    /// The type of the result.
    type Output: IntoToolOutput;

    /// Completes the definition. By default, the description is the documentation of [`Tool::Args`], the title is the
    /// name, and the annotations are the cautious ones: not read-only, destructive, not idempotent, open world.
    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
    }

    /// Checks what a schema cannot express, after the arguments passed the schema. It must be quick and free of side
    /// effects, because it may run more than once per call.
    ///
    /// # Errors
    /// Returns the invalid arguments. The call then ends with `TOOL_VALIDATION_ERROR` and [`Tool::call`] does not run.
    fn validate(&self, args: &Self::Args) -> Result<(), Vec<InvalidArgument>> {
        let _ = args;
        Ok(())
    }

    /// Runs one call; implement it as `async fn call(…)`. The future is dropped when the call is cancelled or times
    /// out, so everything that it awaits stops as well. Run blocking work with [`Run::blocking`].
    ///
    /// # Errors
    /// A [`ToolError`] ends the call with `TOOL_EXECUTION_ERROR` and the message of the error. A panic does the same.
    fn call(&self, args: Self::Args, run: Run) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// The arguments of a tool that has no arguments.
#[derive(Debug, Clone, Copy, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}

/// Returns the default of arguments that count from 1.
#[cfg(feature = "executors")]
fn one() -> usize {
    1
}
