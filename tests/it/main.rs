//! The service as a caller meets it: one running service and one fresh database per test, everything over HTTP.

#[macro_use]
mod support;

mod arguments;
mod batches;
mod cli;
mod conversion;
mod events;
mod http_executor;
mod listing;
mod openapi;
mod operations;
mod problems;
mod rust_tools;
mod stats;
mod tool_calls;
mod tools;
mod validation;
