//! `toolpost keys`: the key that signs outgoing requests.

use serde_json::json;

use super::program::{Home, Program};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn signing_secret_is_created_once_and_printed_last() {
    let home = Home::new();
    let shown = home.run(&["keys", "signing-secret"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let secret = shown.out.lines().last().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() == 6 + 44, "{shown:?}");
    let again = home.run(&["keys", "signing-secret", "--json"]);
    assert_eq!(again.json(), json!({"signing_secret": secret}), "{again:?}");
    let other = Home::new().run(&["keys", "signing-secret"]);
    assert!(other.code == Some(0) && other.out != shown.out, "every database has its own: {other:?}");
}

#[test]
fn signing_secret_of_the_environment_takes_precedence_and_is_not_stored() {
    let home = Home::new();
    let words = ["keys", "signing-secret"];
    let given = Program::start(home.command(&words).env("TOOLPOST_SIGNING_SECRET", SECRET)).end();
    assert_eq!((given.code, given.out.as_str()), (Some(0), format!("{SECRET}\n").as_str()), "{given:?}");
    assert!(home.is_empty(), "no database was needed");
    assert_ne!(home.run(&words).out, given.out);
}

#[test]
fn invalid_signing_secret_fails_the_start() {
    let home = Home::new();
    for words in [&["serve", "--listen", "127.0.0.1:0"][..], &["tools", "list"], &["keys", "signing-secret"]] {
        let ended = Program::start(home.command(words).env("TOOLPOST_SIGNING_SECRET", "whsec_c2hvcnQ=")).end();
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{words:?}: {ended:?}");
        assert!(ended.err.contains("error: TOOLPOST_SIGNING_SECRET: a signing secret is `whsec_`"), "{ended:?}");
        assert!(!ended.err.contains("c2hvcnQ"), "{ended:?}");
    }
    assert!(home.is_empty(), "no database was made");
}
