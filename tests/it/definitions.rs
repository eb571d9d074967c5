//! `GET /tools?format=…`: tool definitions in the formats of models.

mod formats;
mod golden;
mod lists;
mod prompt;
mod round_trip;
