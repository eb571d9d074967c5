//! Representations of calls, results and tools for clients and vendors. Pure functions.

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
