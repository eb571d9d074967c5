//! The command line as scripts and people use it: the real program with its own database.

use std::net::TcpListener;

use serde_json::{Value, json};

mod approvals;
mod completions;
mod demo;
mod doctor;
mod export;
mod formats;
mod keys;
mod policies;
pub mod program;
mod proxy;
mod remote;
mod remote_errors;
mod tenant;
mod watch;

use program::{Home, Program};

const GOOD: &str =
    r#"{"name": "shout", "description": "Says it loud.", "executor": {"type": "builtin", "name": "echo"}}"#;

#[test]
fn call_shows_progress_on_stderr_and_its_result_on_stdout() {
    let home = Home::new();
    let ended = home.run(&["call", "wait", r#"{"ms": "1", "steps": 2}"#]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "Waited 1 ms\n"), "{ended:?}");
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(lines[..3], ["WAIT", "coerced /ms: string → integer", "DOING"], "{ended:?}");
    // Progress reports in quick succession are merged, so only the last report is certain to appear.
    assert_eq!(lines[lines.len() - 2], "progress 2/2 1 of 1 ms", "{ended:?}");
    assert!(lines[lines.len() - 1].starts_with("SUCCESS in "), "{ended:?}");
}

#[test]
fn failed_call_is_exit_code_1_with_the_text_for_the_model() {
    let home = Home::new();
    for (words, code, output) in [
        (["wait", r#"{"ms": "soon"}"#], "TOOL_VALIDATION_ERROR", "Error: Invalid parameters for tool \"wait\"\n- /ms"),
        (["wait", r#"{"ms": 1"#], "ARGUMENTS_MALFORMED", "Error: Invalid JSON in arguments for tool \"wait\": "),
        (["wayt", "{}"], "TOOL_NOT_FOUND", "Error: Tool not found: wayt"),
    ] {
        let ended = home.run(&["call", words[0], words[1]]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.out.starts_with(output), "{ended:?}");
        assert!(ended.err.ends_with(&format!("ERROR {code}, not run\n")), "{ended:?}");
    }
}

#[test]
fn json_call_prints_one_line_of_json() {
    let home = Home::new();
    let ended = home.run(&["call", "calculate", r#"{"expression": "6 * 7"}"#, "--json"]);
    let call = ended.json();
    assert_eq!((ended.code, ended.out.lines().count(), ended.err.as_str()), (Some(0), 1, ""), "{ended:?}");
    assert_eq!((&call["status"], &call["output"]), (&json!("SUCCESS"), &json!("42")));
    assert_eq!(call["arguments"], json!({"expression": "6 * 7"}));
    let failed = home.run(&["call", "wait", r#"{"ms": 60000}"#, "--timeout-ms", "1", "--json"]);
    assert_eq!((failed.code, &failed.json()["error"]["code"]), (Some(1), &json!("TOOL_TIMEOUT")));
}

#[test]
fn arguments_are_read_from_standard_input() {
    let home = Home::new();
    let ended = home.run_with_input(&["call", "echo", "-"], "{\"a\": \"北\"}\n");
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "{\"a\":\"北\"}\n"), "{ended:?}");
    let ended = home.run(&["call", "echo"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "{}\n"), "{ended:?}");
}

#[test]
fn interrupted_call_is_settled_with_the_exit_code_of_its_signal() {
    let home = Home::new();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut program = Program::start(&mut home.command(&["call", "wait", r#"{"ms": 300000}"#]));
        program.err("DOING");
        program.signal(signal);
        let ended = program.end();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.err.contains("ERROR SHUTTING_DOWN"), "{ended:?}");
    }
    let stats = home.run(&["stats", "wait", "--json"]).json();
    assert_eq!((&stats["failure_count"], &stats["execution_count"]), (&json!(2), &json!(2)));
}

#[test]
fn tools_are_listed_and_shown_for_people_and_for_programs() {
    let home = Home::new();
    let folder = home.path().join("tools");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("shout.json"), GOOD).unwrap();
    let tools = ["--tools", "tools"];
    let list = home.run(&["tools", "list", tools[0], tools[1]]);
    assert_eq!(list.code, Some(0), "{list:?}");
    assert!(list.out.starts_with("NAME") && !list.out.contains('\u{1b}'), "{list:?}");
    let line = list.out.lines().find(|line| line.starts_with("shout ")).unwrap();
    assert!(line.contains("file") && line.contains("builtin echo") && line.ends_with("Says it loud."), "{line}");
    let listed = home.run(&["tools", "list", "--json", tools[0], tools[1]]).json();
    assert_eq!((&listed["total"], listed["tools"].as_array().unwrap().len()), (&json!(6), 6));
    let shown = home.run(&["tools", "show", "shout", tools[0], tools[1]]);
    assert!(shown.out.starts_with("Says it loud.\n") && shown.out.contains("Input schema:\n{"), "{shown:?}");
    // The displayed definition can be saved as a file and checked.
    let definition = home.run(&["tools", "show", "shout", "--json", tools[0], tools[1]]);
    assert_eq!(definition.json()["source"], "file");
    let file = home.file("again.json", &definition.out);
    assert_eq!(home.run(&["tools", "validate", &file]).code, Some(0));
    let unknown = home.run(&["tools", "show", "ekho"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.starts_with("error: unknown tool \"ekho\"\n  Did you mean \"echo\"?"), "{unknown:?}");
}

#[test]
fn definition_files_are_checked_without_a_database() {
    let home = Home::new();
    let files = Home::new();
    let good = files.file("good.json", GOOD);
    let toml = files.file("good.toml", "name = \"t\"\n[executor]\ntype = \"builtin\"\nname = \"wait\"\n");
    let typo = files.file("typo.json", &GOOD.replace("description", "descripton"));
    let schema = files.file(
        "schema.json",
        r#"{"name": "a b", "input_schema": {"type": "array"}, "executor": {"type": "builtin", "name": "ecco"}}"#,
    );
    let ended = home.run(&["tools", "validate", &good, &toml]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out, format!("{good}: ok (shout)\n{toml}: ok (t)\n"));
    let ended = home.run(&["tools", "validate", &typo, &schema, &good]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for expected in ["/descripton", "a b /name: ", "a b /input_schema", "did you mean \"echo\"?", "good.json: ok"] {
        assert!(ended.out.contains(expected), "{expected}: {ended:?}");
    }
    let several = files.file(
        "several.json",
        r#"[{"name": "one", "titel": "x", "limits": {"timout_ms": 1}, "input_schema": {"type": "array"}},
            {"name": "two", "executor": {"type": "http"}, "tags": 5}, {"executor": {"type": "external"}}]"#,
    );
    let found = home.run(&["tools", "validate", "--json", &several, &schema]).json();
    let errors: Vec<(&Value, &str)> = found[0]["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (&error["tool"], error["pointer"].as_str().unwrap()))
        .collect();
    let (one, two) = (json!("one"), json!("two"));
    for expected in [
        (&one, "/titel"),
        (&one, "/limits/timout_ms"),
        (&one, "/executor"),
        (&one, "/input_schema/type"),
        (&two, "/tags"),
        (&Value::Null, "/name"),
    ] {
        assert!(errors.contains(&expected), "{expected:?}: {found:#}");
    }
    assert!(errors.iter().any(|(tool, at)| **tool == two && at.starts_with("/executor")), "{found:#}");
    assert!(found[1]["errors"].as_array().unwrap().len() > 1, "{found:#}");
    let found = home.run(&["tools", "validate", "--json", &schema, &good, &good]).json();
    assert_eq!(found[0]["errors"][0]["pointer"], "/name");
    assert_eq!((&found[1]["valid"], &found[2]["valid"]), (&json!(true), &json!(false)), "declared twice");
    let missing = home.run(&["tools", "validate", &good, "nowhere.json"]);
    assert_eq!((missing.code, missing.out.as_str()), (Some(2), ""), "{missing:?}");
    assert_eq!(home.run(&["openapi"]).json()["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    assert!(home.is_empty(), "no database was made");
}

#[test]
fn stats_count_the_calls() {
    let home = Home::new();
    home.run(&["call", "echo"]);
    home.run(&["call", "echo", r#"{"a": 1}"#]);
    home.run(&["call", "wait", "{}"]);
    home.run(&["call", "nobody"]);
    let table = home.run(&["stats"]);
    let line = |name: &str| table.out.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().collect();
    let echo: Vec<&str> = line("echo");
    assert_eq!(echo[2..6], ["2", "2", "0", "0"], "{table:?}");
    let calculate: Vec<&str> = line("calculate");
    assert_eq!(calculate[1..3], ["never", "0"], "{table:?}");
    assert!(table.out.contains("(unknown tools)"), "{table:?}");
    let all = home.run(&["stats", "--json"]).json();
    assert_eq!(all["unknown_tools"]["rejected_count"], 1);
    assert_eq!(all["tools"].as_array().unwrap().len(), 5);
    let one = home.run(&["stats", "wait"]);
    assert!(one.out.contains("1  (TOOL_VALIDATION_ERROR 1)"), "{one:?}");
    assert_eq!(home.run(&["stats", "nobody"]).code, Some(2));
}

#[test]
fn unusable_database_is_exit_code_3_with_a_hint() {
    let home = Home::new();
    let ended = home.run(&["call", "echo", "--database-url", "mysql://root:secret@h/d"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.starts_with("error: ") && ended.err.contains("sqlite://PATH"), "{ended:?}");
    assert!(!ended.err.contains("secret"), "{ended:?}");
    let url = format!("sqlite://{}", home.path().display());
    let ended = home.run(&["stats", "--database-url", &url]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains(&url) && ended.err.contains("--database-url URL"), "{ended:?}");
}

#[test]
fn bad_settings_are_exit_code_2() {
    let home = Home::new();
    let typo = home.file("typo.toml", "[limits]\ntimout_ms = 5\n");
    for words in [
        ["--config", typo.as_str()],
        ["--config", "nowhere.toml"],
        ["--tools", "nowhere"],
        ["--egress-allow", "not a host"],
    ] {
        let ended = home.run(&["tools", "list", words[0], words[1]]);
        assert_eq!(ended.code, Some(2), "{words:?}: {ended:?}");
        assert!(ended.err.starts_with("error: ") && ended.err.contains("\n  "), "{ended:?}");
    }
}

#[test]
fn service_prints_its_address_and_stops_at_sigterm() {
    let home = Home::new();
    let mut service = Program::start(&mut home.command(&["serve", "--listen", "127.0.0.1:0"]));
    let line = service.out("toolpost listening on http://127.0.0.1:");
    assert!(!line.ends_with(":0"), "{line}");
    service.signal("TERM");
    let ended = service.end();
    assert_eq!((ended.code, ended.out.lines().count()), (Some(0), 1), "{ended:?}");
    assert!(ended.err.contains("no API keys"), "{ended:?}");
}

#[test]
fn call_works_on_the_database_of_a_running_service() {
    let home = Home::new();
    let mut service = Program::start(home.command(&["serve"]).env("TOOLPOST_LISTEN", "127.0.0.1:0"));
    service.out("toolpost listening on ");
    assert_eq!(home.run(&["call", "echo"]).code, Some(0));
    assert_eq!(home.run(&["stats", "echo", "--json"]).json()["success_count"], 1);
    service.signal("TERM");
    assert_eq!(service.end().code, Some(0));
}

#[test]
fn port_in_use_is_reported_before_the_database_is_opened() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = home.run(&["serve", "--listen", &address]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{ended:?}");
    assert!(
        ended.err.contains(&address) && ended.err.contains("in use") && ended.err.contains("--listen"),
        "{ended:?}"
    );
    assert!(home.is_empty());
}

#[test]
fn service_without_keys_is_local_only() {
    let home = Home::new();
    let ended = home.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.err.contains("no API keys") && ended.err.contains("--insecure-no-auth"), "{ended:?}");
    let mut open = Program::start(&mut home.command(&["serve", "--listen", "0.0.0.0:0", "--insecure-no-auth"]));
    open.out("toolpost listening on http://0.0.0.0:");
    open.signal("TERM");
    assert_eq!(open.end().code, Some(0));
}
