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
        let bytes = without_layout(file, fs::read(file)?);
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

/// Removes what browsers do not need: comments, indentation, empty lines, and blanks next to punctuation.
fn without_layout(file: &Path, bytes: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&bytes);
    match file.extension().and_then(|kind| kind.to_str()) {
        Some("js") => {
            let code = without_comments(&text, "/**");
            let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
            let lines: String = code.lines().filter(is_code).flat_map(|line| [line.trim(), "\n"]).collect();
            without_blanks(&lines).into_bytes()
        }
        Some("css") => {
            let mut rules = without_comments(&text, "/*").split_whitespace().collect::<Vec<_>>().join(" ");
            for mark in ["{", "}", ";", ",", ">"] {
                rules = rules.replace(&format!(" {mark}"), mark).replace(&format!("{mark} "), mark);
            }
            rules.replace(": ", ":").replace(";}", "}").into_bytes()
        }
        _ => bytes,
    }
}

/// Removes comments that begin with `start`, and the blank behind each.
fn without_comments(text: &str, start: &str) -> String {
    let (mut code, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once(start) {
        let after = behind.split_once("*/").map_or("", |(_, after)| after);
        code.push_str(before);
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    code.push_str(rest);
    code
}

/// Removes blanks and line breaks next to punctuation of a module. Strings, templates and regular expressions stay.
fn without_blanks(code: &str) -> String {
    let (mut sent, mut open, mut rest) = (String::with_capacity(code.len()), Vec::new(), code);
    while let Some(next) = rest.chars().next() {
        let is_text = open.last() == Some(&'`');
        let length = if is_text { template_part(rest) } else { token(rest, &sent) };
        let (part, after) = rest.split_at(length);
        match part {
            "`" if !is_text => open.push('`'),
            "{" if !is_text => open.push('{'),
            "${" => open.push('{'),
            "`" | "}" if is_text == (next == '`') => drop(open.pop()),
            _ => {}
        }
        if is_text || !next.is_whitespace() {
            sent.push_str(part);
        } else if is_needed(part, sent.chars().last().unwrap_or(';'), after.chars().next().unwrap_or(';')) {
            sent.push(if part.contains('\n') { '\n' } else { ' ' });
        }
        rest = after;
    }
    sent
}

/// Returns `true` if the code has another meaning without the white space.
fn is_needed(space: &str, before: char, after: char) -> bool {
    if space.contains('\n') {
        return !(";{,(=>[:?&|".contains(before) || "}),.?:;]&|".contains(after));
    }
    ![before, after].iter().any(|one| "=(){}[];,<>?:&|!*".contains(*one))
}

/// Returns the length of the next part of a template: its end, the start of an expression, or text.
fn template_part(rest: &str) -> usize {
    match rest {
        _ if rest.starts_with('`') => 1,
        _ if rest.starts_with("${") => 2,
        _ => end_of(rest, 0, |at| at.starts_with('`') || at.starts_with("${")),
    }
}

/// Returns the length of the next white space, string, regular expression or character.
fn token(rest: &str, sent: &str) -> usize {
    let Some(first) = rest.chars().next() else { return 0 };
    let before = sent.trim_end();
    let is_operand = before.ends_with(|one: char| one.is_alphanumeric() || "_$)]".contains(one));
    match first {
        '"' | '\'' => end_of(rest, 1, |at| at.starts_with(first)) + 1,
        '/' if !is_operand || before.ends_with("return") => {
            let mut is_class = false;
            end_of(rest, 1, |at| {
                is_class = !at.starts_with(']') && (is_class || at.starts_with('['));
                !is_class && at.starts_with('/')
            }) + 1
        }
        _ if first.is_whitespace() => rest.len() - rest.trim_start().len(),
        _ => first.len_utf8(),
    }
}

/// Returns the first offset that is not escaped and at which `is_end` holds.
fn end_of(text: &str, from: usize, mut is_end: impl FnMut(&str) -> bool) -> usize {
    let mut is_escaped = false;
    for (offset, one) in text.char_indices().filter(|(offset, _)| *offset >= from) {
        if !is_escaped && is_end(&text[offset..]) {
            return offset;
        }
        is_escaped = !is_escaped && one == '\\';
    }
    text.len()
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
