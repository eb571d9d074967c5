//! Tools that are programs on the server: no shell, JSON on standard input, the result on standard output. Each runs below
//! a helper, this program once more, which confines it and leaves nothing of it behind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;

use super::http::known::Known;
use super::http::template::{Arguments, Template};
use super::mcp::keeper;
use super::secrets::is_valid_secret_name;
use super::{BoxFuture, Executor, Invocation, Secrets};
use crate::domain::json::pointer_token;
use crate::domain::process::{EnvValue, ProcessSpec};
use crate::domain::{Answer, Failure};

mod confine;
mod output;
mod protocol;
mod run;
mod supervise;
mod tail;
pub(super) mod tree;
mod verdict;

/// Where programs are looked for if neither the definition nor the service says so.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// What this program is called, whose file is its own helper.
const OWN_NAME: &str = "toolpost";

/// How this service runs programs. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    helper: Option<Arc<Path>>,
    /// Whether `process` tools may be registered over the API.
    pub registration: bool,
    secrets: Option<Secrets>,
}

impl Processes {
    /// With the program `toolpost` as the helper; an empty path is this program itself, if it is that.
    #[must_use]
    pub fn new(helper: &str, registration: bool, secrets: Secrets) -> Self {
        let helper = if helper.is_empty() { own_helper() } else { Some(PathBuf::from(helper)) };
        Self { helper: helper.map(Into::into), registration, secrets: Some(secrets) }
    }

    /// The program that runs others for the service.
    pub(super) fn helper(&self) -> Option<&Path> {
        self.helper.as_deref()
    }
}

/// This program itself, by a name that stays good when its file is replaced.
fn own_helper() -> Option<PathBuf> {
    let file = std::env::current_exe().ok()?;
    let name = file.file_name()?.to_str()?;
    (name.trim_end_matches(" (deleted)") == OWN_NAME).then(|| PathBuf::from("/proc/self/exe"))
}

/// Runs this process as the helper of another one, if that has started it for it: the first thing that `main` does in a
/// program that is its own helper.
#[must_use]
pub fn run_helper_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    match first.to_str()? {
        protocol::SUPERVISE => Some(supervise::main()),
        name @ (protocol::CONFINE | keeper::KEEP | keeper::BECOME) => {
            let rest: Option<Vec<String>> = arguments.map(|argument| argument.into_string().ok()).collect();
            let run = match name {
                keeper::KEEP => keeper::keep,
                keeper::BECOME => keeper::become_program,
                _ => confine::main,
            };
            Some(rest.map_or(ExitCode::from(2), |rest| run(&rest)))
        }
        _ => None,
    }
}

/// Runs calls of one tool by a program each.
#[derive(Debug, Clone)]
pub struct ProcessExecutor {
    plan: Arc<Plan>,
    processes: Processes,
}

/// A checked definition.
#[derive(Debug)]
struct Plan {
    spec: ProcessSpec,
    texts: BTreeMap<String, Template>,
}

impl ProcessExecutor {
    /// Reads and checks a definition's program, so that no call meets one that cannot work.
    ///
    /// # Errors
    /// Every fault: a JSON Pointer within the `executor` object, and a sentence.
    pub fn new(spec: &ProcessSpec, schema: &Value, processes: Processes) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Vec::new();
        let mut fault = |pointer: String, message: &str| faults.push((pointer, message.to_owned()));
        if spec.argv.first().is_none_or(String::is_empty) {
            fault("/argv".to_owned(), "must begin with the name or the path of a program");
        }
        for (index, argument) in spec.argv.iter().enumerate().filter(|(_, argument)| argument.contains('\0')) {
            let _ = argument;
            fault(format!("/argv/{index}"), "must not hold U+0000");
        }
        let named = spec.cwd.iter().map(|path| ("/cwd".to_owned(), path));
        let list = |name: &'static str, paths: &'_ Option<Vec<String>>| -> Vec<(String, String)> {
            let paths = paths.iter().flatten().enumerate();
            paths.map(|(index, path)| (format!("/{name}/{index}"), path.clone())).collect()
        };
        let named = named.map(|(pointer, path)| (pointer, path.clone()));
        for (pointer, path) in named.chain(list("read", &spec.read)).chain(list("write", &spec.write)) {
            if !path.starts_with('/') || path.contains('\0') {
                fault(pointer, "must be an absolute path");
            }
        }
        let known = Known::of(schema);
        let mut texts = BTreeMap::new();
        for (name, value) in &spec.env {
            let pointer = format!("/env/{}", pointer_token(name));
            if name.is_empty() || name.contains(['=', '\0']) {
                fault(pointer.clone(), "must not be the name of a variable: it is empty, or holds `=` or U+0000");
            }
            match value {
                EnvValue::Secret(secret) if !is_valid_secret_name(&secret.secret) => {
                    fault(format!("{pointer}/secret"), "must be 1 to 128 of A-Z, a-z, 0-9 and `_`");
                }
                EnvValue::Secret(_) => {}
                EnvValue::Text(text) if text.contains('\0') => fault(pointer, "must not hold U+0000"),
                EnvValue::Text(text) => match Template::parse(text) {
                    Ok(template) => {
                        template.names().filter_map(|name| known.fault(name)).for_each(|found| {
                            fault(pointer.clone(), &found);
                        });
                        texts.insert(name.clone(), template);
                    }
                    Err(found) => fault(pointer, &found),
                },
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self { plan: Arc::new(Plan { spec: spec.clone(), texts }), processes })
    }
}

