//! The console: what is served, who is signed in, and its screens in a real browser.

mod browser;
mod files;
mod sign_in;
mod system;
