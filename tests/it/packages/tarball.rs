//! The tarball, which has checksums.

use std::fs;

use tokio::process::Command;

use super::{answers_a_call, build, installed, run};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn unpacked_program_answers_a_call() {
    let package = build("tarball").await;
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(package.folder.path());
    let name = package.file.file_name().unwrap().to_str().unwrap();
    assert_eq!(run(check).await, format!("{name}: OK\n"));

    let home = tempfile::tempdir().unwrap();
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(&package.file).arg("-C").arg(home.path());
    run(unpack).await;
    let folder = home.path().join(name.strip_suffix(".tar.gz").unwrap());
    assert!(name.starts_with(&format!("toolpost-{}-", env!("CARGO_PKG_VERSION"))), "{name}");
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "completions", "toolpost"]);

    let mut serve = installed(folder.join("toolpost"), home.path());
    serve.arg("serve");
    assert_eq!(answers_a_call(serve).await.code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn same_commit_makes_the_same_tarball() {
    let (one, other) = tokio::join!(build("tarball"), build("tarball"));
    let sums = [one, other].map(|package| fs::read_to_string(package.folder.path().join("SHA256SUMS")).unwrap());
    assert_eq!(sums[0], sums[1]);
}
