//! Every limit: that it is documented, that it holds, and how whoever is beyond it is told.

mod documents;
mod rejections;
mod subscribers;
mod tenants;
mod tools;
