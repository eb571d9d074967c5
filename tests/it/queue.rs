//! Queued calls: slots, priority, a full queue, and the queue timeout.

mod concurrency;
mod full;
mod priority;
mod timeout;
