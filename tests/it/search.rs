//! Search for tools: `GET /tools?q=…`, and the two tools with which a model finds and calls all others.

mod discovery;
mod query;
