//! `--tenant`: one tenant's tools, calls and statistics on the command line.

use serde_json::{Value, json};

use super::program::{Home, Program};
use crate::support::Client;

/// Returns the definition of `shout`, which runs `echo`.
fn shout(description: &str) -> Value {
    json!({"name": "shout", "description": description, "input_schema": {"type": "object"},
        "executor": {"type": "builtin", "name": "echo"}})
}

/// Creates a home in which the tenant `one` and the default tenant each have their own tool `shout`.
async fn two_tenants() -> Home {
    let home = Home::new();
    let made = home.run(&["keys", "create", "--scope", "admin", "--tenant", "one"]);
    let key = made.out.lines().last().unwrap();
    let operators = home.run(&["keys", "create", "--scope", "admin"]);
    let operators = operators.out.lines().last().unwrap();
    let mut service = Program::start(&mut home.command(&["serve", "--listen", "127.0.0.1:0"]));
    let client = Client::new(service.out("toolpost listening on ").trim_start_matches("toolpost listening on "));
    client.with_key(key).register(shout("Of one.")).await;
    client.with_key(operators).register(shout("Of the operator.")).await;
    service.signal("TERM");
    assert_eq!(service.end().code, Some(0));
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_has_its_own_tools_calls_and_counts() {
    let home = two_tenants().await;
    let described = |words: &[&str]| {
        let shown = home.run(&[&["tools", "show", "shout", "--json"][..], words].concat());
        shown.json()["description"].clone()
    };
    assert_eq!(described(&["--tenant", "one"]), "Of one.");
    assert_eq!(described(&[]), "Of the operator.");
    let called = home.run(&["call", "shout", "{}", "--tenant", "one", "--json"]);
    assert_eq!((called.code, &called.json()["status"]), (Some(0), &json!("SUCCESS")), "{called:?}");
    let count = |words: &[&str]| {
        let stats = home.run(&[&["stats", "shout", "--json"][..], words].concat());
        stats.json()["execution_count"].clone()
    };
    assert_eq!(
        (count(&["--tenant", "one"]), count(&["--tenant", "default"]), count(&[])),
        (1.into(), 0.into(), 0.into())
    );
    let of_one = home.run(&["export", "--tenant", "one"]);
    assert_eq!(serde_json::from_str::<Value>(&of_one.out).unwrap()["id"], called.json()["id"]);
    let listed = home.run(&["tools", "list", "--json", "--tenant", "one"]).json();
    let described = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "shout").unwrap();
    assert_eq!(described["description"], "Of one.");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_or_invalid_tenant_is_rejected_with_a_hint() {
    let home = two_tenants().await;
    for words in [&["call", "echo"][..], &["tools", "list"], &["tools", "show", "echo"], &["stats"], &["stats", "echo"]]
    {
        let ended = home.run(&[words, &["--tenant", "oen"]].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{words:?}: {ended:?}");
        assert!(ended.err.contains("error: unknown tenant \"oen\"") && ended.err.contains("keys list"), "{ended:?}");
        for malformed in ["", "a\nb", &"x".repeat(129)] {
            let ended = home.run(&[words, &["--tenant", malformed]].concat());
            assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{words:?}: {ended:?}");
            assert!(ended.err.contains("must have 1 to 128 characters"), "{ended:?}");
        }
    }
    // The rejected commands stored no call for it.
    assert_eq!(home.run(&["export", "--tenant", "oen"]).out, "");
}

#[test]
fn tenant_named_by_tokens_only_may_be_new() {
    let home = Home::new();
    let mut command = home.command(&["stats", "--json", "--tenant", "new"]);
    for (name, value) in [
        ("ISSUER", "https://issuer.example.com"),
        ("AUDIENCE", "toolpost"),
        ("JWKS_URL", "https://issuer.example.com/jwks"),
        ("TENANT_CLAIM", "org"),
    ] {
        command.env(format!("TOOLPOST__AUTH__JWT__{name}"), value);
    }
    let ended = Program::start(&mut command).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
