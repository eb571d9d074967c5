//! Writing tools in Rust: a [`Tool`] is a type with one async function, a function alone will do for a simple one, and
//! [`BuiltinTool`] is what either becomes.

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub mod builtin;
pub mod definition;
pub mod error;
pub mod factory;
pub mod output;
pub mod run;
pub mod system;
pub mod typed;
pub mod web_fetch;
pub mod workspace;

pub use crate::executor::InstanceScope;
pub use definition::DefinitionBuilder;
pub use error::{InvalidArgument, ToolError};
pub use factory::ToolFactory;
pub use output::{IntoToolOutput, Json};
pub use run::{Run, object};
pub use typed::{BuiltinTool, Validate, async_tool_fn, blocking_tool_fn, tool_fn};

/// A tool.
///
/// Its arguments are a type, from which the schema comes: what is documented on the type and its fields is what the model
/// reads, `#[serde(deny_unknown_fields)]` closes it, and `#[schemars(range(min = 1))]` and its like go into the schema.
///
/// ```
/// use toolpost::tool::{DefinitionBuilder, InvalidArgument, Run, Tool, ToolError};
///
/// /// Rolls dice and adds them up.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Dice {
///     /// How many.
///     #[schemars(range(min = 1, max = 100))]
///     count: u32,
///     /// How many sides each has.
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
    /// Its name: `^[A-Za-z0-9_.-]{1,128}$`.
    const NAME: &'static str;

    /// What it takes: a type whose schema is an object. [`NoArgs`] if it takes nothing.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    /// What it gives.
    type Output: IntoToolOutput;

    /// Says more about the tool. Unless changed, the description is the documentation of [`Tool::Args`], the title is the
    /// name, and the annotations are the careful ones: not read-only, destructive, not idempotent, open world.
    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
    }

    /// Checks what a schema cannot say. It comes after the schema's own checks and should be quick and change nothing: it
    /// may be asked more than once for one call.
    ///
    /// # Errors
    /// What is wrong and where; the call ends `TOOL_VALIDATION_ERROR`, and [`Tool::call`] is not reached.
    fn validate(&self, args: &Self::Args) -> Result<(), Vec<InvalidArgument>> {
        let _ = args;
        Ok(())
    }

    /// Runs one call; write it as `async fn call(…)`. The future is dropped when the call is cancelled or its time is up,
    /// so whatever it awaits stops there. Work that blocks the thread belongs into [`Run::blocking`].
    ///
    /// # Errors
    /// A [`ToolError`] ends the call `TOOL_EXECUTION_ERROR` with the error's message; so does a panic.
    fn call(&self, args: Self::Args, run: Run) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// The arguments of a tool that takes none.
#[derive(Debug, Clone, Copy, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}
