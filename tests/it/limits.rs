//! Every limit: that it is documented, that it holds, and how whoever is beyond it is told.

mod answered;
mod documents;
mod subscribers;
mod tenants;
mod tools;
