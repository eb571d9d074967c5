//! `docker/compose.yaml`.

use serde_json::{Value, json};

use super::{assert_known, at, drain_s, text, yaml};

fn services() -> Value {
    let documents = yaml("docker/compose.yaml");
    assert_eq!(documents.len(), 1);
    documents[0]["services"].clone()
}

#[test]
fn service_is_confined_and_has_the_time_to_drain() {
    let services = services();
    let service = &services["toolpost"];
    assert_eq!((at(service, "/read_only"), at(service, "/cap_drop")), (&json!(true), &json!(["ALL"])));
    assert_eq!(at(service, "/security_opt/0"), "no-new-privileges:true");
    let grace = at(service, "/stop_grace_period").as_str().unwrap().trim_end_matches('s').parse::<u64>().unwrap();
    assert!(grace >= drain_s(), "{grace}");
    assert!(at(service, "/ports/0").as_str().unwrap().starts_with("127.0.0.1:"), "others reach it through a gateway");
    for (name, _) in at(service, "/environment").as_object().unwrap() {
        assert_known(name);
    }
    // The command and the health check of the image apply.
    assert!(service.get("command").is_none() && service.get("healthcheck").is_none());
}

#[test]
fn service_starts_after_the_database() {
    let services = services();
    assert_eq!(at(&services, "/toolpost/depends_on/postgres/condition"), "service_healthy");
    assert!(at(&services, "/postgres/healthcheck/test/1").as_str().unwrap().starts_with("pg_isready"));
    let volume = at(&services, "/postgres/volumes/0").as_str().unwrap();
    assert!(volume.starts_with("postgres:/var/lib/postgresql"), "{volume}");
}

#[test]
fn secrets_are_in_uncommitted_files() {
    let services = services();
    for name in ["toolpost", "postgres"] {
        let file = at(&services[name], "/env_file").as_str().unwrap();
        assert_eq!(file, format!("{name}.env"));
        assert!(text(".gitignore").lines().any(|line| line == "/docker/*.env"));
        let example = text(&format!("docker/{file}.example"));
        let variables =
            example.lines().map(|line| line.trim_start_matches("# ")).filter_map(|line| line.split_once('='));
        let variables: Vec<(&str, &str)> = variables.collect();
        assert!(!variables.is_empty());
        if name == "toolpost" {
            variables.iter().for_each(|(variable, _)| assert_known(variable));
            let (_, url) = variables[0];
            let (user, database) = ("toolpost", "postgres/toolpost");
            assert_eq!(url, format!("postgres://{user}:change-me@{database}"));
        }
        assert!(!format!("{}", services[name]).contains("change-me"));
    }
}
