//! Detached calls: the 202 response, and how the calls end.

mod accepted;
mod batches;
mod crash;
mod poll;
mod preference;
mod wait;
