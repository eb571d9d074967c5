//! Lists the files of the console, and compresses them, so that the service sends them as they are stored.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;
use oxc_allocator::Allocator;
use oxc_codegen::{Codegen, CodegenOptions};
use oxc_minifier::{Minifier, MinifierOptions};
use oxc_parser::Parser;
use oxc_span::SourceType;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=console");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?);
    let root = std::env::current_dir()?.join("console");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        let bytes = minified(file, fs::read_to_string(file)?)?.into_bytes();
        let sent = out.join(format!("{number}.file"));
        fs::write(&sent, &bytes)?;
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
            "File {{ path: {path:?}, tag: \"\\\"{tag:016x}\\\"\", bytes: include_bytes!({sent:?}), gzip: include_bytes!({gzip:?}), brotli: include_bytes!({brotli:?}) }},",
        )
        .map_err(io::Error::other)?;
    }
    table.push(']');
    fs::write(out.join("console.rs"), table)
}

/// Removes what browsers do not need: comments, types in them, layout, and long names that no other file sees.
fn minified(file: &Path, text: String) -> io::Result<String> {
    match file.extension().and_then(|kind| kind.to_str()) {
        Some("js") => module(&text).map_err(|fault| io::Error::other(format!("{}: {fault}", file.display()))),
        Some("css") => Ok(style(&text)),
        _ => Ok(text),
    }
}

/// Minifies a module. Fails if its syntax is wrong.
fn module(text: &str) -> Result<String, String> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, SourceType::mjs()).parse();
    if let Some(fault) = parsed.diagnostics.first() {
        return Err(fault.to_string());
    }
    let mut program = parsed.program;
    let minified = Minifier::new(MinifierOptions::default()).minify(&allocator, &mut program);
    let printer = Codegen::new().with_options(CodegenOptions::minify()).with_scoping(minified.scoping);
    Ok(printer.with_private_member_mappings(minified.class_private_mappings).build(&program).code.to_string())
}

/// Removes comments and white space from a style sheet.
fn style(text: &str) -> String {
    let (mut rules, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, comment)) = rest.split_once("/*") {
        rules.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    rules.push_str(rest);
    let mut rules = rules.split_whitespace().collect::<Vec<_>>().join(" ");
    for mark in ["{", "}", ";", ",", ">"] {
        rules = rules.replace(&format!(" {mark}"), mark).replace(&format!("{mark} "), mark);
    }
    rules.replace(": ", ":").replace(";}", "}")
}

/// What the page consists of. Other files are for tools.
const KINDS: [&str; 4] = ["html", "css", "js", "svg"];

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
