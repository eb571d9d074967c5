//! Tools behind HTTP: what they are sent, how they may fail, and where they may not be.

mod addresses;
mod failures;
mod numbers;
mod request;
mod signing;
mod streams;
mod templates;
