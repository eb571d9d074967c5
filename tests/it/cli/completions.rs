//! Completions and help.

use std::process::Command;

use super::program::Home;

/// What is completed: the words, the place of the last one, and the result.
const COMPLETED: [(&str, usize, &str); 3] =
    [("toolpost calls re", 2, "rerun"), ("toolpost tools a", 2, "add"), ("toolpost watch --ser", 2, "--server")];

/// Runs a script without the settings of the user. Returns its output.
fn run(shell: &str, option: &str, script: &str) -> String {
    let ended = Command::new(shell).args([option, "-c", script]).output();
    let ended = ended.unwrap_or_else(|error| panic!("{shell}: {error}; `scripts/test` installs it"));
    assert!(ended.status.success(), "{shell}: {ended:?}");
    String::from_utf8_lossy(&ended.stdout).trim().to_owned()
}

#[test]
#[ignore = "surfaces"]
fn completions_are_accepted_by_each_shell() {
    let home = Home::new();
    for (shell, option) in [("bash", "--norc"), ("zsh", "-f"), ("fish", "--no-config")] {
        let ended = home.run(&["completions", shell]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{shell}");
        let file = home.file(shell, &ended.out);
        run(shell, option, &format!("{shell} -n {file}"));
    }
    assert_eq!(home.run(&["completions", "cmd"]).code, Some(2));
}

#[test]
#[ignore = "surfaces"]
fn bash_completes_commands_and_flags() {
    let home = Home::new();
    let file = home.file("bash", &home.run(&["completions", "bash"]).out);
    for (words, last, expected) in COMPLETED {
        let script = format!(
            "source {file}; COMP_WORDS=({words}); COMP_CWORD={last}; _toolpost toolpost ${{COMP_WORDS[{last}]}} \
             ${{COMP_WORDS[{last} - 1]}}; echo \"${{COMPREPLY[@]}}\""
        );
        assert_eq!(run("bash", "--norc", &script), expected);
    }
}

#[test]
#[ignore = "surfaces"]
fn fish_completes_commands_and_flags() {
    let home = Home::new();
    let file = home.file("fish", &home.run(&["completions", "fish"]).out);
    for (words, _, expected) in COMPLETED {
        let completed = run("fish", "--no-config", &format!("source {file}; complete -C '{words}'"));
        assert_eq!(completed.split_once('\t').map(|(word, _)| word), Some(expected), "{completed}");
        assert_eq!(completed.lines().count(), 1, "{completed}");
    }
}

#[test]
#[ignore = "surfaces"]
fn zsh_has_a_completion_of_the_command() {
    let home = Home::new();
    let file = home.file("zsh", &home.run(&["completions", "zsh"]).out);
    let script =
        format!("autoload -Uz compinit; compinit -D -u; source {file}; whence -w _toolpost; print $_comps[toolpost]");
    assert_eq!(run("zsh", "-f", &script), "_toolpost: function\n_toolpost");
}

#[test]
fn help_names_every_command_and_how_to_use_it() {
    let home = Home::new();
    let help = home.run(&["help"]);
    assert_eq!(help.code, Some(0), "{help:?}");
    for command in ["serve", "call", "calls", "watch", "sessions", "tools", "completions", "help", "Exit codes:"] {
        assert!(help.out.contains(command), "{command}: {help:?}");
    }
    for (words, part) in [
        (&["help", "calls", "list"][..], "--min-duration-ms"),
        (&["help", "tools", "try"], "--server <URL>"),
        (&["help", "watch"], "q ends it"),
        (&["help", "completions"], "/completions/toolpost"),
        (&["calls", "help", "rerun"], "--watch"),
    ] {
        let ended = home.run(words);
        assert_eq!((ended.code, ended.out.contains(part)), (Some(0), true), "{words:?}: {ended:?}");
    }
    assert_eq!(home.run(&["help", "unknown"]).code, Some(2));
}
