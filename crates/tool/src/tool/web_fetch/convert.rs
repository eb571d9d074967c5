//! Conversion of HTML to Markdown or plain text.

use std::sync::LazyLock;

use htmd::element_handler::Handlers;
use htmd::options::{BulletListMarker, Options};
use htmd::{Element, HtmlToMarkdown};
use regex::Regex;

use crate::tool::ToolError;
use toolpost_core::domain::json::shorten;

/// Elements without text for a reader.
const SKIPPED: [&str; 11] =
    ["script", "style", "noscript", "template", "svg", "iframe", "object", "head", "canvas", "dialog", "select"];
/// Elements whose Markdown syntax plain text omits.
const PLAIN: [&str; 13] = ["a", "b", "strong", "i", "em", "code", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote"];
/// Elements of [`PLAIN`] that are blocks.
const BLOCKS: [&str; 7] = ["h1", "h2", "h3", "h4", "h5", "h6", "blockquote"];
/// Stack size for a page of maximum depth, with a margin. The unused part takes no memory.
const STACK_BYTES: usize = 64 << 20;
/// Maximum length of a title, in bytes.
const MAX_TITLE_BYTES: usize = 500;

/// Converts a page to Markdown or plain text.
///
/// # Errors
/// Returns an error if the page cannot be converted.
pub fn convert(html: &str, is_plain: bool) -> Result<String, ToolError> {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let mut builder = HtmlToMarkdown::builder().options(options).skip_tags(SKIPPED.to_vec());
    if is_plain {
        builder =
            builder.skip_tags(vec!["img"]).add_handler(PLAIN.to_vec(), |handlers: &dyn Handlers, element: Element| {
                let text = handlers.walk_children(element.node).content;
                let is_block = BLOCKS.contains(&element.tag);
                Some(if is_block { format!("\n\n{}\n\n", text.trim()) } else { text }.into())
            });
    }
    let converter = builder.build();
    let text = with_deep_stack(|| converter.convert(html))??;
    Ok(if is_plain { unescape(&text) } else { text })
}

/// Runs work that recurses for each level of a page.
fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, ToolError> {
    let broken = || ToolError::new("the page cannot be converted");
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).map_err(|_| broken())?;
        thread.join().map_err(|_| broken())
    })
}

/// Removes the backslashes that escape Markdown syntax.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letters.peek() {
            Some(next) if letter == '\\' && next.is_ascii_punctuation() => out.extend(letters.next()),
            _ => out.push(letter),
        }
    }
    out
}

/// Returns the title of a page.
pub fn title(html: &str) -> Option<String> {
    static TITLE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?is)<title(?:\s[^>]{0,200})?>([^<]{1,5000})</title").ok());
    let found = TITLE.as_ref()?.captures(html)?.get(1)?.as_str();
    let text = unescape(&HtmlToMarkdown::new().convert(found).ok()?);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then(|| shorten(&words, MAX_TITLE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<!doctype html><html><head><title>A &amp; B\n <!-- x --></title><style>p{}</style></head><body>\
        <h1>Title</h1><script>alert(1)</script><p>One <b>bold</b> &lt;tag&gt; and <a href='/x'>a link</a>.</p>\
        <ul><li>snake_case</li><li>two</li></ul><pre><code>let a = *b;\n</code></pre>\
        <table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table></body></html>";

    #[test]
    fn markdown_keeps_headings_links_lists_and_tables() {
        let text = convert(PAGE, false).unwrap();
        for part in ["# Title", "**bold**", "[a link](/x)", "- snake\\_case", "```\nlet a = *b;\n```", "| k", "| 1"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("alert") && !text.contains("p{}"), "{text}");
    }

    #[test]
    fn plain_text_has_no_markup() {
        let text = convert(PAGE, true).unwrap();
        assert!(
            text.starts_with("Title\n\nOne bold <tag> and a link.\n\n- snake_case\n- two\n\nlet a = *b;"),
            "{text}"
        );
        assert!(!text.contains("**") && !text.contains("](") && !text.contains("alert"), "{text}");
    }

    #[test]
    fn deepest_accepted_page_is_converted() {
        for tag in ["div", "blockquote", "span", "b", "ul><li", "table><tr><td", "dl><dd><p"] {
            let page = format!("<{tag}>").repeat(255);
            assert_eq!(super::super::preflight::check(&page), Ok(()), "{tag}");
            assert!(convert(&page, false).is_ok() && convert(&page, true).is_ok(), "{tag}");
        }
    }

    #[test]
    fn title_is_one_line_of_text() {
        assert_eq!(title("<html><TITLE lang=en>A &amp;\n  B_c</TITLE>").as_deref(), Some("A & B_c"));
        assert_eq!(title("<p>no title"), None);
    }
}
