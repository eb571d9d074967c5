//! The hot path inside the process: from a call's JSON to its answer's JSON, without HTTP and without a disk.
