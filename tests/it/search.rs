//! Finding tools: `GET /tools?q=…`, and the two tools by which a model finds and calls all others.

mod discovery;
mod query;
