//! Calls that their caller does not wait for: 202, and what becomes of them.

mod accepted;
mod batches;
mod crash;
mod poll;
mod preference;
mod wait;
