//! The leak test: plants secrets and context values in every source, lets tools leak them in every way, and searches
//! all responses and files of the service for them.

mod dump;
mod leak;
mod markers;
