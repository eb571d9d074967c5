//! Fuzz tests of external input, mutated from the corpus in `fuzz/corpus`. No input may cause a panic or a 500, and
//! each invariant for valid input must hold for every input.
//!
//! Every test run takes the corpus and a few mutations that are always the same. `just fuzz` tries other mutations for
//! 60 s per target (`TOOLPOST_FUZZ_SECONDS`) and prints its seed (`TOOLPOST_FUZZ_SEED` repeats it). Add failing inputs
//! to the corpus.

mod driver;
mod expressions;
mod mcp;
mod over_http;
mod parsers;
mod schemas;
