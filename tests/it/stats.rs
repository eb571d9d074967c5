//! Counts: exact, persistent, and only of what ran.

mod clock_jumps;
mod counts;
mod exact;
mod window;
