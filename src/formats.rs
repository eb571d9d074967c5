//! How calls and results look to others. Pure functions.

pub mod cut;
pub mod data;
pub mod details;
pub mod native;
