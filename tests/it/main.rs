//! The service as a caller meets it: one running service and one fresh database per test, everything over HTTP.

#[macro_use]
mod support;

mod architecture;
mod arguments;
mod batches;
mod callbacks;
mod cli;
mod conversion;
mod events;
mod http_executor;
mod listing;
mod openapi;
mod openapi_file;
mod operations;
mod outage;
mod problems;
mod readers;
mod rust_tools;
mod stats;
mod store;
mod tool_calls;
mod tools;
mod validation;
mod wire;
