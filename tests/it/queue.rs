//! Calls that wait for their turn: slots, priority, a queue that is full, and waits that take too long.

mod concurrency;
mod full;
mod priority;
mod timeout;
