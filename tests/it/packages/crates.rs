//! The crates. They contain every file that their compilation reads.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::run;
use crate::support::fixture::project_file;

/// Returns the files and folders of the project that the compilation of the service reads, relative to the project.
fn inputs() -> BTreeSet<PathBuf> {
    let root = project_file("");
    let folder = Path::new(env!("CARGO_BIN_EXE_toolpost")).parent().expect("the build folder");
    let mut inputs: BTreeSet<_> = ["build.rs", "console"].map(PathBuf::from).into();
    for entry in folder.join("deps").read_dir().expect("rustc writes it") {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap();
        if !name.starts_with("toolpost-") || !name.ends_with(".d") {
            continue;
        }
        // Rules of make, which name what rustc has read.
        let list = fs::read_to_string(&path).unwrap();
        let files =
            list.lines().filter_map(|line| line.split_once(": ")).flat_map(|(_, files)| files.split_whitespace());
        let files = files.map(|file| root.join(file));
        // The build folder has what the build script makes, and may list files of an earlier build.
        let files = files.filter(|file| !file.starts_with(folder) && file.is_file());
        inputs.extend(files.filter_map(|file| file.strip_prefix(&root).ok().map(Path::to_owned)));
    }
    assert!(inputs.contains(Path::new("src/lib.rs")), "{inputs:?}");
    // Cargo packs a manifest that it writes itself.
    inputs.remove(Path::new("Cargo.toml"));
    inputs
}

const WORKER: &str = "crates/worker";

/// Returns a file, or the files within a folder.
fn files_of(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = path.read_dir().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries.flat_map(|entry| files_of(&entry.unwrap().path())).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "surfaces"]
async fn crates_include_every_file_that_their_compilation_reads() {
    let folder = tempfile::tempdir().unwrap();
    let mut pack = Command::new(project_file("scripts/packages"));
    pack.arg("--out").arg(folder.path()).arg("crate");
    run(pack).await;
    let version = env!("CARGO_PKG_VERSION");
    let of = |folder: &str, inputs: &[&str]| inputs.iter().map(|input| Path::new(folder).join(input)).collect();
    let crates = [
        ("toolpost-core", "crates/core", of("crates/core", &["src"])),
        ("toolpost-store", "crates/store", of("crates/store", &["src", "migrations"])),
        ("toolpost-tool", "crates/tool", of("crates/tool", &["src"])),
        ("toolpost-telemetry", "crates/telemetry", of("crates/telemetry", &["src"])),
        ("toolpost-engine", "crates/engine", of("crates/engine", &["src"])),
        ("toolpost", "", inputs()),
        ("toolpost-worker", WORKER, of(WORKER, &["src"])),
    ];
    for (name, root, inputs) in crates {
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(folder.path().join(format!("{name}-{version}.crate"))).arg("-C").arg(folder.path());
        run(unpack).await;
        let unpacked = folder.path().join(format!("{name}-{version}"));
        let root = project_file(root);
        let read: Vec<_> = inputs.iter().flat_map(|input| files_of(&project_file(input.to_str().unwrap()))).collect();
        assert!(read.len() > 4, "{read:?}");
        for file in read {
            let packed = unpacked.join(file.strip_prefix(&root).unwrap());
            assert!(packed.is_file(), "{name} has no {}", packed.display());
            assert!(fs::read(&packed).unwrap() == fs::read(&file).unwrap(), "{}", packed.display());
        }
        for file in ["README.md", "Cargo.lock", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(unpacked.join(file).is_file(), "{name} has no {file}");
        }
        let manifest = fs::read_to_string(unpacked.join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("path = \"../"), "it depends on published crates only: {manifest}");
    }
}
