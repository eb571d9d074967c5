//! `toolpost healthcheck`, as a container runtime runs it.

use crate::cli::program::{Home, ProgramOutput};
use crate::support::App;

async fn check(arguments: &[&str], listen: Option<&str>) -> ProgramOutput {
    let home = Home::new();
    let mut command = home.command(&[&["healthcheck"], arguments].concat());
    command.envs(listen.map(|listen| ("TOOLPOST_LISTEN", listen)));
    let ended = tokio::task::spawn_blocking(move || crate::cli::program::Program::start(&mut command).end());
    let ended = ended.await.unwrap();
    assert!(home.is_empty(), "it leaves nothing behind");
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn responding_service_is_healthy() {
    let app = App::on_sqlite().await;
    let authority = app.url("").trim_start_matches("http://").to_owned();
    for (arguments, listen) in [
        (&["--url", &app.url("/healthz")][..], None),
        (&["--url", &app.url("/readyz")], None),
        (&[], Some(authority.as_str())),
        (&[], Some(&authority.replace("127.0.0.1", "0.0.0.0"))),
    ] {
        let ended = check(arguments, listen).await;
        assert_eq!(ended.code, Some(0), "{arguments:?} {ended:?}");
        assert!(ended.out.contains("responded with 200"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_or_missing_responses_are_unhealthy() {
    let app = App::on_sqlite().await;
    let ended = check(&["--url", &app.url("/nowhere")], None).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("responded with 404"), "{ended:?}");
    // Accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/healthz", silent.local_addr().unwrap());
    let ended = check(&["--url", &url, "--timeout-ms", "50"], None).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("did not respond within 50 ms"), "{ended:?}");
    drop(silent);
    let ended = check(&["--url", &url], None).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("does not respond"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_address_is_wrong_usage() {
    for (arguments, listen) in [
        (&["--url", "nowhere"][..], None),
        (&["--url", ""], None),
        (&["--timeout-ms", "0"], None),
        (&[], Some("127.0.0.1:0")),
    ] {
        let ended = check(arguments, listen).await;
        assert_eq!(ended.code, Some(2), "{arguments:?} {ended:?}");
    }
}
