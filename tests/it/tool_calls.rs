//! `POST /tool-calls` with one call.

mod answer;
mod builtins;
mod failures;
mod streamed;
