//! Lists the files of the console, and compresses them, so that the service sends them as they are stored.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=console");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?);
    let root = std::env::current_dir()?.join("console");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        let bytes = fs::read(file)?;
        let (gzip, brotli) = (out.join(format!("{number}.gz")), out.join(format!("{number}.br")));
        let mut encoder = GzEncoder::new(fs::File::create(&gzip)?, Compression::best());
        encoder.write_all(&bytes)?;
        encoder.finish()?;
        let best = BrotliEncoderParams { quality: 11, size_hint: bytes.len(), ..BrotliEncoderParams::default() };
        brotli::BrotliCompress(&mut bytes.as_slice(), &mut fs::File::create(&brotli)?, &best)?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let (path, tag) = (name(&root, file), hasher.finish());
        writeln!(
            table,
            "File {{ path: {path:?}, tag: \"\\\"{tag:016x}\\\"\", bytes: include_bytes!({file:?}), gzip: include_bytes!({gzip:?}), brotli: include_bytes!({brotli:?}) }},",
        )
        .map_err(io::Error::other)?;
    }
    table.push(']');
    fs::write(out.join("console.rs"), table)
}

/// What the page consists of, with the licences of its vendored packages. Other files are for tools.
const KINDS: [&str; 5] = ["html", "css", "js", "svg", "txt"];

/// Adds the files of a folder and of the folders in it.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|kind| KINDS.iter().any(|known| kind == *known)) {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the path below the folder, with slashes.
fn name(root: &Path, file: &Path) -> String {
    let below = file.strip_prefix(root).unwrap_or(file);
    let parts: Vec<_> = below.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}
