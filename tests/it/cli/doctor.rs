//! `toolpost doctor`: its findings and hints, and that it leaves no files behind.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::Value;

use super::program::{Home, ProgramOutput};
use crate::support::{Backend, Database, Node};

/// Returns the check of this name.
fn the_check<'c>(report: &'c Value, name: &str) -> &'c Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

fn status<'c>(report: &'c Value, name: &str) -> &'c str {
    let check = the_check(report, name);
    let has_advice = check["advice"].as_str().is_some_and(|advice| !advice.is_empty());
    assert_eq!(has_advice, check["status"] != "OK", "{check:#}");
    check["status"].as_str().unwrap()
}

fn doctor(home: &Home, more: &[&str], settings: &[(&str, &str)]) -> ProgramOutput {
    let mut words = vec!["doctor", "--json", "--listen", "127.0.0.1:0"];
    words.extend(more);
    let mut command = home.command(&words);
    command.envs(settings.iter().copied());
    super::Program::start(&mut command).end()
}

#[test]
fn healthy_setup_is_listed_without_leftovers() {
    let home = Home::new();
    let ended = home.run(&["doctor", "--listen", "127.0.0.1:0"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(home.is_empty(), "it made something");
    for line in ended.out.lines() {
        assert!(["OK    ", "WARN  ", "      "].iter().any(|begin| line.starts_with(begin)), "{line}");
    }
    let report = doctor(&home, &[], &[]).json();
    assert_eq!(report["ok"], true, "{report:#}");
    for name in
        ["settings", "database", "egress", "signing secret", "tools folder", "workspace", "listen address", "clock"]
    {
        assert_eq!(status(&report, name), "OK");
    }
    // The result depends on the machine, but the sandbox is checked.
    assert!(["OK", "WARN"].contains(&status(&report, "sandbox")));
    assert!(!the_check(&report, "sandbox")["found"].as_str().unwrap().contains("programs do not run"), "{report:#}");
    assert_eq!(status(&report, "encryption keys"), "WARN");
}

#[test]
fn fault_has_a_hint_and_exit_code_1() {
    let home = Home::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    // A listener that does not speak HTTP.
    thread::spawn(move || {
        while let Ok((mut stream, _)) = other.accept() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"220 hello\r\n");
        }
    });
    let settings = home.file("bad.toml", "[limits]\ntimout_ms = 5\n");
    let folder = Home::new();
    let tools = folder.file("tool.json", "{\"name\": \"a b\"}");
    let tools = tools.trim_end_matches("/tool.json");
    for (name, words, variables) in [
        ("settings", vec!["--config", settings.as_str()], vec![]),
        ("database", vec!["--database-url", "mysql://root:hidden@h/d"], vec![]),
        ("database", vec!["--database-url", "postgres://root:hidden@127.0.0.1:1/d"], vec![]),
        ("database", vec!["--database-url", "sqlite:///proc/no/such.db"], vec![]),
        ("egress", vec!["--egress-allow", "10.0.0.0/99"], vec![]),
        ("signing secret", vec![], vec![("TOOLPOST_SIGNING_SECRET", "whsec_hidden")]),
        ("encryption keys", vec![], vec![("TOOLPOST_ENCRYPTION_KEYS", "hidden")]),
        ("secrets file", vec![], vec![("TOOLPOST_SECRETS_FILE", "/no/such/file")]),
        ("tools folder", vec!["--tools", "/no/such/folder"], vec![]),
        ("workspace", vec!["--workspace", "/no/such/folder"], vec![]),
        ("listen address", vec!["--listen", address.as_str()], vec![]),
        ("listen address", vec!["--listen", "0.0.0.0:0"], vec![]),
        ("listen address", vec!["--listen", "127.0.0.1"], vec![]),
        ("traces", vec![], vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")]),
    ] {
        let mut all = vec!["doctor", "--json"];
        if !words.contains(&"--listen") {
            all.extend(["--listen", "127.0.0.1:0"]);
        }
        all.extend(&words);
        let mut command = home.command(&all);
        command.envs(variables);
        let ended = super::Program::start(&mut command).end();
        assert_eq!(ended.code, Some(1), "{name}: {ended:?}");
        let report = ended.json();
        assert_eq!((report["ok"].as_bool(), status(&report, name)), (Some(false), "FAIL"), "{report:#}");
        assert!(!ended.out.contains("hidden"), "{ended:?}");
        let failed = report["checks"].as_array().unwrap().iter().filter(|check| check["status"] == "FAIL").count();
        assert_eq!(failed, 1, "one fault is told once: {report:#}");
    }
    let report = doctor(&home, &["--tools", tools], &[]).json();
    assert_eq!(status(&report, "tools folder"), "WARN");
    let found = the_check(&report, "tools folder")["found"].as_str().unwrap();
    assert!(found.starts_with("1 of ") && found.contains("tool.json"), "{found}");
}

on_both_databases!(
    async fn database_is_inspected_before_during_and_after_a_service(backend: Backend) {
        let database = Database::empty(backend).await;
        let look = async || {
            let url = database.url.clone();
            let looking = tokio::task::spawn_blocking(move || doctor(&Home::new(), &["--database-url", &url], &[]));
            let ended = looking.await.unwrap();
            assert_eq!(ended.code, Some(0), "{ended:?}");
            ended.json()
        };
        let fresh = look().await;
        assert_eq!(status(&fresh, "database"), "OK");
        let mut node = Node::on(database.clone(), &[]).await;
        let used = look().await;
        for name in ["database", "migrations", "writing", "clock"] {
            assert_eq!(status(&used, name), "OK", "{used:#}");
        }
        let found = the_check(&used, "database")["found"].as_str().unwrap();
        assert_eq!(found.contains("a service is using it"), backend == Backend::Sqlite, "{found}");
        assert!(the_check(&used, "migrations")["found"].as_str().unwrap().starts_with("all "));
        assert_eq!(node.call("echo", serde_json::json!({})).await["status"], "SUCCESS");
        node.signal("TERM");
        assert_eq!(node.end().await.code, Some(0));
    }
);

#[tokio::test(flavor = "multi_thread")]
async fn read_only_database_is_a_fault() {
    requires_postgres!();
    let database = Database::fresh(Backend::Postgres).await;
    let separator = if database.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-c%20default_transaction_read_only%3Don", database.url);
    let looking = tokio::task::spawn_blocking(move || doctor(&Home::new(), &["--database-url", &url], &[]));
    let ended = looking.await.unwrap();
    assert_eq!((ended.code, status(&ended.json(), "writing")), (Some(1), "FAIL"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn running_service_is_no_fault() {
    let node = Node::start(Backend::Sqlite, &[]).await;
    let address = node.url("").trim_start_matches("http://").to_owned();
    let home = Home::new();
    let looking = tokio::task::spawn_blocking(move || home.run(&["doctor", "--json", "--listen", &address]));
    let ended = looking.await.unwrap();
    assert_eq!((ended.code, status(&ended.json(), "listen address")), (Some(0), "WARN"), "{ended:?}");
}

#[test]
fn exposed_address_needs_keys_until_the_first_exists() {
    let home = Home::new();
    let url = format!("sqlite://{}", home.file("t.db", "").as_str());
    let look = |more: &[&str]| {
        let mut words = vec!["doctor", "--json", "--listen", "0.0.0.0:0", "--database-url", &url];
        words.extend(more);
        home.run(&words)
    };
    let open = look(&[]);
    assert_eq!((open.code, status(&open.json(), "listen address")), (Some(1), "FAIL"), "{open:?}");
    let report = look(&["--insecure-no-auth"]);
    assert_eq!((report.code, status(&report.json(), "listen address")), (Some(0), "WARN"), "{report:?}");
    let made = home.run(&["keys", "create", "--scope", "call", "--database-url", &url]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let closed = look(&[]);
    assert_eq!((closed.code, status(&closed.json(), "listen address")), (Some(0), "OK"), "{closed:?}");
}

#[test]
fn workspace_is_listed_with_its_folder() {
    let (home, folder) = (Home::new(), tempfile::tempdir().unwrap());
    let report = doctor(&home, &["--workspace", folder.path().to_str().unwrap()], &[]).json();
    assert_eq!(status(&report, "workspace"), "OK");
    let found = the_check(&report, "workspace")["found"].as_str().unwrap();
    assert!(found.contains(folder.path().canonicalize().unwrap().to_str().unwrap()), "{found}");
}
