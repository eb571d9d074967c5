//! Tells the ends of calls to the URLs that their callers gave.
