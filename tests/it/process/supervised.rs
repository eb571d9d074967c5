//! Long-running programs, which leave no processes behind either.

use std::collections::BTreeMap;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Child;
use toolpost::domain::process::ResourceLimits;
use toolpost::executor::Processes;
use toolpost::executor::process::supervised_command;

use super::cleanup::FAMILY;
use super::*;
use crate::support::bounded;

fn started(script: &str, env: &[(&str, &str)]) -> Child {
    let helper = env!("CARGO_BIN_EXE_toolpost");
    let processes = Processes::new(helper, false, ResourceLimits::default(), Secrets::new(|_| None));
    let argv = ["/bin/sh", "-c", script].map(str::to_owned);
    let env: BTreeMap<String, String> = env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    supervised_command(&processes, &argv, &env, None).unwrap().spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn supervised_program_communicates_directly() {
    let script =
        "pwd; env | sort; ls /proc/self/fd | wc -l; while read line; do echo \"got $line\"; done; echo bye >&2; exit 7";
    let mut child = started(script, &[("PATH", "/usr/bin:/bin"), ("KEY", "value")]);
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next_line = async || bounded("a line", out.next_line()).await.unwrap().unwrap_or_default();
    let mut lines = Vec::new();
    for _ in 0..5 {
        lines.push(next_line().await);
    }
    // The shell sets `PWD` itself; the fourth descriptor is the listed folder.
    assert_eq!(lines, ["/", "KEY=value", "PATH=/usr/bin:/bin", "PWD=/", "4"]);
    let mut stdin = child.stdin.take().unwrap();
    for word in ["one", "two"] {
        stdin.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        assert_eq!(next_line().await, format!("got {word}"));
    }
    drop(stdin);
    let mut errors = String::new();
    bounded("its errors", child.stderr.take().unwrap().read_to_string(&mut errors)).await.unwrap();
    assert_eq!((errors.as_str(), bounded("its end", child.wait()).await.unwrap().code()), ("bye\n", Some(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn supervised_program_that_cannot_start_is_reported() {
    let child = started("exec /no/such/program", &[("PATH", "/bin")]);
    let output = bounded("its end", child.wait_with_output()).await.unwrap();
    assert_eq!(output.status.code(), Some(127));
    let helper = env!("CARGO_BIN_EXE_toolpost");
    let processes = Processes::new(helper, false, ResourceLimits::default(), Secrets::new(|_| None));
    let argv = ["/no/such/program".to_owned()];
    let mut command = supervised_command(&processes, &argv, &BTreeMap::new(), None).unwrap();
    let output = bounded("its end", command.output()).await.unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "program \"/no/such/program\" not found\n");
    assert_eq!(output.status.code(), Some(127));
    let nobody = supervised_command(&Processes::default(), &argv, &BTreeMap::new(), None);
    assert!(nobody.unwrap_err().to_string().contains("`helper` in `[process]`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_it_nothing_is_left() {
    for way in ["drop", "KILL", "TERM"] {
        let mark = mark();
        let mut child = started(FAMILY, &[("PATH", "/usr/bin:/bin"), ("MARK", &mark)]);
        // The helpers have an environment of their own.
        wait_for_some(&mark, 7).await;
        if way != "drop" {
            let id = child.id().unwrap().to_string();
            assert!(std::process::Command::new("kill").args(["-s", way, &id]).status().unwrap().success());
            bounded("the end of the helper", child.wait()).await.unwrap();
        }
        drop(child);
        wait_for_none(&mark).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn supervised_program_ends_with_a_killed_service() {
    let mark = mark();
    let mut service = std::process::Command::new(std::env::current_exe().unwrap());
    service.args(["--exact", "process::supervised::killed_service", "--ignored"]);
    let mut service = service.env("SUPERVISED_MARK", &mark).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_for_some(&mark, 7).await;
    service.kill().unwrap();
    service.wait().unwrap();
    wait_for_none(&mark).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by the test before"]
async fn killed_service() {
    let Ok(mark) = std::env::var("SUPERVISED_MARK") else { return };
    let mut child = started(FAMILY, &[("PATH", "/usr/bin:/bin"), ("MARK", &mark)]);
    // The wait is bounded, in case the process is not killed.
    let _ = bounded("being killed", child.wait()).await;
}
