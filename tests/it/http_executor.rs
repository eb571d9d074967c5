//! HTTP tools: their requests, their failures, and the addresses that they may not use.

mod addresses;
mod failures;
mod numbers;
mod request;
mod signing;
mod streams;
mod templates;
