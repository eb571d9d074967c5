//! Inactive tools on the command line.

use serde_json::json;

use super::{Grouping, grouped};
use crate::cli::program::{Home, Program};
use crate::support::Client;

#[tokio::test(flavor = "multi_thread")]
async fn inactive_tools_are_marked_for_people_and_omitted_for_programs() {
    let home = Home::new();
    let mut service = Program::start(home.command(&["serve"]).env("TOOLPOST_LISTEN", "127.0.0.1:0"));
    let line = service.out("toolpost listening on ");
    let client = Client::new(line.trim_start_matches("toolpost listening on "));
    client.groups(&["g"]).await;
    client.register(grouped("mine", &["g"])).await;
    client.deactivate("g").await;
    let list = home.run(&["tools", "list"]);
    assert!(list.out.lines().any(|line| line.starts_with("mine (inactive) ")), "{list:?}");
    assert_eq!(list.out.matches("(inactive)").count(), 1);
    assert_eq!(home.run(&["tools", "list", "--json"]).json()["total"], 5);
    let shown = home.run(&["tools", "show", "mine", "--json"]).json();
    assert_eq!((&shown["active"], &shown["groups"]), (&json!(false), &json!(["g"])));
    assert_eq!(home.run(&["call", "mine"]).code, Some(1));
    service.signal("TERM");
    assert_eq!(service.end().code, Some(0));
}
