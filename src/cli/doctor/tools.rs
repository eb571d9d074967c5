//! Checks of the tools folder, the workspace, the hooks and the sandbox of this machine. They run in a service on an
//! in-memory database, so that the same rules apply.

use std::path::PathBuf;

use crate::app::App;
use crate::config::Config;
use crate::domain::{Time, tool};
use crate::executor::Egress;
use crate::registry::files::ToolsFolder;
use crate::tool::workspace::Workspace;
use serde_json::{Value, json};

use super::{Finding, secrets};

/// Name of the tool that is run to examine the sandbox.
const PROBE: &str = "toolpost_doctor";

/// Runs the checks that need a service.
pub async fn check(config: &Config) -> Vec<(&'static str, Finding)> {
    let app = match App::builder(in_memory(config)).command_line().start().await {
        Ok(app) => app,
        Err(error) => return vec![("start", Finding::fail(error.to_string(), "Fix it in the settings."))],
    };
    let findings = vec![("sandbox", sandbox(&app).await), ("tools folder", folder(&app, &config.tools.dir))];
    app.stop().await;
    findings
}

/// Removes the settings that other checks cover, so that a fault is reported once.
fn in_memory(config: &Config) -> Config {
    let mut config = config.clone();
    "sqlite::memory:".clone_into(&mut config.store.database_url);
    config.tools.dir.clear();
    config.workspace.dir.clear();
    config.telemetry.otlp_endpoint.clear();
    config.secrets.file.clear();
    if Egress::new(&config.egress.allow).is_err() {
        config.egress.allow.clear();
    }
    if secrets::signing_secret(&config).advice.is_some() {
        config.server.signing_secret.0.clear();
    }
    config.secrets.encryption_keys.0.clear();
    config
}

fn folder(app: &App, dir: &str) -> Finding {
    if dir.is_empty() {
        return Finding::ok("not set; only built-in tools and tools registered over the API are available");
    }
    match ToolsFolder::new(PathBuf::from(dir)).read(app.engine.registry()) {
        Err(error) => Finding::fail(
            format!("cannot read {dir}: {error}"),
            "Set --tools to an existing folder of *.json and *.toml files.",
        ),
        Ok(broken) => match broken.first() {
            None => Finding::ok(dir),
            Some(first) => Finding::warn(
                format!(
                    "{} of its files are invalid, such as {}: {}",
                    broken.len(),
                    first.path.display(),
                    first.reason
                ),
                format!("Fix them; `toolpost tools validate {dir}/*` lists all faults. Their tools are missing."),
            ),
        },
    }
}

/// Checks the folder of the workspace tools.
pub fn workspace(config: &Config) -> Finding {
    let dir = &config.workspace.dir;
    if dir.is_empty() {
        return Finding::ok("not set; the tools for files and commands are disabled");
    }
    let opened = match Workspace::open(&PathBuf::from(dir)) {
        Ok(opened) => opened,
        Err(error) => {
            return Finding::fail(format!("cannot use {dir}: {error}"), "Set --workspace to an existing folder.");
        }
    };
    let path = opened.path();
    let is_writable = rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
    if !is_writable {
        let found = format!("{} is readable but not writable", path.display());
        return Finding::warn(
            found,
            "Allow this user to write there, if `write`, `edit` and `bash` should change files.",
        );
    }
    let bash = if config.workspace.bash { "with `bash`" } else { "without `bash`" };
    Finding::ok(format!("{}, {bash}", path.display()))
}

async fn sandbox(app: &App) -> Finding {
    let definition = json!({
        "name": PROBE, "input_schema": {"type": "object"}, "annotations": {"read_only": true},
        "executor": {"type": "process", "argv": ["true"], "network": "deny"},
    });
    let result = tool::read_definition(definition).map_err(|error| error.to_string()).and_then(|definition| {
        let result = app.engine.registry().show_files(vec![(definition, Time(0))]);
        result.map_err(|(_, faults)| crate::registry::check::summary(&faults))
    });
    let advice = "`process` tools do not run on this machine; other tools do. See `process.helper`.";
    if let Err(reason) = result {
        return Finding::warn(reason, advice);
    }
    let Ok(call) = app.call(PROBE, json!({})).await else {
        return Finding::warn("the test program could not be run", advice);
    };
    let outcome = call.outcome.as_deref();
    if let Some(failure) = outcome.and_then(|outcome| outcome.error.as_ref()) {
        return Finding::warn(format!("programs do not run: {}", failure.message), advice);
    }
    of_facts(&outcome.and_then(|outcome| outcome.details.get("sandbox").cloned()).unwrap_or_default())
}

fn of_facts(facts: &Value) -> Finding {
    let network = match facts["network"].as_str() {
        Some("namespace") => "the network is denied by a namespace",
        Some("seccomp") => "the network is denied by seccomp",
        Some("no_tcp") => "only TCP can be denied",
        _ => "the network cannot be denied",
    };
    let unix = match facts["unix_sockets"].as_str() {
        Some("denied") => "Unix sockets by seccomp",
        _ => "Unix sockets cannot be denied",
    };
    let is_denied = matches!(facts["network"].as_str(), Some("namespace" | "seccomp"));
    match facts["landlock_version"].as_i64() {
        Some(version) if is_denied && facts["unix_sockets"] == "denied" => {
            Finding::ok(format!("Landlock {version}; {network}, {unix}"))
        }
        Some(version) => Finding::warn(
            format!("Landlock {version}; {network}; {unix}"),
            "`process` tools with `network: deny` need seccomp and, preferably, a network namespace: allow the service \
             to load filters and to create user namespaces.",
        ),
        None => Finding::warn(
            format!("no Landlock: programs can access the files of this user; {network}"),
            "Use a kernel with Landlock (`lsm=…,landlock`), or declare `process` tools with `sandbox: required` so \
             that they do not run without it.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn sandbox_check_names_available_and_missing_parts() {
        let whole = of_facts(&json!({"landlock_version": 6, "network": "namespace", "unix_sockets": "denied"}));
        assert_eq!(
            (whole.status, whole.found.as_str()),
            (Verdict::Ok, "Landlock 6; the network is denied by a namespace, Unix sockets by seccomp")
        );
        let partly = of_facts(&json!({"landlock_version": 4, "network": "no_tcp", "unix_sockets": "not_enforced"}));
        assert!(partly.status == Verdict::Warn && partly.found.contains("TCP"), "{partly:?}");
        let none = of_facts(&json!({"landlock_version": null, "network": "not_enforced"}));
        assert!(none.status == Verdict::Warn && none.found.starts_with("no Landlock"), "{none:?}");
    }
}
