//! Programs started through the library: `executor::process::Program`.

use std::path::Path;

use toolpost::domain::process::ResourceLimits;
use toolpost::executor::Processes;
use toolpost::executor::process::{
    Confinement, ExitKind, ExitReport, ProcessEvent, Program, RunningProcess, WorkDirSpec,
};

use super::*;
use crate::support::bounded;

fn processes() -> Processes {
    let helper = env!("CARGO_BIN_EXE_toolpost");
    Processes::new(helper, false, ResourceLimits::default(), Secrets::new(|_| None))
}

fn script(text: &str, folder: &Path) -> Program {
    Program::new(["sh", "-c", text], WorkDirSpec::Folder(folder.to_owned()))
}

/// Returns the remaining standard output and standard error, and the exit report.
async fn rest(running: &mut RunningProcess) -> (String, String, ExitReport) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        match bounded("the program", running.next()).await.unwrap() {
            ProcessEvent::Stdout(piece) => out.extend_from_slice(&piece),
            ProcessEvent::Stderr(piece) => err.extend_from_slice(&piece),
            ProcessEvent::Exited(ended) => {
                return (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), ended);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_reads_its_input_and_both_its_outputs_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program { input: b"in".to_vec(), ..script("cat; pwd >&2; exit 4", folder.path()) };
    let mut running = processes().start(program).await.unwrap();
    let (out, err, ended) = rest(&mut running).await;
    assert_eq!((out.as_str(), Path::new(err.trim()), &ended.end), ("in", folder.path(), &ExitKind::Exited(4)));
    assert_eq!(ended.end.fault().unwrap().0, "Command exited with code 4");
    assert_eq!(rest(&mut running).await.2, ended, "it has ended for good");
}

#[tokio::test(flavor = "multi_thread")]
async fn confined_program_sees_its_folder_and_the_system() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = other.path().join("file");
    fs::write(&file, "secret").unwrap();
    let text = format!("echo x > inside && cat inside; cat {0}; echo y > {0}", file.display());
    let mut program = script(&text, folder.path());
    program.confinement.read = Confinement::system_and::<&str>([]);
    program.confinement.write.clear();
    let (out, _, ended) = rest(&mut processes().start(program).await.unwrap()).await;
    if ended.sandbox["landlock"] == true {
        assert_eq!((out.as_str(), fs::read_to_string(&file).unwrap().as_str()), ("x\n", "secret"));
        assert_ne!(ended.end, ExitKind::Exited(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_program_is_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let text = "trap 'echo bye; exit' TERM; echo hi; while :; do sleep 0.05; done";
    let mut running = processes().start(script(text, folder.path())).await.unwrap();
    assert_eq!(bounded("a word", running.next()).await.unwrap(), ProcessEvent::Stdout("hi\n".into()));
    running.stop().await;
    let (out, _, ended) = rest(&mut running).await;
    assert_eq!((out.as_str(), ended.end), ("bye\n", ExitKind::Stopped));
}
