//! Models' streams: which calls open, what is known of their arguments, and when each is complete.
