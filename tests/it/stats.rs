//! Stats: exact, persistent, and only for calls that ran.

mod clock_jumps;
mod counts;
mod exact;
mod window;
