//! Server-sent events of one call and of all calls.

mod all;
mod gaps;
mod history;
mod live;
mod nodes;
mod numbers;
mod resume;
