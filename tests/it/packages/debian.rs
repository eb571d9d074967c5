//! The Debian package, unpacked into an empty root and started as its unit starts it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tokio::process::Command;
use toolpost::config::Config;

use super::unit::Unit;
use super::{Package, answers_a_call, build, installed, run};

const UNIT: &str = "usr/lib/systemd/system/toolpost.service";

async fn dpkg_deb(option: &str, package: &Package, arguments: &[&str]) -> String {
    let mut command = Command::new("dpkg-deb");
    command.arg(option).arg(&package.file).args(arguments);
    run(command).await
}

fn read(root: &Path, file: &str) -> String {
    fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn command_of_the_unit_answers_a_call() {
    let package = build("deb").await;
    let root = tempfile::tempdir().unwrap();
    dpkg_deb("--extract", &package, &[root.path().to_str().unwrap()]).await;
    let unit = Unit::parse(&read(root.path(), UNIT));
    let command = unit.value("ExecStart");
    let mut words = command.split(' ').map(|word| match word.strip_prefix('/') {
        Some(path) => root.path().join(path).display().to_string(),
        None => word.to_owned(),
    });
    let home = tempfile::tempdir().unwrap();
    let mut serve = installed(words.next().unwrap(), home.path());
    // The folder of the database is made by systemd.
    serve.args(words).env("TOOLPOST_DATABASE_URL", format!("sqlite://{}/toolpost.db", home.path().display()));
    assert_eq!(answers_a_call(serve).await.code, Some(0));

    has_what_the_unit_needs(root.path(), &unit);
    has_the_control_files(&package).await;
    systemd_knows_the_unit(&root.path().join(UNIT)).await;
}

fn has_what_the_unit_needs(root: &Path, unit: &Unit) {
    let user = unit.value("User");
    assert!(read(root, "usr/lib/sysusers.d/toolpost.conf").contains(&format!("\nu {user} ")), "{user}");
    let folder = format!("/var/lib/{}", unit.value("StateDirectory"));
    assert!(read(root, "usr/lib/tmpfiles.d/toolpost.conf").contains(&format!("\nd {folder} 0700 {user} ")), "{folder}");
    let config = Config::load(Some(&root.join("etc/toolpost/toolpost.toml"))).unwrap();
    assert_eq!(config.store.database_url, format!("sqlite://{folder}/toolpost.db"));
    assert_eq!(read(root, "usr/share/doc/toolpost/settings.toml"), toolpost::config::DEFAULTS);
}

async fn has_the_control_files(package: &Package) {
    let folder = tempfile::tempdir().unwrap();
    dpkg_deb("--control", package, &[folder.path().to_str().unwrap()]).await;
    let control = read(folder.path(), "control");
    let fields: BTreeMap<&str, &str> = control.lines().filter_map(|line| line.split_once(": ")).collect();
    assert_eq!(fields["Package"], "toolpost");
    assert!(fields["Version"].starts_with(env!("CARGO_PKG_VERSION")), "{control}");
    for needed in ["libc6 (>= ", "libgcc-s1"] {
        assert!(fields["Depends"].contains(needed), "{control}");
    }
    assert_eq!(read(folder.path(), "conffiles"), "/etc/toolpost/toolpost.toml\n");
    for script in ["postinst", "prerm", "postrm"] {
        let mut check = Command::new("sh");
        check.arg("-n").arg(folder.path().join(script));
        run(check).await;
    }
    let installing = read(folder.path(), "postinst");
    for step in ["systemd-sysusers", "systemd-tmpfiles --create", "try-restart"] {
        assert!(installing.contains(step), "{step}: {installing}");
    }
    assert!(!installing.contains("deb-systemd-invoke start"), "an operator starts the service: {installing}");
}

/// Lets systemd read the unit, if it is installed.
async fn systemd_knows_the_unit(file: &Path) {
    let mut verify = Command::new("systemd-analyze");
    let Ok(verified) = verify.arg("verify").arg(file).output().await else { return };
    // It also complains that the program is not installed on this machine. Complaints about the unit have a line number.
    let complaints = String::from_utf8_lossy(&verified.stderr);
    let mut complaint_lines = complaints.split("toolpost.service:").skip(1);
    assert!(!complaint_lines.any(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit())), "{complaints}");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=yes", "--threshold=25"]).arg(file);
    run(security).await;
}
