//! Generator of `docs/operations/configuration.md`, the reference of all settings, flags and variables.

use std::fmt::Write;

use super::DEFAULTS;

mod read;

pub use read::{Section, Setting, sections};

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
