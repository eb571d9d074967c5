//! The engine of Toolpost: the path of a call, the tools that can be called, and the rules for calls.
//!
//! - [`engine`] runs calls from submission to their committed end.
//! - [`registry`] has the tools of all sources and tenants, compiled on use. [`access`] is a caller with the tools of its tenant.
//! - [`policies`], [`budgets`] and [`hooks`] are the rules around calls, [`dispatch`] decides who runs when, and [`callbacks`] delivers
//!   ended calls.
//! - [`arguments`] checks what a model has sent, and `inputs` adds what only the executor gets. [`memory`] bounds requests, `pauses` stops
//!   tools that time out, and `result_cache` has the results that equal calls reuse.
//! - [`workqueue`] has the calls that worker programs fetch.
//! - [`system_tools`] are the tools that read or change what is stored.

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "the table of a test is as long as its cases"))]
#![forbid(unsafe_code)]

pub mod access;
pub mod arguments;
pub mod budgets;
mod call_table;
pub mod callbacks;
pub mod dispatch;
pub mod engine;
pub mod hooks;
mod inputs;
mod interrupt;
pub mod memory;
mod pauses;
pub mod policies;
pub mod registry;
mod result_cache;
pub mod system_tools;
pub mod threads;
pub mod workqueue;
