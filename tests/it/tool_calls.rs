//! `POST /tool-calls` with one call.

mod builtins;
mod failures;
mod response;
mod streamed;
