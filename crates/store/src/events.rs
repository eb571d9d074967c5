//! Event streams: the fan-out of commits to subscribers, and streams that can be resumed from any event.

pub mod bus;
pub mod follow;
pub mod frame;
pub mod remote;
pub mod render;
pub mod session;
pub mod stream;
pub mod throttle;

pub use bus::Bus;
