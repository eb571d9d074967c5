//! Tests of the settings.

use super::*;

#[test]
fn embedded_defaults_are_complete() {
    let config = Config::default();
    assert_eq!(config.limits.timeout_ms, 30_000);
    assert!(config.database_url().ends_with("toolpost/toolpost.db"));
}

#[test]
fn file_overrides_defaults_and_unknown_setting_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolpost.toml");
    std::fs::write(&file, "[limits]\ntimeout_ms = 5\n").unwrap();
    let config = Config::load(Some(&file)).unwrap();
    assert_eq!((config.limits.timeout_ms, config.limits.max_timeout_ms), (5, 1_800_000));
    std::fs::write(&file, "[limits]\ntimout_ms = 5\n").unwrap();
    assert!(Config::load(Some(&file)).unwrap_err().to_string().contains("timout_ms"));
}

#[test]
fn illegal_name_separator_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolpost.toml");
    std::fs::write(&file, "[mcp]\nname_separator = \"-\"\n").unwrap();
    assert_eq!(Config::load(Some(&file)).unwrap().mcp.name_separator.as_str(), "-");
    for illegal in ["", ".", "/", "123456789"] {
        std::fs::write(&file, format!("[mcp]\nname_separator = \"{illegal}\"\n")).unwrap();
        let message = Config::load(Some(&file)).unwrap_err().to_string();
        assert!(message.contains("name separator"), "{message}");
    }
}

#[test]
fn context_objects_keep_types_and_are_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolpost.toml");
    std::fs::write(&file, "[context.user]\nName = \"Ada\"\nage = 36\n[context.user.home]\ncity = \"Bern\"\n").unwrap();
    let config = Config::load(Some(&file)).unwrap();
    let user = serde_json::json!({"Name": "Ada", "age": 36, "home": {"city": "Bern"}});
    assert_eq!(Value::Object(config.context.0["user"].clone()), user);
    assert!(!format!("{config:?}").contains("Ada"), "{config:?}");
    std::fs::write(&file, "[context]\nuser = \"Ada\"\n").unwrap();
    assert!(Config::load(Some(&file)).is_err(), "a context object must be an object");
}

#[test]
fn signing_secret_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolpost.toml");
    std::fs::write(&file, "[server]\nsigning_secret = \"whsec_hidden\"\n").unwrap();
    let config = Config::load(Some(&file)).unwrap();
    assert_eq!(config.server.signing_secret.0, "whsec_hidden");
    assert!(!format!("{config:?}").contains("hidden"), "{config:?}");
}

#[test]
fn retention_below_two_days_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolpost.toml");
    let read = |text: &str| {
        std::fs::write(&file, text).unwrap();
        Config::load(Some(&file)).map(|config| config.retention)
    };
    assert_eq!(read("[retention]\ncalls_ms = 172800000\n").unwrap().calls_ms, 172_800_000);
    assert_eq!(read("").unwrap().calls_ms, 0);
    let refused = read("[retention]\ncalls_ms = 86400000\n").unwrap_err().to_string();
    assert!(refused.contains("172800000") && refused.contains("calls_ms"), "{refused}");
}
