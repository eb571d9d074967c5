//! `search`: finds matching lines in files, with the crates of ripgrep.

use std::ops::ControlFlow;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::file::{self, CancellableReader};
use super::open::missing;
use super::path::WorkspacePath;
use super::walk::{FileKind, WalkEnd, WalkOptions, walk};
use super::{Workspace, here};
use crate::tool::{DefinitionBuilder, InvalidArgument, Run, Tool, ToolError, object};
use toolpost_core::domain::Outcome;

mod hits;

use hits::Hits;

/// Maximum size of a compiled pattern and of the memory of its automaton, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
const MAX_AUTOMATON_BYTES: usize = 8 << 20;
/// Maximum length of a line, in bytes: a file with a longer line is skipped.
const MAX_LINE_BYTES: usize = 4 << 20;

/// The tool `search`.
#[derive(Debug, Clone)]
pub struct Search(pub Workspace);

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
    pub context: usize,
    /// Maximum number of matching lines.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 2000))]
    pub limit: usize,
    /// Search hidden and ignored files as well.
    #[serde(default)]
    pub all: bool,
}

fn default_limit() -> usize {
    200
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
        let results = [("/pattern", matcher(args).err()), ("/glob", overrides(args).err())];
        let at = |(pointer, message): (&str, Option<String>)| Some(InvalidArgument::at(pointer, message?));
        let faults: Vec<InvalidArgument> = results.into_iter().filter_map(at).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    async fn call(&self, args: SearchArgs, run: Run) -> Result<Outcome, ToolError> {
        let workspace = self.0.clone();
        run.blocking(move |run| {
            let mut hits = Hits { limit: args.limit, ..Hits::default() };
            let path = workspace.resolve(&args.path)?;
            let end = search(&workspace, &path, &args, &run, &mut hits)?;
            let details = object([
                ("path", json!(path.to_string())),
                ("matches", json!(hits.lines)),
                ("files_with_matches", json!(hits.files)),
                ("files_searched", json!(hits.searched)),
                ("files_passed_over", json!(hits.skipped)),
                ("complete", json!(end == WalkEnd::Complete)),
            ]);
            Ok(Outcome { details, ..Outcome::text(hits.into_text(end)) })
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
    let globs = args.glob.iter().try_fold(&mut builder, |builder, glob| builder.add(glob));
    globs.and_then(|builder| builder.build()).map_err(|error| format!("is not a valid glob: {error}"))
}

/// Searches a file, or all files below a folder until the hits are full or the call is cancelled.
fn search(
    workspace: &Workspace,
    path: &WorkspacePath,
    args: &SearchArgs,
    run: &Run,
    hits: &mut Hits,
) -> Result<WalkEnd, ToolError> {
    let (matcher, globs) = (matcher(args)?, overrides(args)?);
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .before_context(args.context)
        .after_context(args.context)
        .heap_limit(Some(MAX_LINE_BYTES))
        .build();
    let mut search_file = |path: &WorkspacePath, file| {
        let mut sink = hits.start_file(path, &matcher);
        let searched = searcher.search_reader(&matcher, CancellableReader { file, run }, &mut sink);
        let is_full = sink.end(searched.is_err());
        if is_full || run.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    if workspace.root.metadata(path.path()).is_ok_and(|metadata| !metadata.is_dir()) {
        let flow = search_file(path, workspace.open_file(path)?.file);
        return Ok(if flow.is_break() { WalkEnd::Stopped } else { WalkEnd::Complete });
    }
    let options = WalkOptions { all: args.all, ..WalkOptions::default() };
    let end = walk(workspace, path, &options, |seen| {
        if run.is_cancelled() {
            return ControlFlow::Break(());
        }
        if seen.kind != FileKind::File || globs.matched(seen.path.path(), false).is_ignore() {
            return ControlFlow::Continue(());
        }
        match file::open(seen.dir, seen.name.as_ref()) {
            Ok(opened) => search_file(seen.path, opened.file),
            // The file may be gone or unreadable; the search continues.
            Err(_) => ControlFlow::Continue(()),
        }
    });
    end.map_err(|error| missing(workspace, path, &error))
}

#[cfg(test)]
mod tests;
