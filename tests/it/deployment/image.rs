//! The guarantees of `Dockerfile` about the image. `docker/build-without-daemon` builds and tests the image.

use std::path::Path;

use super::text;

/// Returns the instructions, each on one line.
fn instructions() -> Vec<String> {
    let text = text("Dockerfile");
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    joined.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

/// Returns the instructions from the last `FROM` on, which define the image.
fn last_stage() -> Vec<String> {
    let all = instructions();
    let begin = all.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    all[begin..].to_vec()
}

fn one(stage: &[String], instruction: &str) -> String {
    let found: Vec<_> = stage.iter().filter_map(|line| line.strip_prefix(&format!("{instruction} "))).collect();
    assert_eq!(found.len(), 1, "{instruction} in {stage:#?}");
    found[0].trim().to_owned()
}

#[test]
fn image_needs_no_root_and_no_shell() {
    let stage = last_stage();
    assert_eq!(one(&stage, "USER"), "65532:65532");
    assert!(!stage.iter().any(|line| line.starts_with("RUN ")), "{stage:#?}");
    for instruction in ["ENTRYPOINT", "CMD"] {
        let words: Vec<String> = serde_json::from_str(&one(&stage, instruction)).expect("the form without a shell");
        assert!(!words.is_empty());
    }
    let health = one(&stage, "HEALTHCHECK");
    let (_, command) = health.split_once("CMD ").unwrap();
    let command: Vec<String> = serde_json::from_str(command).expect("the form without a shell");
    assert_eq!(command[1..3], ["healthcheck", "--url"]);
    assert!(one(&stage, "CMD").contains("0.0.0.0:8080") && command[3].contains("127.0.0.1:8080"));
    assert_eq!(one(&stage, "STOPSIGNAL"), "SIGTERM");
    assert_eq!(one(&stage, "VOLUME"), "[\"/data\", \"/tools\"]");
}

#[test]
fn dependencies_are_built_before_the_source_is_there() {
    let all = instructions();
    let position_of =
        |like: &str| all.iter().position(|line| line.starts_with(like)).unwrap_or_else(|| panic!("no {like}"));
    let first_build = all.iter().position(|line| line.starts_with("RUN ") && line.contains("cargo build")).unwrap();
    assert!(position_of("COPY Cargo.toml Cargo.lock") < first_build && first_build < position_of("COPY src src"));
    assert!(first_build < position_of("COPY migrations"));
    // Cargo needs a file for each declared target.
    let manifest: toml::Table = text("Cargo.toml").parse().unwrap();
    for bench in manifest["bench"].as_array().unwrap() {
        let file = format!("benches/{}.rs", bench["name"].as_str().unwrap());
        assert!(all[first_build].contains(&file), "{file} is not made");
    }
}

#[test]
fn image_is_labelled() {
    let labels = one(&last_stage(), "LABEL");
    let version = env!("CARGO_PKG_VERSION");
    assert!(labels.contains(&format!("org.opencontainers.image.version=\"{version}\"")), "{labels}");
    let manifest: toml::Table = text("Cargo.toml").parse().unwrap();
    let package = manifest["package"].as_table().unwrap();
    assert!(labels.contains(package["license"].as_str().unwrap()), "{labels}");
    let rust = package["rust-version"].as_str().unwrap();
    assert!(text("Dockerfile").contains(&format!("ARG BUILD_IMAGE=rust:{rust}-")), "the build image has another Rust");
}

#[test]
fn manifest_of_each_workspace_member_is_copied() {
    let manifest: toml::Table = text("Cargo.toml").parse().unwrap();
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        let member = member.as_str().unwrap();
        let copy = format!("COPY {member}/Cargo.toml {member}/");
        assert!(instructions().contains(&copy), "cargo reads the manifests of all members: {copy}");
    }
}

#[test]
fn only_build_inputs_are_sent_to_the_builder() {
    let ignored = text(".dockerignore");
    let sent: Vec<&str> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    assert!(ignored.lines().any(|line| line == "*"));
    let dockerfile = instructions();
    let copied =
        dockerfile.iter().filter_map(|line| line.strip_prefix("COPY ")).filter(|rest| !rest.starts_with("--from"));
    let mut copied: Vec<&str> = copied
        .flat_map(|rest| {
            let words: Vec<&str> = rest.split_whitespace().collect();
            words[..words.len() - 1].to_vec()
        })
        .collect();
    // A manifest is copied before the rest of its folder.
    let folders = copied.clone();
    copied.retain(|path| !folders.iter().any(|folder| Path::new(path).starts_with(folder) && path != folder));
    copied.sort_unstable();
    assert_eq!(copied, {
        let mut sent = sent;
        sent.sort_unstable();
        sent
    });
}
