//! Toolpost: a tool-execution service for LLM agents.

pub mod domain;
pub mod executor;
