//! The English of the project: comments, messages and documents, each with its place.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::{fs, iter};

use regex::Regex;

use crate::support::fixture::project_file;
use crate::support::scan::{self, Token, TokenKind};

/// The kind of a [`Passage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassageKind {
    Comment,
    Message,
    Document,
}

/// A comment block, a string literal or a document, without markup of the language and without code fences.
#[derive(Debug)]
pub struct Passage {
    pub kind: PassageKind,
    pub file: String,
    /// Lines of one paragraph are joined with spaces, so that patterns are found across line breaks.
    pub text: String,
    /// The offsets in the text at which lines begin, each with the line's number in the file.
    lines: Vec<(usize, usize)>,
}

impl Passage {
    fn new(kind: PassageKind, file: &str, lines: impl Iterator<Item = (usize, String)>) -> Self {
        let mut passage = Self { kind, file: file.to_owned(), text: String::new(), lines: Vec::new() };
        let (mut fence, mut after_break) = (None, true);
        for (number, line) in lines {
            let line = line.trim();
            let marker = ["```", "~~~"].into_iter().find(|marker| line.starts_with(marker));
            if fence.is_some() || marker.is_some() {
                match fence {
                    None => fence = marker,
                    Some(_) if marker == fence && line.trim_matches(['`', '~']).is_empty() => fence = None,
                    Some(_) => {}
                }
                after_break = true;
                continue;
            }
            let begins_item = line.starts_with(['-', '*', '|', '#', '+']);
            passage.text.push(if after_break || begins_item { '\n' } else { ' ' });
            passage.lines.push((passage.text.len(), number));
            passage.text.push_str(line);
            after_break = line.is_empty();
        }
        passage
    }

    /// Returns `FILE:LINE` of an offset in the text.
    pub fn place(&self, offset: usize) -> String {
        let after = self.lines.partition_point(|(start, _)| *start <= offset);
        format!("{}:{}", self.file, self.lines[after.saturating_sub(1)].1)
    }

    pub fn words(&self) -> usize {
        static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new("[A-Za-z]+(?:['’][A-Za-z]+)*").unwrap());
        WORD.find_iter(&self.text).count()
    }
}

/// Consecutive line comments of one prefix and one indentation.
pub struct CommentBlock<'a> {
    /// `//`, `///` or `//!`.
    pub prefix: &'a str,
    /// The number of the first line, counted from 1.
    pub line: usize,
    /// The texts without their prefixes.
    pub lines: Vec<&'a str>,
    /// The byte offset behind the last line.
    pub end: usize,
    column: usize,
}

