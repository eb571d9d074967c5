//! Tools in Rust, and the executors that run tools.
//!
//! - [`tool`] is what authors of tools use, with the built-in tools.
//! - [`executor`] runs tools: functions in Rust, programs, HTTP requests, and tools of MCP servers.
//! - [`policy`] is the tower stack around each attempt.

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "the table of a test is as long as its cases"))]
#![forbid(unsafe_code)]

pub mod executor;
#[cfg(feature = "executors")]
pub mod policy;
pub mod tool;
