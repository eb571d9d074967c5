//! What the world sends is changed at random, from a corpus that is kept in `fuzz/corpus`: nothing of it may end in a panic
//! or a 500, and what was promised of good input must hold of any.
//!
//! Every run takes the corpus as it is and then a few changes that are the same each time. `just fuzz` goes on with others
//! for 60 s each (`TOOLPOST_FUZZ_SECONDS`), from a seed that it names (`TOOLPOST_FUZZ_SEED` repeats it). What is found goes
//! into the corpus.

mod driver;
mod over_http;
mod parsers;
mod schemas;
