//! `search`: finds matching lines in files, with the crates of ripgrep.

use std::io::{self, Read};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Workspace;
use super::file;
use super::near;
use super::path::WorkspacePath;
use super::walk::{FileKind, WalkEnd, WalkFlow, WalkOptions, walk};
use crate::domain::Outcome;
use crate::domain::truncation::grouped;
use crate::tool::{DefinitionBuilder, InvalidArgument, Run, Tool, ToolError, object};

mod hits;

use hits::Hits;

/// Maximum size of a compiled pattern and of the memory of its automaton, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
const MAX_AUTOMATON_BYTES: usize = 8 << 20;
/// Maximum length of a line, in bytes: a file with a longer line is skipped.
const MAX_LINE_BYTES: usize = 4 << 20;

/// The tool `search`.
#[derive(Debug, Clone)]
pub struct Search(Workspace);

/// Searches the text files of the workspace for lines that match a regular expression. Matches are returned as
/// `path:line: text`. Hidden files, files that `.gitignore` excludes, and binary files are skipped.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchArgs {
    /// A regular expression, like "fn \\w+_test". It matches within lines; no look-around, no back-references.
    #[schemars(length(min = 1, max = 10_000))]
    pub pattern: String,
    /// The folder or file to search, relative to the workspace.
    #[serde(default = "here")]
    #[schemars(length(max = 4096))]
    pub path: String,
    /// Only files that match, like "*.rs" or "src/**/*.ts"; with a leading "!" only files that do not match.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1000))]
    pub glob: Option<String>,
    /// Treat the pattern as literal text, not as a regular expression.
    #[serde(default)]
    pub literal: bool,
    /// Ignore case.
    #[serde(default)]
    pub ignore_case: bool,
    /// The number of lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(max = 20))]
    pub context: u64,
    /// Maximum number of matching lines.
    #[serde(default = "usual")]
    #[schemars(range(min = 1, max = 2000))]
    pub limit: u64,
    /// Search hidden and ignored files as well.
    #[serde(default)]
    pub all: bool,
}

fn here() -> String {
    ".".to_owned()
}

fn usual() -> u64 {
    200
}

impl Search {
    /// Creates the tool for a workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self(workspace)
    }
}

impl Tool for Search {
    const NAME: &'static str = "search";
    type Args = SearchArgs;
    type Output = Outcome;

    fn definition(&self, about: DefinitionBuilder) -> DefinitionBuilder {
        about
            .title("Search files")
            .category(super::CATEGORY)
            .tag("file")
            .tag("grep")
            .example(
                json!({"pattern": "fn main", "glob": "*.rs"}),
                "src/main.rs:1: fn main() {\n[1 matching line in 1 file]",
            )
            .example(json!({"pattern": "TODO", "path": "src", "context": 1}), "src/a.rs-6- }\nsrc/a.rs:7: // TODO\n…")
            .read_only()
            .closed_world()
    }

    fn validate(&self, args: &SearchArgs) -> Result<(), Vec<InvalidArgument>> {
        let pattern = matcher(args).map(drop).map_err(|message| InvalidArgument::at("/pattern", message));
        let glob = overrides(args).map(drop).map_err(|message| InvalidArgument::at("/glob", message));
        let faults: Vec<InvalidArgument> = pattern.err().into_iter().chain(glob.err()).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    async fn call(&self, args: SearchArgs, run: Run) -> Result<Outcome, ToolError> {
        let workspace = self.0.clone();
        run.blocking(move |run| {
            let (matcher, globs) = (matcher(&args)?, overrides(&args)?);
            let place = workspace.resolve(&args.path)?;
            let of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
            let mut searcher = SearcherBuilder::new()
                .binary_detection(BinaryDetection::quit(0))
                .line_number(true)
                .before_context(of(args.context))
                .after_context(of(args.context))
                .heap_limit(Some(MAX_LINE_BYTES))
                .build();
            let mut hits = Hits::new(of(args.limit));
            let end = search_files(&workspace, &place, &args, &globs, &run, &mut |place, file| {
                search(&mut searcher, &matcher, place, file, &run, &mut hits)
            })?;
            let path = place.to_string();
            let details = object([
                ("path", json!(path)),
                ("matches", json!(hits.lines)),
                ("files_with_matches", json!(hits.files)),
                ("files_searched", json!(hits.searched)),
                ("files_passed_over", json!(hits.skipped)),
                ("complete", json!(end == WalkEnd::Complete)),
            ]);
            let text = hits.text(end);
            Ok(Outcome { details, ..Outcome::text(text) })
        })
        .await
    }
}

fn matcher(args: &SearchArgs) -> Result<RegexMatcher, String> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(args.ignore_case).fixed_strings(args.literal);
    builder.line_terminator(Some(b'\n')).size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_AUTOMATON_BYTES);
    builder.build(&args.pattern).map_err(|error| format!("is not a valid pattern: {error}"))
}

