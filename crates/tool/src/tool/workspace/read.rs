//! `read`: reads a text file or some of its lines, or an image.

use std::io::{BufReader, Read as _, Seek as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Workspace;
use super::file::{CancellableReader, OpenFile, io_fault};
use super::path::WorkspacePath;
use crate::tool::{DefinitionBuilder, InvalidArgument, Run, Tool, ToolError, object};
use toolpost_core::domain::limits::Truncate;
use toolpost_core::domain::truncation::grouped;
use toolpost_core::domain::{ContentBlock, LimitsSpec, Outcome};

mod lines;

use lines::{ReadLines, Stop, read_lines};

/// Maximum number of bytes that one call reads. The model is shown less; the rest is stored with the call.
const MAX_BYTES: usize = 1024 * 1024;
/// Maximum size of an image, in bytes.
const MAX_IMAGE_BYTES: usize = 12 * 1024 * 1024;
/// Length of the beginning that reveals the type of a file, in bytes.
const SNIFFED_BYTES: u64 = 8 * 1024;

/// The tool `read`.
#[derive(Debug, Clone)]
pub struct Read(pub Workspace);

/// Reads a file of the workspace. Text is returned unchanged, without line numbers: the full file or, with `lines`,
/// some of its lines. Long text is truncated to its beginning; read on with `lines`. An image is returned as an image.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadArgs {
    /// The file, relative to the workspace, like "src/main.rs".
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
    /// Read only these lines, like {"start": 20, "end": 40}.
    #[serde(default)]
    pub lines: Option<Lines>,
}

/// A range of lines.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Lines {
    /// The first line, counted from 1.
    #[serde(default = "crate::tool::one")]
    #[schemars(range(min = 1))]
    pub start: usize,
    /// The last line; by default the last line of the file.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub end: Option<usize>,
}

impl Tool for Read {
    const NAME: &'static str = "read";
    type Args = ReadArgs;
    type Output = Outcome;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Read a file")
            .category(super::CATEGORY)
            .tag("file")
            .example(json!({"path": "src/main.rs"}), "fn main() {\n    println!(\"Hello\");\n}\n")
            .example(json!({"path": "src/main.rs", "lines": {"start": 2, "end": 2}}), "    println!(\"Hello\");\n")
            .read_only()
            .closed_world()
            .limits(LimitsSpec { truncate: Some(Truncate::Head), ..LimitsSpec::default() })
    }

    fn validate(&self, args: &ReadArgs) -> Result<(), Vec<InvalidArgument>> {
        match args.lines {
            Some(Lines { start, end: Some(end) }) if end < start => {
                Err(vec![InvalidArgument::at("/lines/end", format!("is before the first line, {start}"))])
            }
            _ => Ok(()),
        }
    }

    async fn call(&self, args: ReadArgs, run: Run) -> Result<Outcome, ToolError> {
        let workspace = self.0.clone();
        run.blocking(move |run| {
            let path = workspace.resolve(&args.path)?;
            let mut opened = workspace.open_file(&path)?;
            if let Some(image) = image(&path, &mut opened)? {
                return Ok(image);
            }
            text(&path, opened, args.lines, &run)
        })
        .await
    }
}

/// Returns the file as an image, or `None` for a text. The file is rewound to its beginning. Other binary files are an error.
fn image(path: &WorkspacePath, opened: &mut OpenFile) -> Result<Option<Outcome>, ToolError> {
    let mut beginning = Vec::new();
    (&opened.file).take(SNIFFED_BYTES).read_to_end(&mut beginning).map_err(io_fault(path))?;
    opened.file.rewind().map_err(io_fault(path))?;
    if !beginning.contains(&0) {
        return Ok(None);
    }
    let bytes = grouped(opened.bytes);
    let format = image::guess_format(&beginning).ok().filter(image::ImageFormat::reading_enabled);
    let format =
        format.ok_or_else(|| format!("\"{path}\" is a binary file of {bytes} bytes, which has no text to read"))?;
    if opened.bytes > MAX_IMAGE_BYTES {
        return Err(format!("\"{path}\" is an image of {bytes} bytes, too large to be shown").into());
    }
    let mut whole = Vec::new();
    (&opened.file).take(MAX_IMAGE_BYTES as u64).read_to_end(&mut whole).map_err(io_fault(path))?;
    let mime_type = format.to_mime_type().to_owned();
    let details =
        object([("path", json!(path.to_string())), ("bytes", json!(whole.len())), ("type", json!(mime_type))]);
    let block = ContentBlock::Image { data: STANDARD.encode(&whole), mime_type };
    Ok(Some(Outcome { details, ..Outcome::blocks(vec![block]) }))
}

fn text(path: &WorkspacePath, opened: OpenFile, lines: Option<Lines>, run: &Run) -> Result<Outcome, ToolError> {
    let Lines { start, end } = lines.unwrap_or(Lines { start: 1, end: None });
    let OpenFile { file, bytes: total_bytes } = opened;
    let reader = BufReader::with_capacity(64 * 1024, CancellableReader { file, run });
    let ReadLines { bytes, stop, line } = read_lines(reader, start, end, MAX_BYTES).map_err(io_fault(path))?;
    if stop == Stop::EndOfFile && line < start && start > 1 {
        let word = if line == 1 { "line" } else { "lines" };
        return Err(format!("line {start} is past the end of \"{path}\" ({} {word})", grouped(line)).into());
    }
    let mut text = utf8(path, bytes, start, stop == Stop::Full)?;
    let mut details =
        object([("path", json!(path.to_string())), ("bytes", json!(total_bytes)), ("start", json!(start))]);
    if stop == Stop::EndOfFile {
        details.insert("total_lines".to_owned(), line.into());
    }
    let last = if stop == Stop::Full { line.saturating_sub(1) } else { line };
    details.insert("end".to_owned(), last.into());
    if stop == Stop::Full {
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        let next = if line > start || newline.is_empty() {
            format!("continue with {}", json!({"path": path.to_string(), "lines": {"start": line}}))
        } else {
            format!("line {line} alone is longer than that")
        };
        let (bytes, max) = (grouped(total_bytes), grouped(MAX_BYTES));
        text.push_str(&format!("{newline}[the file has {bytes} bytes, and one call reads at most {max}; {next}]\n"));
    }
    Ok(Outcome { details, ..Outcome::text(text) })
}

/// Decodes the text. Truncated text may end within a character.
fn utf8(path: &WorkspacePath, mut bytes: Vec<u8>, first: usize, is_cut: bool) -> Result<String, ToolError> {
    if is_cut
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).map_err(|error| {
        let (bytes, good) = (error.as_bytes(), error.utf8_error().valid_up_to());
        let line = first + bytes[..good].iter().filter(|byte| **byte == b'\n').count();
        format!("\"{path}\" is not UTF-8: line {line} contains the invalid byte 0x{:02x}", bytes[good]).into()
    })
}

#[cfg(test)]
mod tests;