/// Returns the blocks of line comments of a source file.
pub fn comment_blocks<'a>(text: &'a str, tokens: &[Token<'a>]) -> Vec<CommentBlock<'a>> {
    let mut blocks: Vec<CommentBlock<'_>> = Vec::new();
    let mut alone_before = false;
    for token in tokens.iter().filter(|token| token.kind == TokenKind::LineComment) {
        let is_doc = token.text.starts_with("//!") || token.text.starts_with("///") && !token.text.starts_with("////");
        let (prefix, body) = token.text.split_at(if is_doc { 3 } else { 2 });
        let line_start = text[..token.start].rfind('\n').map_or(0, |newline| newline + 1);
        let column = token.start - line_start;
        let alone = text[line_start..token.start].trim().is_empty();
        let end = token.start + token.text.len();
        match blocks.last_mut() {
            Some(block)
                if alone
                    && alone_before
                    && (block.prefix, block.column) == (prefix, column)
                    && block.end + 1 == line_start =>
            {
                block.lines.push(body);
                block.end = end;
            }
            _ => blocks.push(CommentBlock {
                prefix,
                line: scan::line_of(text, token.start),
                lines: vec![body],
                end,
                column,
            }),
        }
        alone_before = alone;
    }
    blocks
}

/// Returns the prose of a source file: its comments and, if asked for, its messages.
pub fn of_rust(file: &str, text: &str, with_messages: bool) -> Vec<Passage> {
    let tokens = scan::tokens(text);
    let mut passages = Vec::new();
    for block in comment_blocks(text, &tokens) {
        let lines = block.lines.iter().map(|line| (*line).to_owned());
        passages.push(Passage::new(PassageKind::Comment, file, (block.line..).zip(lines)));
    }
    for token in tokens {
        let line = scan::line_of(text, token.start);
        match token.kind {
            TokenKind::LineComment => {}
            TokenKind::BlockComment => {
                let lines = token.text.lines().map(|line| line.trim().trim_matches(['/', '*', '!']).to_owned());
                passages.push(Passage::new(PassageKind::Comment, file, (line..).zip(lines)));
            }
            TokenKind::String if with_messages => {
                let content = scan::content(token.text);
                if is_message(&content) {
                    let lines = content.lines().map(str::to_owned);
                    passages.push(Passage::new(PassageKind::Message, file, iter::repeat(line).zip(lines)));
                }
            }
            TokenKind::String => {}
        }
    }
    passages
}

/// Returns `true` if a string has three or more words of English and is not SQL.
fn is_message(content: &str) -> bool {
    static SQL: LazyLock<Regex> = LazyLock::new(|| {
        let statements = r"SELECT|INSERT INTO|DELETE FROM|UPDATE \w+ SET|PRAGMA|BEGIN";
        let definitions = r"(CREATE|ALTER|DROP) (UNIQUE |TEMP )?(TABLE|INDEX|SCHEMA|DATABASE|VIEW)";
        let clauses =
            r"WHERE|ORDER BY|GROUP BY|ON CONFLICT|RETURNING|VALUES|JOIN|UNION|SET \w+ =|AND \w+|FROM \w+|LIMIT \d";
        Regex::new(&format!(r"\b({statements}|{definitions}|{clauses})\b")).unwrap()
    });
    static WORD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"^["'(`“‘]*[A-Za-z][A-Za-z'’-]*["')`,.;:!?”’…]*$"#).unwrap());
    let words = content.split_whitespace().filter(|word| WORD.is_match(word));
    words.take(3).count() == 3 && !SQL.is_match(content)
}

/// Returns the text of a Markdown document.
pub fn of_markdown(file: &str, text: &str) -> Passage {
    Passage::new(PassageKind::Document, file, (1..).zip(text.lines().map(str::to_owned)))
}

/// Returns the comments of a file of settings.
pub fn of_settings(file: &str, text: &str) -> Passage {
    let comment = |line: &str| line.trim().strip_prefix('#').unwrap_or_default().to_owned();
    Passage::new(PassageKind::Comment, file, (1..).zip(text.lines().map(comment)))
}

/// Returns all prose of the project.
pub fn all() -> Vec<Passage> {
    let mut passages = Vec::new();
    for (folder, with_messages) in [("src", true), ("crates", true), ("tests/it", false)] {
        for file in files(folder, "rs") {
            passages.extend(of_rust(&file, &read(&file), with_messages));
        }
    }
    passages.extend(documents().iter().map(|file| of_markdown(file, &read(file))));
    passages.push(of_settings("src/defaults.toml", &read("src/defaults.toml")));
    passages
}

pub fn read(file: &str) -> String {
    fs::read_to_string(project_file(file)).unwrap()
}

/// Returns the Markdown documents that Git tracks or, outside of a repository, those that it would not ignore.
fn documents() -> Vec<String> {
    let git = Command::new("git").args(["ls-files", "-z", "*.md"]).current_dir(project_file("")).output();
    let Some(git) = git.ok().filter(|git| git.status.success() && !git.stdout.is_empty()) else {
        return files("", "md");
    };
    let names = String::from_utf8(git.stdout).unwrap();
    let exists = |name: &&str| !name.is_empty() && project_file(name).is_file();
    names.split('\0').filter(exists).map(str::to_owned).collect()
}

/// Returns the paths of all files with an extension below a folder of the project, in order.
pub fn files(folder: &str, extension: &str) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![project_file(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&&*name) {
                folders.push(path);
            } else if path.is_file() && path.extension().is_some_and(|found| found == extension) {
                found.push(relative(&path));
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(project_file("")).unwrap().to_str().unwrap().to_owned()
}

#[test]
fn prose_is_found_in_source_files() {
    let text = "//! A header\n//! of two lines.\n\n\
        /// A type.\n///\n/// ```\n/// not prose\n/// ```\nstruct A; // a tail\n\
        // One.\n    // Two.\n/* three /* four */\n * five */\n\
        const B: &str = \"it is a message\";\nconst C: &str = \"two words\";\n\
        const D: &str = \"SELECT a FROM the table\";\n";
    let passages = of_rust("a.rs", text, true);
    let texts: Vec<&str> = passages.iter().map(|passage| passage.text.trim()).collect();
    assert_eq!(
        texts,
        ["A header of two lines.", "A type.", "a tail", "One.", "Two.", "three /* four five", "it is a message"]
    );
    let places: Vec<String> = passages.iter().map(|passage| passage.place(1)).collect();
    assert_eq!(places, ["a.rs:1", "a.rs:4", "a.rs:9", "a.rs:10", "a.rs:11", "a.rs:12", "a.rs:14"]);
    assert_eq!(passages[0].place(passages[0].text.find("two").unwrap()), "a.rs:2");
    assert_eq!(passages[0].words(), 5);
    assert!(of_rust("a.rs", text, false).iter().all(|passage| passage.kind == PassageKind::Comment));
}

#[test]
fn prose_is_found_in_documents_and_settings() {
    let document = of_markdown("a.md", "# One\n\ntwo\nthree\n- four\n~~~sh\n```\nnot prose\n~~~\nfive");
    assert_eq!(document.text, "\n# One \ntwo three\n- four\nfive");
    let settings = of_settings("a.toml", "# One\n# two.\na = \"# three\"\n# Four.");
    assert_eq!(settings.text, "\nOne two. \nFour.");
    assert_eq!(settings.place(settings.text.find("Four").unwrap()), "a.toml:4");
}
