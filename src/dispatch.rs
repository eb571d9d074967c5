//! Who runs when: slots for calls, in the order of their priority.
