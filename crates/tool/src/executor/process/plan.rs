//! The program of a definition, compiled once at registration.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::executor::Secrets;
use crate::executor::http::argument_names::ArgumentNames;
use crate::executor::http::template::{Arguments, Template};
use crate::executor::secrets::is_valid_secret_name;
use toolpost_core::domain::json::pointer_token;
use toolpost_core::domain::process::{EnvValue, NetworkAccess, ProcessSpec, SandboxMode};

/// JSON Pointers within the `executor` object, and messages.
type Faults = Vec<(String, String)>;

/// A compiled definition.
#[derive(Debug)]
pub struct Plan {
    /// The declaration.
    pub spec: ProcessSpec,
    texts: BTreeMap<String, Template>,
}

impl Plan {
    /// Compiles a definition. Placeholders are checked against the properties of the input schema.
    ///
    /// # Errors
    /// Returns every fault.
    pub fn new(spec: &ProcessSpec, schema: &Value) -> Result<Self, Faults> {
        let mut faults = Faults::new();
        check_argv(spec, &mut faults);
        check_paths(spec, &mut faults);
        if spec.sandbox == SandboxMode::Off && spec.network == NetworkAccess::Deny {
            let message = "cannot be \"deny\" if the sandbox is off";
            faults.push(("/network".to_owned(), message.to_owned()));
        }
        let texts = texts(&spec.env, &ArgumentNames::of(schema), &mut faults);
        if faults.is_empty() { Ok(Self { spec: spec.clone(), texts }) } else { Err(faults) }
    }

    /// Returns the environment of a run: `environment`, extended by the declared variables.
    ///
    /// # Errors
    /// Returns a message if a secret is not set or a value is invalid in an environment variable.
    pub fn environment(
        &self,
        mut environment: BTreeMap<String, String>,
        arguments: &Value,
        secrets: Option<&Secrets>,
    ) -> Result<BTreeMap<String, String>, String> {
        let none = Arguments::new();
        let arguments = arguments.as_object().unwrap_or(&none);
        for (name, value) in &self.spec.env {
            let value = match value {
                EnvValue::Secret(secret) => match secrets {
                    Some(secrets) => Some(secrets.get(&secret.secret)?),
                    None => return Err("no secrets are configured".to_owned()),
                },
                EnvValue::Text(_) => self.texts.get(name).and_then(|text| text.render(arguments).ok()),
            };
            match value {
                Some(value) if value.contains('\0') => {
                    return Err(format!("the variable {name} cannot contain U+0000"));
                }
                Some(value) => drop(environment.insert(name.clone(), value)),
                None => drop(environment.remove(name)),
            }
        }
        Ok(environment)
    }
}

fn check_argv(spec: &ProcessSpec, faults: &mut Faults) {
    let mut fault = |pointer: String, message: &str| faults.push((pointer, message.to_owned()));
    match spec.argv.first().map(String::as_str) {
        None | Some("") => fault("/argv".to_owned(), "must begin with the name or the path of a program"),
        Some(program) if program.contains('/') && !program.starts_with('/') && spec.cwd.is_none() => {
            let message = "must be a name that is searched for in PATH, or an absolute path, because the program runs \
                           in a temporary directory. Only a definition in the tools folder can name a file next to it";
            fault("/argv/0".to_owned(), message);
        }
        Some(_) => {}
    }
    // Paths in definition files were resolved to absolute ones before.
    let is_relative = |(index, argument): &(usize, &String)| *index > 0 && argument.starts_with("./");
    for (index, _) in spec.argv.iter().enumerate().filter(is_relative).filter(|_| spec.cwd.is_none()) {
        let message = "names a file in the temporary directory that the program runs in; give an absolute path or a \
                       `cwd`. Only a definition in the tools folder can name a file next to it";
        fault(format!("/argv/{index}"), message);
    }
    for (index, _) in spec.argv.iter().enumerate().filter(|(_, argument)| argument.contains('\0')) {
        fault(format!("/argv/{index}"), "must not contain U+0000");
    }
}