fn overrides(args: &SearchArgs) -> Result<Override, String> {
    let mut builder = OverrideBuilder::new(".");
    if let Some(glob) = &args.glob {
        builder.add(glob).map_err(|error| format!("is not a valid glob: {error}"))?;
    }
    builder.build().map_err(|error| format!("is not a valid glob: {error}"))
}

/// Calls `search` with every file to search, until it returns [`WalkFlow::Stop`].
fn search_files(
    workspace: &Workspace,
    place: &WorkspacePath,
    args: &SearchArgs,
    globs: &Override,
    run: &Run,
    search: &mut dyn FnMut(&WorkspacePath, std::fs::File) -> WalkFlow,
) -> Result<WalkEnd, ToolError> {
    if workspace.root.metadata(place.path()).is_ok_and(|metadata| !metadata.is_dir()) {
        let flow = search(place, workspace.open_file(place)?.file);
        return Ok(if flow == WalkFlow::Stop { WalkEnd::Stopped } else { WalkEnd::Complete });
    }
    let scope = WalkOptions { all: args.all, ..WalkOptions::default() };
    let end = walk(workspace, place, &scope, &mut |seen| {
        if run.is_cancelled() {
            return WalkFlow::Stop;
        }
        if seen.kind != FileKind::File || globs.matched(seen.place.path(), false).is_ignore() {
            return WalkFlow::Continue;
        }
        match file::open(seen.dir, seen.name.as_ref()) {
            Ok(opened) => search(seen.place, opened.file),
            // The file may be gone or unreadable; the search continues.
            Err(_) => WalkFlow::Continue,
        }
    });
    end.map_err(|error| near::missing(workspace, place, &error))
}

fn search(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    place: &WorkspacePath,
    file: std::fs::File,
    run: &Run,
    hits: &mut Hits,
) -> WalkFlow {
    let mut sink = hits.of(place, matcher);
    let searched = searcher.search_reader(matcher, Stoppable { file, run }, &mut sink);
    let is_full = sink.end(searched.is_err());
    if is_full || run.is_cancelled() { WalkFlow::Stop } else { WalkFlow::Continue }
}

/// A reader that reports the end of the file once the call is cancelled.
struct Stoppable<'r> {
    file: std::fs::File,
    run: &'r Run,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        if self.run.is_cancelled() { Ok(0) } else { self.file.read(piece) }
    }
}

/// Creates the summary line below the matches.
fn summary(hits: &Hits, end: WalkEnd) -> String {
    let counted =
        |count: usize, one: &str, many: &str| format!("{} {}", grouped(count), if count == 1 { one } else { many });
    let files = counted(hits.searched, "file", "files");
    let passed = match hits.skipped {
        0 => String::new(),
        count => format!("; {} not text", counted(count, "file is", "files are")),
    };
    if hits.lines == 0 {
        let more = if end == WalkEnd::Complete { "" } else { "; not all files were searched: search a subfolder" };
        return format!("[no matching line in {files}{passed}{more}]");
    }
    let (lines, found) = (counted(hits.lines, "matching line", "matching lines"), counted(hits.files, "file", "files"));
    let more = match end {
        WalkEnd::Complete => "",
        WalkEnd::Stopped => "; more lines match: narrow the pattern, the path or the glob",
        WalkEnd::TooMany => "; not all files were searched: search a subfolder",
    };
    format!("[{lines} in {found}{more}{passed}]")
}

#[cfg(test)]
mod tests;
