//! The common options of all commands, and their conversion to settings together with the short environment variables.

use std::path::PathBuf;

use crate::config::{Config, LogFormat, SecretObjects};
use clap::builder::NonEmptyStringValueParser;

use super::error::CliError;

/// Options of all commands. The environment is read here and not by clap: an empty variable, as in container files,
/// counts as unset, while an empty flag is an error.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Common options")]
pub struct Options {
    /// Use this database: sqlite://PATH, sqlite::memory: or postgres://USER@HOST/DATABASE [default: an SQLite file in
    /// your data folder] [env: TOOLPOST_DATABASE_URL, else DATABASE_URL]
    #[arg(long, global = true, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    database_url: Option<String>,
    /// Read tool definitions, *.json and *.toml, from this folder [env: TOOLPOST_TOOLS]
    #[arg(long, global = true, value_name = "DIR", value_parser = NonEmptyStringValueParser::new())]
    tools: Option<String>,
    /// Add the tools find_tools and call_tool, which give a model access to all tools through two definitions [env:
    /// TOOLPOST_TOOLS_DISCOVERY=true]
    #[arg(long, global = true)]
    discovery: bool,
    /// Allow `http` tools to reach this network, address or host in addition to the public internet; repeatable [env:
    /// TOOLPOST_EGRESS_ALLOW, separated by commas]
    #[arg(long, global = true, value_name = "CIDR-OR-HOST", value_delimiter = ',')]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    egress_allow: Vec<String>,
    /// Enable the tools read, write, edit, list, search and bash, which work in this folder [env: TOOLPOST_WORKSPACE]
    #[arg(long, global = true, value_name = "DIR", value_parser = NonEmptyStringValueParser::new())]
    workspace: Option<String>,
    /// Connect to the upstream MCP servers in the `mcpServers` object of this JSON file; their tools appear as
    /// NAME.tool [env: TOOLPOST_MCP_SERVERS]
    #[arg(long, global = true, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    mcp_servers: Option<String>,
    /// Read this settings file, TOML [env: TOOLPOST_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write the log to standard error in this format
    #[arg(long, global = true, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

impl Options {
    /// Returns the settings of the service. Flags take precedence over short variables, `TOOLPOST__SECTION__KEY`, the
    /// file and the defaults, in this order.
    pub fn settings(&self) -> Result<Config, CliError> {
        let file = self.config.clone().or_else(|| variable("TOOLPOST_CONFIG").map(PathBuf::from));
        let mut config = Config::load(file.as_deref())?;
        self.apply(&mut config, |name| std::env::var(name).ok());
        Ok(config)
    }

    /// Returns the settings of a short command: only problems are logged, unless a log filter is set.
    pub fn quiet_settings(&self) -> Result<Config, CliError> {
        let mut config = self.settings()?;
        if config.log.filter == Config::default().log.filter {
            "warn,rmcp::service=off".clone_into(&mut config.log.filter);
        }
        Ok(config)
    }

    /// Returns settings without a database and folders, for commands that only validate.
    pub fn bare_settings(&self) -> Result<Config, CliError> {
        let mut config = self.quiet_settings()?;
        "sqlite::memory:".clone_into(&mut config.store.database_url);
        config.tools.dir.clear();
        config.workspace.dir.clear();
        config.mcp_servers.file.clear();
        config.upstreams = SecretObjects::default();
        Ok(config)
    }

