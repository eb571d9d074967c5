//! Errors of the start of a service and of its calls.

use std::path::PathBuf;

use crate::executor::signing_key::InvalidSigningSecret;
use crate::executor::vault::KeyringError;
use crate::policies::ExpressionError;
use crate::store::StoreError;

/// An error returned by [`Builder::start`](super::Builder::start).
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The setting `egress.allow` is invalid.
    #[error("egress.allow: {0}")]
    Egress(String),
    /// The setting `process.user` is invalid.
    #[error("process.user: {0}")]
    ProcessUser(String),
    /// The endpoint for traces is invalid.
    #[error("telemetry.otlp_endpoint: {0}")]
    Telemetry(String),
    /// The HTTP client could not be created.
    #[error("cannot create the HTTP client: {0}")]
    Client(String),
    /// The signing secret is invalid.
    #[error("TOOLPOST_SIGNING_SECRET: {0}")]
    SigningSecret(InvalidSigningSecret),
    /// The encryption keys are invalid.
    #[error("TOOLPOST_ENCRYPTION_KEYS: {0}")]
    EncryptionKeys(KeyringError),
    /// The settings of the token issuer are invalid.
    #[error("{0}")]
    Issuer(String),
    /// The secrets file cannot be read, or is invalid, for this reason.
    #[error("cannot use the secrets file {path}: {reason}", path = .0.display(), reason = .1)]
    SecretsFile(PathBuf, String),
    /// The operating system returned no random bytes.
    #[error("random bytes are unavailable: {0}")]
    Randomness(String),
    /// A hook of the settings or of the program is invalid. The number is its position in its list, from 1.
    #[error("hook {number} is invalid: {reason}", number = .0, reason = .1)]
    Hook(usize, String),
    /// The policy of this name in the settings does not compile, for this reason.
    #[error("the policy \"{name}\" is invalid: {reason}", name = .0, reason = .1)]
    Policy(String, ExpressionError),
    /// The declarations of the upstream MCP servers are invalid.
    #[error("invalid upstream MCP servers: {0}")]
    Upstreams(String),
    /// The definition of the built-in tool of this name is invalid, for this reason.
    #[error("the built-in tool \"{name}\" is invalid: {reason}", name = .0, reason = .1)]
    Builtin(String, String),
    /// The folder of the workspace tools cannot be opened.
    #[error("cannot open the workspace {path}: {source}", path = .0.display(), source = .1)]
    Workspace(PathBuf, #[source] std::io::Error),
    /// The tools folder cannot be read.
    #[error("cannot read the tools folder {path}: {source}", path = .0.display(), source = .1)]
    Folder(PathBuf, #[source] std::io::Error),
}

/// An error returned by [`App::call`](super::App::call) for a call that was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Too many calls are in flight.
    #[error("too many calls are in flight")]
    Overloaded,
    /// The service is shutting down.
    #[error("the service is shutting down")]
    ShuttingDown,
    /// The call could not be recorded.
    #[error("the call could not be recorded: the database is unavailable")]
    NotRecorded,
}
