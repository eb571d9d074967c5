//! Errors that end a command: a message, a hint and the exit code.

use crate::app::StartError;
use crate::config::ConfigError;
use crate::store::StoreError;
use crate::store::db::without_password;

use super::Exit;

/// An error that ends a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// The exit code.
    pub exit: Exit,
    /// The message without the hint.
    pub message: String,
    hint: Option<String>,
}

impl CliError {
    /// Creates an error for wrong usage or invalid input.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), hint: None }
    }

    /// Creates an error for an unavailable service or database.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unavailable, message: message.into(), hint: None }
    }

    /// Adds a hint how to fix the error.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Names the place to which the error belongs.
    #[must_use]
    pub fn within(self, scope: &str) -> Self {
        Self { message: format!("{scope}: {}", self.message), ..self }
    }

    /// Converts an error of the installation of signal handlers.
    pub fn signals(error: std::io::Error) -> Self {
        Self::unavailable(format!("cannot install signal handlers: {error}"))
    }

    /// Converts an error of the start on this database.
    pub fn start(error: StartError, database: &str) -> Self {
        let message = error.to_string();
        let hint = match error {
            StartError::Store(error) => return Self::store(&error, database),
            StartError::Client(_) | StartError::Builtin(..) | StartError::Randomness(_) => {
                return Self::unavailable(message);
            }
            StartError::Egress(_) => "Set --egress-allow to networks (10.0.0.0/8), addresses, host names or *.domains.",
            StartError::ProcessUser(_) => {
                "Name an unprivileged user of this machine, or UID:GID, and start the service as root; or omit the \
                 setting."
            }
            StartError::Folder(..) => "Set --tools to an existing folder of *.json and *.toml files.",
            StartError::Workspace(..) => "Set --workspace to an existing folder.",
            StartError::SigningSecret(_) => {
                "Omit it, and the service generates one; show it with `toolpost keys signing-secret`."
            }
            StartError::Hook(..) => "Fix it under [[hooks]] in the settings file.",
            StartError::Policy(..) => "Fix it under [[policies]] in the settings file.",
            StartError::Issuer(_) => "Fix [auth.jwt] in the settings.",
            StartError::Upstreams(_) => {
                "Set --mcp-servers to a JSON file such as {\"mcpServers\": {\"git\": {\"command\": \"uvx\", \"args\": \
                 [\"mcp-server-git\"]}}}."
            }
            StartError::EncryptionKeys(_) => {
                "The first key encrypts, and all keys decrypt: add a new key in front and keep the old ones."
            }
            StartError::SecretsFile(..) => {
                "The file must have one line NAME=value per secret. Set its path with `secrets.file` or \
                 TOOLPOST_SECRETS_FILE."
            }
            StartError::Telemetry(_) => {
                "Set it to the OTLP/HTTP address of a collector, such as http://collector:4318, or to an empty value."
            }
        };
        Self::usage(message).hint(hint)
    }

    /// Converts an error of this database.
    pub fn store(error: &StoreError, database: &str) -> Self {
        let failed = Self::unavailable(error.to_string());
        let advice = match error {
            // The message already names the valid forms.
            StoreError::Url { .. } => return failed,
            StoreError::PostgresUrl { .. } => {
                "Write postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE, or set another"
            }
            StoreError::Migrate(_) => {
                "`toolpost doctor` checks its migrations. If another build created it, use that build, or set another \
                 database"
            }
            _ => "Check that it is reachable and writable, or set another",
        };
        failed.hint(format!(
            "The database is {}. {advice} with --database-url URL (TOOLPOST_DATABASE_URL, DATABASE_URL).",
            without_password(database)
        ))
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "error: {}", self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(formatter, "\n  {hint}"))
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
            .hint("Check the file of --config (TOOLPOST_CONFIG) and the variables that begin with TOOLPOST__.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_database_is_named_without_its_password() {
        let error = CliError::store(&StoreError::Corrupt("x".into()), "postgres://a:secret@h/d").to_string();
        assert!(error.starts_with("error: ") && error.contains("postgres://a:…@h/d"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn input_and_database_errors_have_different_exit_codes() {
        let egress = CliError::start(StartError::Egress("x".into()), "");
        let store = CliError::start(StoreError::Url { url: "x".into() }.into(), "x");
        assert_eq!((egress.exit, store.exit), (Exit::Usage, Exit::Unavailable));
    }
}
