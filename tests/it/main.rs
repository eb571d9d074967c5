//! The integration tests: one binary.

mod support;
