//! A scanner of Rust source files that keeps what parsers drop: comments, and string literals with their places.

/// The kind of a [`Token`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    LineComment,
    BlockComment,
    String,
}

/// A comment or a string literal of a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    pub kind: TokenKind,
    /// The text with its delimiters.
    pub text: &'a str,
    /// The byte offset of the text in the file.
    pub start: usize,
}

/// Returns the comments and string literals of a source file in their order.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut found, mut start) = (Vec::new(), 0);
    while start < text.len() {
        let (kind, length) = first(&text[start..]);
        found.extend(kind.map(|kind| Token { kind, text: &text[start..start + length], start }));
        start += length;
    }
    found
}

/// Returns the code without its tokens: they are overwritten with spaces, so that offsets and line numbers stay.
pub fn code(text: &str, tokens: &[Token<'_>]) -> String {
    let mut code = text.as_bytes().to_vec();
    for token in tokens {
        for byte in &mut code[token.start..token.start + token.text.len()] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(code).expect("tokens begin and end between characters")
}

/// Returns the number of the line that an offset is in, counted from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Returns the content of a string literal as a program sees it, apart from escapes of single characters.
pub fn content(literal: &str) -> String {
    let Some(raw) = literal.strip_prefix(['r', 'b', 'c']) else {
        let inner = &literal[1..literal.len() - 1];
        let mut parts = inner.split("\\\n");
        let first = parts.next().unwrap_or_default().to_owned();
        let joined = parts.fold(first, |joined, part| joined + part.trim_start());
        return joined.replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\");
    };
    raw.trim_start_matches('r').trim_matches('#').trim_matches('"').to_owned()
}

/// Returns what a text begins with, and how long that is; `None` for code.
fn first(text: &str) -> (Option<TokenKind>, usize) {
    let is_part_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    match text.chars().next() {
        _ if text.starts_with("//") => (Some(TokenKind::LineComment), text.find('\n').unwrap_or(text.len())),
        _ if text.starts_with("/*") => (Some(TokenKind::BlockComment), block_comment(text)),
        Some('"') => (Some(TokenKind::String), quoted(text)),
        Some('\'') => (None, character_or_lifetime(text)),
        Some(letter) if is_part_of_word(letter) => {
            let word = text.find(|letter| !is_part_of_word(letter)).unwrap_or(text.len());
            let raw = matches!(&text[..word], "r" | "br" | "cr").then(|| raw_string(&text[word..])).flatten();
            raw.map_or((None, word), |length| (Some(TokenKind::String), word + length))
        }
        Some(letter) => (None, letter.len_utf8()),
        None => (None, 0),
    }
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut end) = (0, 0);
    loop {
        let rest = &text[end..];
        let Some(next) = [rest.find("/*"), rest.find("*/")].into_iter().flatten().min() else { return text.len() };
        depth += if rest[next..].starts_with("/*") { 1 } else { -1 };
        end += next + 2;
        if depth == 0 {
            return end;
        }
    }
}

fn quoted(text: &str) -> usize {
    let mut end = 1;
    while let Some(next) = text[end..].find(['"', '\\']) {
        if text[end + next..].starts_with('"') {
            return end + next + 1;
        }
        let escaped = text[end + next + 1..].chars().next().map_or(0, char::len_utf8);
        end += next + 1 + escaped;
    }
    text.len()
}

/// Returns the length of `#"…"#` with any number of `#`; `None` for a raw identifier.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let inner = text[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", &text[..hashes]);
    Some(inner.find(&end).map_or(text.len(), |length| hashes + 1 + length + end.len()))
}

fn character_or_lifetime(text: &str) -> usize {
    let mut letters = text[1..].char_indices();
    match (letters.next(), letters.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let end = 1 + at + escaped.len_utf8();
            text[end..].find('\'').map_or(text.len(), |length| end + length + 1)
        }
        (Some(_), Some((at, '\''))) => at + 2,
        _ => 1,
    }
}

#[test]
fn tokens_are_found_in_every_form() {
    for (text, expected) in [
        ("let x = 1; // one\n/// two\n", vec!["// one", "/// two"]),
        ("a /* b /* c */ d */ e", vec!["/* b /* c */ d */"]),
        (r#"f("a // b", "c \" d", b"e")"#, vec![r#""a // b""#, r#""c \" d""#, "\"e\""]),
        (r##"f(r"a\", r#"b "c" d"#, br#"e"#)"##, vec![r#"r"a\""#, r##"r#"b "c" d"#"##, r##"br#"e"#"##]),
        (r#"f('"', '\'', '\\', '\u{22}', 'ä', "x")"#, vec!["\"x\""]),
        ("fn f<'a>(x: &'a str, r#type: char) { 'b: loop { break 'b } } // y", vec!["// y"]),
        (
            "#[doc = \"one\"]\nmacro_rules! m { ($x:expr) => { \"two\" /* x */ }; }",
            vec!["\"one\"", "\"two\"", "/* x */"],
        ),
        ("\"not closed", vec!["\"not closed"]),
    ] {
        let found = tokens(text);
        assert_eq!(found.iter().map(|token| token.text).collect::<Vec<_>>(), expected, "{text}");
        assert_eq!(code(text, &found).len(), text.len());
    }
    let text = "a(\"b\nc\"); // d\ne";
    assert_eq!(code(text, &tokens(text)), "a(  \n  );     \ne");
}

#[test]
fn content_of_literals_is_unescaped() {
    for (literal, expected) in [
        (r#""one \"two\" three\n""#, "one \"two\" three\n"),
        ("\"one \\\n     two\"", "one two"),
        (r##"r#"one "two" \n"#"##, "one \"two\" \\n"),
    ] {
        assert_eq!(content(literal), expected);
    }
}
