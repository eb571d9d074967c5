//! Completions and help.

use std::process::Command;

use super::program::Home;

#[test]
fn completions_are_accepted_by_each_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let ended = home.run(&["completions", shell]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{shell}");
        let file = home.file(shell, &ended.out);
        assert!(ended.out.contains("completions") && ended.out.contains("rerun"), "{shell}");
        // Only bash is installed everywhere.
        match Command::new(shell).args(["-n", &file]).output() {
            Ok(checked) => assert!(checked.status.success(), "{shell}: {checked:?}"),
            Err(error) => assert_ne!(shell, "bash", "{error}"),
        }
    }
    assert_eq!(home.run(&["completions", "cmd"]).code, Some(2));
}

#[test]
fn bash_completes_commands_and_flags() {
    let home = Home::new();
    let file = home.file("bash", &home.run(&["completions", "bash"]).out);
    for (words, last, expected) in
        [("toolpost calls re", 2, "rerun"), ("toolpost tools a", 2, "add"), ("toolpost watch --ser", 2, "--server")]
    {
        let script = format!(
            "source {file}; COMP_WORDS=({words}); COMP_CWORD={last}; _toolpost toolpost ${{COMP_WORDS[{last}]}} \
             ${{COMP_WORDS[{last} - 1]}}; echo \"${{COMPREPLY[@]}}\""
        );
        let completed = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), expected, "{completed:?}");
    }
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