impl Executor for ProcessExecutor {
    fn execute(&self, invocation: Invocation) -> BoxFuture<Result<Answer, Failure>> {
        let Self { plan, processes } = self.clone();
        Box::pin(async move { run::run(&plan, &processes, &invocation).await })
    }
}

impl Plan {
    /// The whole environment of a run.
    fn environment(&self, arguments: &Value, secrets: Option<&Secrets>) -> Result<BTreeMap<String, String>, String> {
        let none = Arguments::new();
        let arguments = arguments.as_object().unwrap_or(&none);
        let path = std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned());
        let mut environment = BTreeMap::from([("PATH".to_owned(), path)]);
        for (name, value) in &self.spec.env {
            let value = match value {
                EnvValue::Secret(secret) => match secrets {
                    Some(secrets) => Some(secrets.get(&secret.secret)?),
                    None => return Err("this service has no secrets".to_owned()),
                },
                EnvValue::Text(_) => self.texts.get(name).and_then(|text| text.render(arguments, str::to_owned).ok()),
            };
            match value {
                Some(value) if value.contains('\0') => {
                    return Err(format!("the variable {name} cannot hold U+0000"));
                }
                Some(value) => drop(environment.insert(name.clone(), value)),
                None => drop(environment.remove(name)),
            }
        }
        Ok(environment)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(spec: Value, schema: Value) -> Result<ProcessExecutor, Vec<(String, String)>> {
        ProcessExecutor::new(&serde_json::from_value(spec).unwrap(), &schema, Processes::default())
    }

    #[test]
    fn every_fault_of_a_definition_is_told_with_its_place() {
        let spec = json!({"argv": ["", "a\u{0}"], "cwd": "here", "read": ["/", "x"], "write": ["y"],
            "env": {"A=B": "x", "C": {"secret": "a-b"}, "D": "{nme}", "E": "}"}});
        let schema = json!({"type": "object", "properties": {"name": {}}});
        let pointers: Vec<String> = made(spec, schema).unwrap_err().into_iter().map(|(pointer, _)| pointer).collect();
        let expected =
            ["/argv", "/argv/1", "/cwd", "/read/1", "/write/0", "/env/A=B", "/env/C/secret", "/env/D", "/env/E"];
        assert_eq!(pointers, expected);
    }

    #[test]
    fn the_environment_is_what_is_declared_and_the_path() {
        let spec = json!({"argv": ["a"], "env": {"A": "<{n}>", "GONE": "{absent}", "S": {"secret": "X"}, "P": "{{}}"}});
        let made = made(spec, json!({"type": "object"})).unwrap();
        let secrets = Secrets::new(|name| Some(format!("value of {name}")));
        let environment = made.plan.environment(&json!({"n": 5}), Some(&secrets)).unwrap();
        let names: Vec<&str> = environment.keys().map(String::as_str).collect();
        assert_eq!(names, ["A", "P", "PATH", "S"]);
        assert_eq!([&environment["A"], &environment["S"], &environment["P"]], ["<5>", "value of X", "{}"]);
        let refused = made.plan.environment(&json!({"n": "\u{0}"}), Some(&secrets)).unwrap_err();
        assert_eq!(refused, "the variable A cannot hold U+0000");
    }
}
