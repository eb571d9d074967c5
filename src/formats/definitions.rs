//! Tools as models are told of them.
