//! Counts: exact, persistent, and only of what ran.

mod counts;
mod exact;
mod window;
