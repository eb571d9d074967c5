//! Server-sent events: of one call, and of all.

mod all;
mod history;
mod live;
mod resume;