    fn apply(&self, config: &mut Config, env: impl Fn(&str) -> Option<String>) {
        let variable = |name: &str| not_blank(env(name));
        // Any other value counts as `false`.
        let is_true = |value: String| matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on");
        let set = |setting: &mut String, flag: &Option<String>, names: &[&str]| {
            if let Some(value) = flag.clone().or_else(|| names.iter().find_map(|name| variable(name))) {
                *setting = value;
            }
        };
        set(&mut config.store.database_url, &self.database_url, &["TOOLPOST_DATABASE_URL", "DATABASE_URL"]);
        set(&mut config.tools.dir, &self.tools, &["TOOLPOST_TOOLS"]);
        set(&mut config.mcp_servers.file, &self.mcp_servers, &["TOOLPOST_MCP_SERVERS"]);
        set(&mut config.workspace.dir, &self.workspace, &["TOOLPOST_WORKSPACE"]);
        if self.discovery {
            config.tools.discovery = true;
        } else if let Some(discovery) = variable("TOOLPOST_TOOLS_DISCOVERY") {
            config.tools.discovery = is_true(discovery);
        }
        if !self.egress_allow.is_empty() {
            config.egress.allow.clone_from(&self.egress_allow);
        } else if let Some(allow) = variable("TOOLPOST_EGRESS_ALLOW") {
            config.egress.allow =
                allow.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
        }
        // Not available as flags, because all users of a machine can read the arguments of a process.
        set(&mut config.server.signing_secret.0, &None, &["TOOLPOST_SIGNING_SECRET"]);
        set(&mut config.secrets.encryption_keys.0, &None, &["TOOLPOST_ENCRYPTION_KEYS"]);
        set(&mut config.secrets.file, &None, &["TOOLPOST_SECRETS_FILE"]);
        // Variables of the OpenTelemetry standard (SDK environment variables).
        if config.telemetry.otlp_endpoint.is_empty() {
            set(&mut config.telemetry.otlp_endpoint, &None, &["OTEL_EXPORTER_OTLP_ENDPOINT"]);
        }
        set(&mut config.telemetry.service_name, &None, &["OTEL_SERVICE_NAME"]);
        if variable("OTEL_SDK_DISABLED").is_some_and(is_true) {
            config.telemetry.otlp_endpoint.clear();
        }
        if let Some(format) = self.log_format {
            config.log.format = format;
        }
    }
}

/// Sets the listen address from the `--listen` flag or its variable.
pub fn set_listen(config: &mut Config, flag: Option<String>) {
    if let Some(listen) = flag.or_else(|| variable("TOOLPOST_LISTEN")) {
        config.server.listen = listen;
    }
}

/// Returns a variable of the process that is valid UTF-8 and not blank.
pub fn variable(name: &str) -> Option<String> {
    not_blank(std::env::var(name).ok())
}

fn not_blank(value: Option<String>) -> Option<String> {
    value.filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct OptionsOnly {
        #[command(flatten)]
        options: Options,
    }

    fn settled(flags: &[&str], env: &[(&str, &str)]) -> Config {
        let only = OptionsOnly::try_parse_from(["toolpost"].iter().chain(flags)).unwrap();
        let mut config = Config::default();
        config.store.database_url = "sqlite://of-the-file".into();
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        only.options.apply(&mut config, env);
        config
    }

    #[test]
    fn flag_precedes_variable_and_variable_precedes_file() {
        let env = [("TOOLPOST_DATABASE_URL", "sqlite://ours"), ("DATABASE_URL", "sqlite://any")];
        assert_eq!(settled(&["--database-url", "sqlite://flag"], &env).store.database_url, "sqlite://flag");
        assert_eq!(settled(&[], &env).store.database_url, "sqlite://ours");
        assert_eq!(settled(&[], &env[1..]).store.database_url, "sqlite://any");
        assert_eq!(settled(&[], &[]).store.database_url, "sqlite://of-the-file");
    }

    #[test]
    fn empty_variable_counts_as_unset() {
        let env = [("TOOLPOST_DATABASE_URL", ""), ("TOOLPOST_TOOLS", " "), ("TOOLPOST_EGRESS_ALLOW", "")];
        let config = settled(&[], &env);
        assert_eq!(config.store.database_url, "sqlite://of-the-file");
        assert!(config.tools.dir.is_empty() && config.egress.allow.is_empty());
    }

    #[test]
    fn egress_allow_is_a_list() {
        let env = [("TOOLPOST_EGRESS_ALLOW", "10.0.0.0/8, localhost,")];
        assert_eq!(settled(&[], &env).egress.allow, ["10.0.0.0/8", "localhost"]);
        let flags = ["--egress-allow", "127.0.0.1", "--egress-allow", "a,b"];
        assert_eq!(settled(&flags, &env).egress.allow, ["127.0.0.1", "a", "b"]);
    }

    #[test]
    fn traces_use_the_opentelemetry_variables() {
        let there = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        let config = settled(&[], &[there, ("OTEL_SERVICE_NAME", "mine")]);
        assert_eq!(config.telemetry.otlp_endpoint, "http://collector:4318");
        assert_eq!(config.telemetry.service_name, "mine");
        assert_eq!(settled(&[], &[]).telemetry.service_name, "toolpost");
        assert_eq!(settled(&[], &[there, ("OTEL_SDK_DISABLED", "true")]).telemetry.otlp_endpoint, "");
    }

    #[test]
    fn other_options_become_settings() {
        let env = [("TOOLPOST_TOOLS", "/tools"), ("TOOLPOST_SIGNING_SECRET", "whsec_x")];
        let config = settled(&["--log-format", "json"], &env);
        assert_eq!(settled(&["--workspace", "w"], &[("TOOLPOST_WORKSPACE", "v")]).workspace.dir, "w");
        assert_eq!(settled(&[], &[("TOOLPOST_WORKSPACE", "v")]).workspace.dir, "v");
        assert_eq!((config.log.format, config.tools.dir.as_str()), (LogFormat::Json, "/tools"));
        assert!(!config.tools.discovery && settled(&["--discovery"], &env).tools.discovery);
        assert!(settled(&[], &[("TOOLPOST_TOOLS_DISCOVERY", "true")]).tools.discovery);
        assert!(!settled(&[], &[("TOOLPOST_TOOLS_DISCOVERY", "false")]).tools.discovery);
        assert_eq!(config.server.signing_secret.0, "whsec_x");
        assert_eq!(settled(&["--mcp-servers", "a.json"], &[]).mcp_servers.file, "a.json");
        assert_eq!(settled(&[], &[("TOOLPOST_MCP_SERVERS", "b.json")]).mcp_servers.file, "b.json");
    }
}
