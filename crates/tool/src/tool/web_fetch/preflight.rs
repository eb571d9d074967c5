//! A check for pages that would exhaust memory or time, before they are parsed: an HTML parser reopens unclosed
//! formatting elements in each paragraph, and walking a tree needs a stack as deep as the tree.

/// Maximum nesting of elements that need an end tag; with other elements between them the tree may be four times as
/// deep.
const MAX_DEPTH: usize = 256;
/// Maximum number of elements. If all of them are siblings, the conversion time grows with the square.
const MAX_ELEMENTS: usize = 100_000;
/// Elements with an optional end tag, which end at the start of a sibling.
const OPTIONAL_END: [&str; 14] =
    ["p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "optgroup", "colgroup", "rt"];
/// Elements without content.
const EMPTY: [&str; 14] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];
/// Formatting elements, which the parser reopens if they were left open.
const FORMATTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];
/// Elements whose content is not markup.
const RAW: [&str; 6] = ["script", "style", "textarea", "title", "xmp", "noscript"];

/// The error for a page that is too complex to convert.
#[derive(Debug, PartialEq, Eq)]
pub struct TooComplex;

/// Scans a page once and estimates its worst case.
///
/// # Errors
/// Returns [`TooComplex`] if the page may exceed the limits.
pub fn check(html: &str) -> Result<(), TooComplex> {
    let (mut open, mut formatting, mut left_open, mut elements) = (Vec::<String>::new(), 0_usize, 0_usize, 0_usize);
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let (name, is_end) = tag(rest);
        if name.is_empty() {
            continue;
        }
        let is_formatting = FORMATTING.contains(&name.as_str());
        if is_end {
            // Only the end tag of the innermost open element certainly ends an element.
            if open.last() == Some(&name) {
                open.pop();
                formatting -= usize::from(is_formatting);
            } else if let Some(index) = open.iter().rposition(|other| *other == name) {
                let lost = open.drain(index..).filter(|name| FORMATTING.contains(&name.as_str())).count();
                (formatting, left_open) = (formatting - lost, left_open + lost);
            }
            continue;
        }
        elements += 1 + formatting + left_open;
        if RAW.contains(&name.as_str()) {
            rest = after_raw(rest, &name);
        } else if !EMPTY.contains(&name.as_str()) && !OPTIONAL_END.contains(&name.as_str()) {
            open.push(name);
            formatting += usize::from(is_formatting);
        }
        if open.len() > MAX_DEPTH || elements > MAX_ELEMENTS {
            return Err(TooComplex);
        }
    }
    Ok(())
}

/// Returns the lower-case name of a tag after its `<`, and `true` if it is an end tag.
fn tag(rest: &str) -> (String, bool) {
    let (rest, is_end) = rest.strip_prefix('/').map_or((rest, false), |rest| (rest, true));
    if !rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return (String::new(), is_end);
    }
    let end =
        rest.find(|letter: char| letter.is_ascii_whitespace() || matches!(letter, '>' | '/')).unwrap_or(rest.len());
    (rest[..end.min(rest.floor_char_boundary(40))].to_ascii_lowercase(), is_end)
}

/// Returns the text after the content of a raw element.
fn after_raw<'h>(rest: &'h str, name: &str) -> &'h str {
    let mut from = rest;
    while let Some(at) = from.find("</") {
        from = &from[at + 2..];
        if from.get(..name.len()).is_some_and(|other| other.eq_ignore_ascii_case(name)) {
            return from;
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_pages_pass_even_if_malformed() {
        let row = "<tr><td><p>One <b>two <i>three</b></i><br><img src=x><li><a href='x'>y</a></td>";
        let page = format!("<html><script>if (a<b) {{ '<div><div>' }}</script><table>{}</table>", row.repeat(100));
        assert_eq!(check(&page), Ok(()));
        assert_eq!(check(&"<div><span>x</span></div>".repeat(49_000)), Ok(()));
        assert_eq!(check("<<< 1 < 2 </ <!-- <b --> <é"), Ok(()));
    }

    #[test]
    fn expensive_pages_are_too_complex() {
        for page in [
            "<div>".repeat(100_000),
            "<DIV\n>".repeat(1000),
            format!("{}{}", "<b id=1>".repeat(300), "<p>".repeat(1000)),
            format!("{}{}", "<b><object></b></object>".repeat(300), "<p>".repeat(1000)),
            "<b>x</b><i>y</i>".repeat(60_000),
            "<div></q>".repeat(1000),
        ] {
            assert_eq!(check(&page), Err(TooComplex), "{}", &page[..20]);
        }
    }
}
