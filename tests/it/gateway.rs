//! The service behind a real nginx, under a path prefix and with the shipped configuration (`deploy/nginx`).

use crate::support::{App, Backend, Client, Options};

mod addresses;
mod nginx;
mod pages;
mod streams;

pub use nginx::{NODE_HEADER, Nginx};

/// Starts a service with an nginx in front of it.
async fn behind() -> (App, Nginx) {
    let app = App::start_with(Backend::Sqlite, Options::default()).await;
    let nginx = Nginx::before(&app).await;
    (app, nginx)
}

/// Returns the address and port of a client's service.
fn authority(client: &Client) -> String {
    client.url("").trim_start_matches("http://").to_owned()
}