fn check_paths(spec: &ProcessSpec, faults: &mut Faults) {
    let cwd = spec.cwd.iter().map(|path| ("/cwd".to_owned(), path));
    let lists = [("read", &spec.read), ("write", &spec.write)].into_iter().flat_map(|(name, paths)| {
        paths.iter().flatten().enumerate().map(move |(index, path)| (format!("/{name}/{index}"), path))
    });
    let wrong = cwd.chain(lists).filter(|(_, path)| !path.starts_with('/') || path.contains('\0'));
    faults.extend(wrong.map(|(pointer, _)| (pointer, "must be an absolute path".to_owned())));
}

/// Compiles the texts of the environment.
fn texts(
    env: &BTreeMap<String, EnvValue>,
    known: &ArgumentNames<'_>,
    faults: &mut Faults,
) -> BTreeMap<String, Template> {
    let mut texts = BTreeMap::new();
    for (name, value) in env {
        let pointer = format!("/env/{}", pointer_token(name));
        let mut fault = |below: &str, message: &str| faults.push((format!("{pointer}{below}"), message.to_owned()));
        if name.is_empty() || name.contains(['=', '\0']) {
            fault("", "must be the name of a variable: not empty, without `=` and U+0000");
        }
        match value {
            EnvValue::Secret(secret) if !is_valid_secret_name(&secret.secret) => {
                fault("/secret", "must be 1 to 128 characters of A-Z, a-z, 0-9 and `_`");
            }
            EnvValue::Secret(_) => {}
            EnvValue::Text(text) if text.contains('\0') => fault("", "must not contain U+0000"),
            EnvValue::Text(text) => match Template::parse(text) {
                Ok(template) => {
                    template.names().filter_map(|name| known.fault(name)).for_each(|found| fault("", &found));
                    texts.insert(name.clone(), template);
                }
                Err(found) => fault("", &found),
            },
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(spec: Value, schema: Value) -> Result<Plan, Faults> {
        Plan::new(&serde_json::from_value(spec).unwrap(), &schema)
    }

    #[test]
    fn every_fault_has_a_pointer() {
        let spec = json!({"argv": ["", "a\u{0}"], "cwd": "here", "read": ["/", "x"], "write": ["y"],
            "env": {"A=B": "x", "C": {"secret": "a-b"}, "D": "{nme}", "E": "}"}});
        let schema = json!({"type": "object", "properties": {"name": {}}});
        let pointers: Vec<String> = made(spec, schema).unwrap_err().into_iter().map(|(pointer, _)| pointer).collect();
        let relative = |spec: Value| made(spec, json!({"type": "object"})).map_err(|faults| faults[0].0.clone());
        assert_eq!(relative(json!({"argv": ["./run"]})).unwrap_err(), "/argv/0");
        assert!(relative(json!({"argv": ["./run"], "cwd": "/srv"})).is_ok());
        assert_eq!(relative(json!({"argv": ["python3", "./run.py"]})).unwrap_err(), "/argv/1");
        assert!(relative(json!({"argv": ["python3", "./run.py"], "cwd": "/srv"})).is_ok());
        let expected =
            ["/argv", "/argv/1", "/cwd", "/read/1", "/write/0", "/env/A=B", "/env/C/secret", "/env/D", "/env/E"];
        assert_eq!(pointers, expected);
    }

    #[test]
    fn environment_has_declared_variables_and_the_path() {
        let spec = json!({"argv": ["a"], "env": {"A": "<{n}>", "GONE": "{absent}", "S": {"secret": "X"}, "P": "{{}}"}});
        let made = made(spec, json!({"type": "object"})).unwrap();
        let secrets = Secrets::new(|name| Some(format!("value of {name}")));
        let made = |arguments: Value| {
            let path = BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]);
            made.environment(path, &arguments, Some(&secrets))
        };
        let environment = made(json!({"n": 5})).unwrap();
        let names: Vec<&str> = environment.keys().map(String::as_str).collect();
        assert_eq!(names, ["A", "P", "PATH", "S"]);
        assert_eq!([&environment["A"], &environment["S"], &environment["P"]], ["<5>", "value of X", "{}"]);
        let refused = made(json!({"n": "\u{0}"})).unwrap_err();
        assert_eq!(refused, "the variable A cannot contain U+0000");
    }
}
