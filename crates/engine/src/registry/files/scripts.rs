//! Scripts next to a definition: relative paths in the `argv` of a program in a file of the tools folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::registry::check::Fault;
use toolpost_core::domain::ToolDefinition;
use toolpost_core::domain::tool::ExecutorSpec;

/// Resolves the relative paths in the `argv` of a program against the folder of its definition: the program itself if
/// it contains a slash, and every argument that begins with `./`. Each must be a file inside that folder. If the
/// definition limits what the program may read, these files are added to the readable paths.
///
/// # Errors
/// Returns a fault for every path that is missing, leads out of the folder or is not a usable file.
pub fn resolve(definition: &mut ToolDefinition, file: &Path) -> Result<(), Vec<Fault>> {
    let ExecutorSpec::Process(spec) = &mut definition.executor else { return Ok(()) };
    let is_relative = |(index, argument): (usize, &String)| {
        argument.starts_with("./") || index == 0 && argument.contains('/') && !argument.starts_with('/')
    };
    let relative: Vec<usize> = (0..spec.argv.len()).filter(|index| is_relative((*index, &spec.argv[*index]))).collect();
    if relative.is_empty() {
        return Ok(());
    }
    let folder = match folder_of(file) {
        Ok(folder) => folder,
        Err(error) => {
            return Err(vec![Fault::at("/executor/argv", format!("the folder of the definition is unknown: {error}"))]);
        }
    };
    let mut faults = Vec::new();
    for index in relative {
        match script(&folder, &spec.argv[index], index == 0) {
            Ok(path) => {
                if let Some(read) = &mut spec.read {
                    read.push(path.clone());
                }
                spec.argv[index] = path;
            }
            Err(message) => faults.push(Fault::at(format!("/executor/argv/{index}"), message)),
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Returns the folder of a definition file, with symbolic links resolved.
fn folder_of(file: &Path) -> std::io::Result<PathBuf> {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.canonicalize(),
        _ => Path::new(".").canonicalize(),
    }
}

/// Returns the path of a file in this folder. Symbolic links within the folder stay, because they may be switched
/// later.
fn script(folder: &Path, given: &str, is_program: bool) -> Result<String, String> {
    let path = folder.join(given.trim_start_matches("./"));
    let found = path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("\"{given}\" is not in the folder of the definition, {}", folder.display())
        }
        _ => format!("\"{given}\" cannot be used: {error}"),
    })?;
    if !found.starts_with(folder) {
        return Err(format!("\"{given}\" leads out of the folder of the definition; name it by its absolute path"));
    }
    let metadata = fs::metadata(&found).map_err(|error| format!("\"{given}\" cannot be used: {error}"))?;
    if !metadata.is_file() {
        return Err(format!("\"{given}\" is not a file"));
    }
    if is_program && metadata.permissions().mode() & 0o111 == 0 {
        return Err(format!("\"{given}\" is not executable; make it executable, or put its interpreter before it"));
    }
    path.to_str().map(str::to_owned).ok_or_else(|| format!("the path of \"{given}\" is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::{Value, json};

    use super::*;
    use toolpost_core::domain::tool::read_definition;

    fn definition(executor: Value) -> ToolDefinition {
        let mut executor = executor;
        executor["type"] = "process".into();
        read_definition(json!({"name": "t", "input_schema": {"type": "object"}, "executor": executor})).unwrap()
    }

    /// The resolved `argv` and `read`, or the pointer and message of each fault.
    type ResolveResult = Result<(Vec<String>, Option<Vec<String>>), Vec<(String, String)>>;

    fn resolved(file: &Path, executor: Value) -> ResolveResult {
        let mut definition = definition(executor);
        match resolve(&mut definition, file) {
            Ok(()) => match definition.executor {
                ExecutorSpec::Process(spec) => Ok((spec.argv, spec.read)),
                other => panic!("{other:?}"),
            },
            Err(faults) => Err(faults.into_iter().map(|fault| (fault.pointer, fault.message)).collect()),
        }
    }

    #[test]
    fn relative_paths_are_files_in_the_folder_of_the_definition() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().canonicalize().unwrap().join("tools");
        fs::create_dir_all(folder.join("lib")).unwrap();
        let (file, inside) = (folder.join("tool.json"), |path: &str| folder.join(path).display().to_string());
        for path in ["run.sh", "lib/count.py", "../other.py"] {
            fs::write(folder.join(path), "").unwrap();
        }
        symlink(folder.join("lib/count.py"), folder.join("linked.py")).unwrap();
        symlink(folder.join("../other.py"), folder.join("out.py")).unwrap();
        fs::set_permissions(folder.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();

        let unchanged = json!({"argv": ["python3", "-c", "x", "a/b", "../x", "."], "cwd": "/srv"});
        assert_eq!(resolved(&file, unchanged.clone()).unwrap().0, definition_argv(&unchanged));
        let found = resolved(&file, json!({"argv": ["python3", "./lib/count.py", "./linked.py"], "read": ["/srv"]}));
        let (count, linked) = (inside("lib/count.py"), inside("linked.py"));
        let argv = vec!["python3".to_owned(), count.clone(), linked.clone()];
        assert_eq!(found.unwrap(), (argv, Some(vec!["/srv".to_owned(), count, linked])));
        assert_eq!(resolved(&file, json!({"argv": ["./run.sh"], "cwd": "/"})).unwrap(), (vec![inside("run.sh")], None));

        for (argv, pointer, word) in [
            (json!(["./missing.sh"]), "/executor/argv/0", "\"./missing.sh\" is not in the folder"),
            (json!(["python3", "./missing.py"]), "/executor/argv/1", "\"./missing.py\" is not in the folder"),
            (json!(["../other.py"]), "/executor/argv/0", "leads out"),
            (json!(["python3", "./../other.py"]), "/executor/argv/1", "leads out"),
            (json!(["python3", "./out.py"]), "/executor/argv/1", "leads out"),
            (json!(["ls", "./lib"]), "/executor/argv/1", "is not a file"),
            (json!(["lib/count.py"]), "/executor/argv/0", "is not executable"),
        ] {
            let faults = resolved(&file, json!({"argv": argv})).unwrap_err();
            assert_eq!(faults[0].0, pointer, "{argv}");
            assert!(faults[0].1.contains(word), "{argv}: {faults:?}");
        }
        let both = resolved(&file, json!({"argv": ["./a", "./b"]})).unwrap_err();
        assert_eq!(both.len(), 2);
    }

    fn definition_argv(executor: &Value) -> Vec<String> {
        executor["argv"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap().to_owned()).collect()
    }
}
