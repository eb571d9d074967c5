//! `GET /tools?format=…`: tools as models are told of them.

mod formats;
mod golden;
mod lists;
mod prompt;
mod round_trip;
