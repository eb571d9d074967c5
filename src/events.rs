//! Who watches is told: commits fan out to subscribers, and a stream can be resumed from any event.

pub mod bus;
pub mod follow;
pub mod frame;
pub mod render;
pub mod session;
pub mod stream;
pub mod throttle;

pub use bus::Bus;
