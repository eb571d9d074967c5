//! The leak test: secrets and context values are planted wherever they can come from, tools say them in every way they
//! can, and then everything that the service has said or written is searched for them.

mod dump;
mod leak;
mod markers;
