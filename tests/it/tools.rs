//! Definitions: listing, registration, replacement, removal and rejection.

mod definitions;
mod files;
mod layers;
mod refusals;
mod schemas;
mod validate;
mod versions;
