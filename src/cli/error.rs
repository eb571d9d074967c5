//! What ends a command early: a sentence, what to do about it, and the exit code.

use toolpost::app::StartError;
use toolpost::config::ConfigError;
use toolpost::store::StoreError;
use toolpost::store::db::without_password;

use super::Exit;

/// Why a command did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl CliError {
    /// Wrong usage or bad input.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: what.into(), hint: None }
    }

    /// The service or the database could not be used.
    pub fn unusable(what: impl Into<String>) -> Self {
        Self { exit: Exit::Unavailable, message: what.into(), hint: None }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(self, way_out: impl Into<String>) -> Self {
        Self { hint: Some(way_out.into()), ..self }
    }

    /// The library could not be started on this database.
    pub fn start(error: StartError, database: &str) -> Self {
        match error {
            StartError::Store(error) => Self::store(&error, database),
            StartError::Egress(_) => Self::usage(error.to_string())
                .hint("Give --egress-allow networks (10.0.0.0/8), addresses, host names or *.domains."),
            StartError::ProcessUser(_) => Self::usage(error.to_string())
                .hint("Name an unprivileged user of this machine, or UID:GID, and start the service as root; or leave it out."),
            StartError::Folder { .. } => {
                Self::usage(error.to_string()).hint("Give --tools an existing folder of *.json and *.toml files.")
            }
            StartError::Workspace { .. } => Self::usage(error.to_string()).hint("Give --workspace an existing folder."),
            StartError::SigningSecret(_) => Self::usage(error.to_string())
                .hint("Leave it out, and the service makes one; `toolpost keys signing-secret` then shows it."),
            StartError::Hook { .. } => {
                Self::usage(error.to_string()).hint("Mend it under [[hooks]] in the settings file.")
            }
            StartError::Issuer(_) => Self::usage(error.to_string()).hint("Mend [auth.jwt] in the settings."),
            StartError::Upstreams(_) => Self::usage(error.to_string()).hint(
                "Give --mcp-servers a JSON file as in {\"mcpServers\": {\"git\": {\"command\": \"uvx\", \"args\": [\"mcp-server-git\"]}}}.",
            ),
            StartError::EncryptionKeys(_) => Self::usage(error.to_string())
                .hint("The first key seals, all of them open: put a new one in front and leave the old ones."),
            StartError::SecretsFile { .. } => Self::usage(error.to_string())
                .hint("It has a line NAME=value for each secret; `secrets.file` and TOOLPOST_SECRETS_FILE name it."),
            StartError::Telemetry(_) => Self::usage(error.to_string())
                .hint("It is where a collector takes OTLP over HTTP, as in http://collector:4318; empty for none."),
            StartError::Client(_) | StartError::Builtin { .. } | StartError::Randomness(_) => {
                Self::unusable(error.to_string())
            }
        }
    }

    /// The database failed.
    pub fn store(error: &StoreError, database: &str) -> Self {
        let what = Self::unusable(error.to_string());
        match error {
            // Says itself what to write.
            StoreError::Url { .. } => what,
            StoreError::Migrate(_) => what.hint(format!(
                "The database is {}. `toolpost doctor` checks its migrations. If another build created it, use that build, or \
                 name another database with --database-url URL (TOOLPOST_DATABASE_URL, DATABASE_URL).",
                without_password(database)
            )),
            _ => what.hint(format!(
                "The database is {}. Check that it can be reached and written, or name another with --database-url URL \
                 (TOOLPOST_DATABASE_URL, DATABASE_URL).",
                without_password(database)
            )),
        }
    }

    /// What went wrong, in a sentence.
    pub fn what(&self) -> &str {
        &self.message
    }

    /// Returns the exit code of a command that ends with it.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "error: {}", self.message)?;
        self.hint.as_ref().map_or(Ok(()), |way_out| write!(formatter, "\n  {way_out}"))
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
    fn a_database_that_fails_is_named_without_its_password() {
        let error = CliError::store(&StoreError::Corrupt("x".into()), "postgres://a:secret@h/d").to_string();
        assert!(error.starts_with("error: ") && error.contains("postgres://a:…@h/d"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn bad_input_and_a_bad_database_have_their_own_exit_codes() {
        let egress = CliError::start(StartError::Egress("x".into()), "");
        let store = CliError::start(StoreError::Url { url: "x".into() }.into(), "x");
        assert_eq!((egress.exit, store.exit), (Exit::Usage, Exit::Unavailable));
    }
}
