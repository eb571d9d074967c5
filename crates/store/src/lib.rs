//! The storage of Toolpost: calls, events, statistics and everything else that outlives a process, in SQLite or PostgreSQL,
//! and the events that subscribers follow.
//!
//! - [`store`] contains all SQL. Calls are written by its journal, and everything else by handles to one tenant or to all.
//! - [`events`] sends the events of commits to subscribers, and reads what they have missed.

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "the table of a test is as long as its cases"))]
#![forbid(unsafe_code)]

pub mod events;
pub mod store;
