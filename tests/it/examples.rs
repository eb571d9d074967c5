//! The examples in `examples/`, each run as a program against a running service.

use std::path::Path;
use std::process::Output;

use tokio::process::Command;

use crate::support::App;
use crate::support::LIMIT;
use crate::support::fixture::project_file;

/// Runs an example against this service and returns its output.
async fn printed(app: &App, example: &str) -> String {
    let file = project_file("examples").join(example);
    let program = match file.extension().and_then(|extension| extension.to_str()) {
        Some("py") => "python3".into(),
        Some("ts") => project_file("examples/node_modules/.bin/tsx"),
        _ => "node".into(),
    };
    let hint = "`scripts/test` installs what the examples are run with";
    let output = run(&program, &file, &app.url("")).await.unwrap_or_else(|error| {
        panic!("{} cannot be started ({error}); {hint}", program.display());
    });
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {}\n{text}\n{error}", output.status);
    text
}

async fn run(program: &Path, file: &Path, service: &str) -> std::io::Result<Output> {
    let mut command = Command::new(program);
    command.arg(file).arg(service).env("PYTHONIOENCODING", "utf-8").kill_on_drop(true);
    tokio::time::timeout(LIMIT, command.output()).await.expect("the example ends")
}

macro_rules! examples {
    ($($name:ident: $file:literal says $words:expr;)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "surfaces"]
        async fn $name() {
            let text = printed(&App::on_sqlite().await, $file).await;
            let words: &[&str] = &$words;
            for word in words {
                assert!(text.contains(word), "no {word:?} in what {} printed:\n{text}", $file);
            }
        }
    )+};
}

/// A first call with invalid arguments fails with the reason; the second call succeeds, for both vendors.
const LOOP: [&str; 3] = ["openai", "anthropic", "The forecast is"];
/// Cards open, are filled, and end.
const CARDS: [&str; 4] = ["forecast", "Zürich", "北京", "SUCCESS"];

examples! {
    the_python_client_speaks_to_the_service: "client.py" says ["SUCCESS", "ERROR"];
    the_node_client_speaks_to_the_service: "client.mjs" says ["SUCCESS", "ERROR"];
    the_python_agent_mends_its_call: "agent_loop.py" says LOOP;
    the_typescript_agent_mends_its_call: "agent_loop.ts" says LOOP;
    the_python_cards_fill_while_the_model_speaks: "stream_cards.py" says CARDS;
    the_typescript_cards_fill_while_the_model_speaks: "stream_cards.ts" says CARDS;
}
