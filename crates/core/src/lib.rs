//! The types of Toolpost, its JSON Schemas and its wire formats.
//!
//! Everything here is a value or a function of values: nothing is read, sent or stored.
//!
//! - [`domain`] contains tools, calls, outcomes, failures, events, limits and time.
//! - [`schema`] compiles JSON Schemas, coerces and checks arguments, and lowers schemas to the subset of each vendor.
//! - [`formats`] reads and writes the messages, streams and definitions of vendors.
//! - [`import`] turns OpenAPI documents into definitions of tools.
//! - [`fault`] contains the points at which a test build dies, and [`aside`] moves long work away from a runtime's tasks.

#![cfg_attr(test, allow(clippy::too_many_lines, reason = "the table of a test is as long as its cases"))]
#![forbid(unsafe_code)]

pub mod aside;
pub mod domain;
pub mod fault;
pub mod formats;
pub mod import;
pub mod schema;
