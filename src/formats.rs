//! How calls, results and tools look to others. Pure functions.

pub mod alias;
pub mod cut;
pub mod data;
pub mod definitions;
pub mod details;
pub mod messages;
pub mod native;
pub mod session_prompt;
pub mod sse;
pub mod stream;
