//! Lowering: a schema in the subset that a vendor takes, with what was lost, and the way back for the arguments.
