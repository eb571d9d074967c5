//! Tests of the engine, with a whole service.

mod engine;
