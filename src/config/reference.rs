//! Generator of `docs/operations/configuration.md`, the reference of all settings, flags and variables, with its parser
//! for the commented defaults.

use std::fmt::Write;

use super::DEFAULTS;

/// A flag or short variables for a setting.
#[derive(Debug, Clone, Copy)]
pub struct Short {
    /// The flag with its value.
    pub flag: Option<&'static str>,
    /// The variables; the first variable that is set takes precedence.
    pub variables: &'static [&'static str],
    /// The setting or another effect.
    pub says: &'static str,
}

const fn short(flag: Option<&'static str>, variables: &'static [&'static str], says: &'static str) -> Short {
    Short { flag, variables, says }
}

/// All flags of `toolpost serve`, and all variables other than `TOOLPOST__SECTION__SETTING`.
pub const SHORT: &[Short] = &[
    short(Some("--config FILE"), &["TOOLPOST_CONFIG"], "the settings file"),
    short(Some("--listen ADDR"), &["TOOLPOST_LISTEN"], "`server.listen`"),
    short(Some("--database-url URL"), &["TOOLPOST_DATABASE_URL", "DATABASE_URL"], "`store.database_url`"),
    short(Some("--tools DIR"), &["TOOLPOST_TOOLS"], "`tools.dir`"),
    short(Some("--discovery"), &["TOOLPOST_TOOLS_DISCOVERY"], "`tools.discovery`; the variable is `true` or `false`"),
    short(Some("--workspace DIR"), &["TOOLPOST_WORKSPACE"], "`workspace.dir`"),
    short(
        Some("--egress-allow CIDR-OR-HOST"),
        &["TOOLPOST_EGRESS_ALLOW"],
        "`egress.allow`; the flag is repeatable, and both accept a list with commas",
    ),
    short(Some("--mcp-servers FILE"), &["TOOLPOST_MCP_SERVERS"], "`mcp_servers.file`"),
    short(Some("--log-format FORMAT"), &[], "`log.format`"),
    short(Some("--insecure-no-auth"), &[], "`auth.insecure_no_auth`"),
    short(
        None,
        &["TOOLPOST_SIGNING_SECRET"],
        "`server.signing_secret`; it has no flag, because other users of the machine can read flags",
    ),
    short(None, &["TOOLPOST_ENCRYPTION_KEYS"], "`secrets.encryption_keys`"),
    short(None, &["TOOLPOST_SECRETS_FILE"], "`secrets.file`"),
    short(None, &["TOOLPOST_SECRET_X"], "the secret `X` that a definition names as `{\"secret\": \"X\"}`, for any `X`"),
    short(None, &["TOOLPOST_SERVER"], "the service that commands talk to, as with `--server URL`"),
    short(None, &["TOOLPOST_KEY"], "the API key that they send, as with `--key KEY`"),
    short(None, &["TOOLPOST_API_KEY"], "the key that `toolpost import openapi --to URL` uses"),
    short(
        None,
        &["OTEL_EXPORTER_OTLP_ENDPOINT"],
        "`telemetry.otlp_endpoint`, if that is empty; the SDK also reads the other standard variables, for example \
         `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_TRACES_SAMPLER`",
    ),
    short(None, &["OTEL_SERVICE_NAME"], "`telemetry.service_name`"),
    short(None, &["OTEL_SDK_DISABLED"], "`true` disables traces regardless of other settings"),
    short(
        None,
        &["XDG_DATA_HOME", "HOME"],
        "the user's data folder: the database is `toolpost/toolpost.db` in it, or below `.local/share` of the home \
            folder",
    ),
    short(None, &["NO_COLOR"], "any value disables colors in the log, which are used on a terminal only"),
];

/// Renders `docs/operations/configuration.md`.
#[must_use]
pub fn reference() -> String {
    let mut text = include_str!("reference.md").to_owned();
    text.push_str("| flag | variable | setting or effect |\n|---|---|---|\n");
    for Short { flag, variables, says } in SHORT {
        let flag = flag.map_or_else(String::new, |flag| format!("`{flag}`"));
        let variables: Vec<String> = variables.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {flag} | {} | {says} |", variables.join(", else "));
    }
    text.push_str("\n## Settings\n");
    for section in sections(DEFAULTS) {
        write_section(&mut text, &section);
    }
    text
}

fn write_section(text: &mut String, Section { name, about, settings }: &Section) {
    let shown = if name.starts_with('[') { name.clone() } else { format!("[{name}]") };
    let _ = write!(text, "\n### `{shown}`\n\n");
    if !about.is_empty() {
        let _ = write!(text, "{about}\n\n");
    }
    if settings.is_empty() {
        text.truncate(text.trim_end().len());
        text.push_str("\n\nOnly the settings file can set these.\n");
        return;
    }
    text.push_str("| setting | default | variable | description |\n|---|---|---|---|\n");
    for setting in settings {
        let Setting { key, default, meaning } = setting;
        let meaning = meaning.replace('|', "\\|");
        let _ = writeln!(text, "| `{key}` | `{default}` | `{}` | {meaning} |", setting.variable(name));
    }
}

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
    fn comment_above_a_setting_is_its_meaning() {
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
