//! `toolpost tools list --format`: tool lists for a model's request.

use super::program::Home;

#[test]
fn tools_are_listed_in_the_format_of_a_model() {
    let home = Home::new();
    let list = home.run(&["tools", "list", "--format", "anthropic", "--discovery"]).json();
    let named = |name: &str| list["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == name);
    assert!(named("echo") && named("call_tool") && list["tools"][0]["input_schema"].is_object(), "{list:#}");
    let prompt = home.run(&["tools", "list", "--format", "prompt"]);
    assert!(prompt.out.starts_with("# Available Tools\n\n") && !prompt.out.contains("call_tool"), "{prompt:?}");
}

#[test]
fn unknown_format_is_wrong_usage() {
    let home = Home::new();
    for words in [&["--format", "klingon"][..], &["--format", "mcp", "--json"]] {
        assert_eq!(home.run(&[&["tools", "list"], words].concat()).code, Some(2), "{words:?}");
    }
}
