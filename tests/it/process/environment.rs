//! The environment and the permissions of a program.

use std::path::Path;

use serde_json::json;

use super::*;
use crate::support::shapes::{failed, succeeded};

#[tokio::test(flavor = "multi_thread")]
async fn environment_has_declared_variables_and_the_path() {
    let app = service_with_secret("sk-planted-1234567").await;
    let mut tool = program("env", &["env"], json!({"env": {"A": "<{city}>", "GONE": "{absent}", "P": "{preset}"}}));
    tool["presets"] = json!({"preset": {"value": "p"}});
    tool["input_schema"] = json!({"type": "object", "properties": {"city": {}, "absent": {}}});
    app.register(tool).await;
    let call = app.call("env", json!({"city": "北; $(x)"})).await;
    let mut lines: Vec<&str> = succeeded(&call).lines().filter(|line| !line.starts_with("PATH=")).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["A=<北; $(x)>", "P=p"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_reaches_the_program_only() {
    let app = service_with_secret("sk-planted-1234567").await;
    let secret = json!({"env": {"KEY": {"secret": "KEY"}}});
    let say = "echo ${#KEY} $KEY; echo $KEY >&2; echo \"{\\\"event\\\":\\\"progress\\\",\\\"tip\\\":\\\"$KEY\\\"}\"";
    for script in [say, &format!("{say}; exit 1"), "yes $KEY | head -c 100000 | tee /dev/stderr; exit 1"] {
        let call = shell_with(&app, script, secret.clone()).await;
        let stored = app.stored(call["id"].as_str().unwrap()).await;
        for shown in [&call, &stored] {
            assert!(!shown.to_string().contains("planted"), "{shown:#}");
        }
    }
    let call = shell_with(&app, say, secret).await;
    assert!(succeeded(&call).starts_with("18 "), "{call:#}");
    let call = shell_with(&app, "true", json!({"env": {"X": {"secret": "OTHER"}}})).await;
    assert!(failed(&call, "TOOL_EXECUTION_ERROR").contains("TOOLPOST_SECRET_OTHER"));
}

#[tokio::test(flavor = "multi_thread")]
async fn working_directory_is_fresh_and_removed_afterwards() {
    let app = service().await;
    let call = shell(&app, "ls -A; echo x > file; mkdir -p a/b; pwd").await;
    let folder = succeeded(&call).trim();
    assert!(folder.contains("toolpost-") && !folder.contains('\n'), "{folder}");
    assert!(!Path::new(folder).exists());
    let named = tempfile::tempdir().unwrap();
    let call = shell_with(&app, "echo x > file; pwd", json!({"cwd": named.path()})).await;
    assert_eq!(succeeded(&call).trim(), named.path().display().to_string());
    assert_eq!(fs::read_to_string(named.path().join("file")).unwrap(), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_descriptor_of_the_service_is_inherited() {
    let app = service().await;
    // The fourth descriptor is the listed folder.
    let call = shell(&app, "exec ls /proc/self/fd").await;
    assert_eq!(succeeded(&call).split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_signal_is_blocked() {
    let app = service().await;
    let call = shell(&app, "exec grep SigBlk /proc/self/status").await;
    assert_eq!(succeeded(&call).split_whitespace().last(), Some("0000000000000000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn program_sees_its_own_processes_and_has_no_terminal() {
    let app = service().await;
    let script = "exec python3 -c 'import os
print(len([name for name in os.listdir(\"/proc\") if name.isdigit()]), os.getpid() == os.getpgid(0))
try: os.open(\"/dev/tty\", os.O_RDWR); print(\"a terminal\")
except OSError: print(\"none\")'";
    let call = shell(&app, script).await;
    let words: Vec<&str> = succeeded(&call).split_whitespace().collect();
    assert_eq!(words[1..], ["True", "none"]);
    // The inner helper and the program itself, if the kernel provides a namespace.
    assert_eq!(call["details"]["sandbox"]["process_namespace"] == true, words[0] == "2", "{call:#}");
    let off = shell_with(&app, "true", json!({"sandbox": "off"})).await;
    let sandbox = &off["details"]["sandbox"];
    for (name, value) in [("process_namespace", json!(false)), ("landlock", json!(false)), ("mode", json!("off"))] {
        assert_eq!(sandbox[name], value, "{off:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn enforced_restrictions_are_reported_and_required_ones_exist() {
    let app = service().await;
    let call = shell_with(&app, "true", json!({"limits": {"cpu_ms": 1500}})).await;
    let sandbox = &call["details"]["sandbox"];
    assert_eq!(sandbox["limits"]["cpu_ms"], 1500, "{call:#}");
    assert_eq!((&sandbox["network"], sandbox["landlock"].is_boolean()), (&json!("allowed"), true));
    let required = shell_with(&app, "printf ran", json!({"sandbox": "required"})).await;
    if sandbox["landlock"] == true {
        assert_eq!(succeeded(&required), "ran");
    } else {
        assert!(failed(&required, "TOOL_EXECUTION_ERROR").contains("no Landlock"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_writes_only_where_allowed() {
    let app = service().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let script = format!("echo x > inside && echo x > {} && printf written", file.display());
    assert_eq!(succeeded(&shell_with(&app, &script, json!({"write": [folder.path()]})).await), "written");
    let call = shell_with(&app, &script, json!({"write": []})).await;
    if call["details"]["sandbox"]["landlock"] == true {
        failed(&call, "TOOL_EXECUTION_ERROR");
        let read = format!("cat {}", file.display());
        failed(&shell_with(&app, &read, json!({"read": [], "write": []})).await, "TOOL_EXECUTION_ERROR");
        assert_eq!(succeeded(&shell_with(&app, &read, json!({"read": [folder.path()], "write": []})).await), "x\n");
        // The program must not read the service's memory and environment.
        let service = format!("cat /proc/{}/environ", std::process::id());
        failed(&shell(&app, &service).await, "TOOL_EXECUTION_ERROR");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_without_the_network_reaches_nothing() {
    let app = service().await;
    let (host, port) =
        app.url("").trim_start_matches("http://").trim_end_matches('/').rsplit_once(':').map(owned).unwrap();
    let script = format!(
        "import socket\ntry:\n  socket.create_connection(('{host}', {port}), 5)\n  print('reached', end='')\n\
         except OSError:\n  print('refused', end='')"
    );
    for (network, expected) in [("allow", "reached"), ("deny", "refused")] {
        app.register(program(network, &["python3", "-c", &script], json!({"network": network}))).await;
        let call = app.call(network, json!({})).await;
        if call["details"]["sandbox"]["network"] != "not_enforced" {
            assert_eq!(succeeded(&call), expected, "{call:#}");
        }
    }
}

fn owned((host, port): (&str, &str)) -> (String, String) {
    (host.to_owned(), port.to_owned())
}
