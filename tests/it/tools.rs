//! Definitions: listing, registering, replacing, removing, and what is refused.

mod definitions;
mod files;
mod layers;
mod refusals;
mod schemas;
mod validate;
mod versions;
