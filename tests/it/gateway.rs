//! The service behind a real nginx, under a path prefix and with the configuration that is shipped (`deploy/nginx`).

use crate::support::{App, Backend, Client, Options};

mod addresses;
mod nginx;
mod pages;
mod streams;

use nginx::Nginx;

/// A service, and the way to it through nginx.
async fn behind() -> (App, Nginx) {
    let app = App::start_with(Backend::Sqlite, Options::default()).await;
    let nginx = Nginx::before(&app).await;
    (app, nginx)
}

/// Where a client's service is: its address and port.
fn authority(client: &Client) -> String {
    client.url("").trim_start_matches("http://").to_owned()
}
