//! Models' messages: the calls in what a model said, and what its conversation goes on with.
