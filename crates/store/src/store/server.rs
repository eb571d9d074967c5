//! The Postgres servers of a database URL: parsing, and the choice of the primary among several hosts.

mod choice;
pub mod confirm;
pub mod monitor;
pub mod pools;
mod probe;
pub mod url;
