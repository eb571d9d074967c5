//! Parser for the commented defaults. The comment above a setting is its description.

/// A section of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    /// The name without its brackets; a repeatable section keeps `[[…]]`.
    pub name: String,
    /// The description, in Markdown.
    pub about: String,
    /// The settings, in the order of the file.
    pub settings: Vec<Setting>,
}

/// A setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setting {
    /// The name in its section.
    pub key: String,
    /// The default, as TOML.
    pub default: String,
    /// The description, in one line.
    pub meaning: String,
}

impl Setting {
    /// Returns the environment variable of the setting.
    #[must_use]
    pub fn variable(&self, section: &str) -> String {
        let path = format!("TOOLPOST__{section}__{}", self.key);
        path.replace('.', "__").to_ascii_uppercase()
    }
}

/// The start of the line that marks a repeatable section in a comment.
const REPEATABLE: &str = "[[";

/// Parses all sections. Comments before the first section are skipped, because they describe the whole file.
#[must_use]
pub fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    // The final blank line flushes the last comment.
    for line in text.lines().chain([""]) {
        if let Some(words) = line.strip_prefix('#') {
            comment.push(words.strip_prefix(' ').unwrap_or(words));
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push(Section { name: name.to_owned(), about: markdown(&comment), settings: Vec::new() });
            comment.clear();
        } else if let (Some((key, value)), Some(section)) = (line.split_once(" = "), sections.last_mut()) {
            let meaning = comment.join(" ");
            section.settings.push(Setting { key: key.to_owned(), default: value.to_owned(), meaning });
            comment.clear();
        } else if line.is_empty() {
            let loose = std::mem::take(&mut comment);
            let repeatable = loose.iter().find(|line| line.starts_with(REPEATABLE));
            match (repeatable, sections.last_mut()) {
                (Some(name), _) => {
                    sections.push(Section { name: (*name).to_owned(), about: markdown(&loose), settings: Vec::new() });
                }
                (None, Some(section)) if !loose.is_empty() => section.about = markdown(&loose),
                (None, _) => {}
            }
        }
    }
    sections
}

/// Converts a comment to Markdown. Indented lines, and lines after a section name, become a code block.
fn markdown(comment: &[&str]) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut is_code = false;
    for line in comment {
        let is_section =
            line.starts_with(REPEATABLE) || is_code && comment.iter().any(|line| line.starts_with(REPEATABLE));
        let indented = line.strip_prefix("    ");
        let begins = is_section || indented.is_some();
        if begins != is_code {
            lines.extend(if begins { ["", "```toml"] } else { ["```", ""] });
            is_code = begins;
        }
        lines.push(indented.unwrap_or(line));
    }
    if is_code {
        lines.push("```");
    }
    // A blank line in the comment before an example would be doubled.
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# About all.\n\n[a]\n# One\n# two.\nx = 1\n# Y.\ny = \"\"\n\n# Of b.\n[a.b]\nz = []\n\n[c]\n# As in\n\
        #     [c.d]\n#     e = 1\n# and more.\n\n# Hooks.\n#\n# [[h]]\n# # One.\n# e = 1";

    #[test]
    fn what_stands_above_a_setting_is_what_it_means() {
        let found = sections(TEXT);
        let names: Vec<&str> = found.iter().map(|section| section.name.as_str()).collect();
        assert_eq!(names, ["a", "a.b", "c", "[[h]]"]);
        let [x, y] = found[0].settings.as_slice() else { panic!("{found:?}") };
        assert_eq!((x.key.as_str(), x.default.as_str(), x.meaning.as_str()), ("x", "1", "One two."));
        assert_eq!((y.default.as_str(), y.meaning.as_str()), ("\"\"", "Y."));
        assert_eq!(found[1].about, "Of b.");
        assert_eq!(found[1].settings[0].variable("a.b"), "TOOLPOST__A__B__Z");
    }

    #[test]
    fn examples_are_code() {
        let found = sections(TEXT);
        assert_eq!(found[2].about, "As in\n\n```toml\n[c.d]\ne = 1\n```\n\nand more.");
        assert_eq!(found[3].about, "Hooks.\n\n```toml\n[[h]]\n# One.\ne = 1\n```");
    }
}
