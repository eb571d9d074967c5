//! Server-sent events: of one call, and of all.

mod all;
mod gaps;
mod history;
mod live;
mod resume;
