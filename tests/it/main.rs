//! The service as a caller meets it: one running service and one fresh database per test, everything over HTTP.

#[macro_use]
mod support;

mod architecture;
mod arguments;
mod async_calls;
mod batches;
mod callbacks;
mod cancel;
mod chaos;
mod cli;
mod clocks;
mod conversion;
mod definitions;
mod drain;
mod events;
mod external;
mod http_executor;
mod idempotency;
mod listing;
mod lowering;
mod messages;
mod openapi;
mod openapi_file;
mod operations;
mod oracle;
mod outage;
mod partial;
mod pause;
mod piped;
mod presets;
mod problems;
mod queue;
mod readers;
mod retries;
mod rust_tools;
mod search;
mod secrets;
mod stats;
mod store;
mod tool_calls;
mod tools;
mod validation;
mod wire;
