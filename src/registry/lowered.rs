//! The lowered schemas of a tool, computed once per target.

use std::sync::OnceLock;

use serde_json::Value;

use crate::schema::lower::{self, Lowered, Target, Unlowerable};

/// The results of lowering one schema, by target.
#[derive(Debug, Default)]
pub(super) struct LoweredForms([OnceLock<Result<Lowered, Unlowerable>>; 4]);

impl LoweredForms {
    pub fn of(&self, schema: &Value, target: Target) -> Result<&Lowered, &Unlowerable> {
        self.0[place(target)].get_or_init(|| lower::lower(schema, target)).as_ref()
    }

    #[cfg(test)]
    pub fn refuse(&self, target: Target, error: Unlowerable) {
        self.0[place(target)].set(Err(error)).expect("it was not lowered before");
    }
}

fn place(target: Target) -> usize {
    match target {
        Target::OpenAi => 0,
        Target::OpenAiStrict => 1,
        Target::Anthropic => 2,
        Target::Gemini => 3,
    }
}
