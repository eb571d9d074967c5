//! Every limit: its documentation, its enforcement, and the response when it is exceeded.

mod documents;
mod rejections;
mod subscribers;
mod tenants;
mod tools;
