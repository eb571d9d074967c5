//! Upstream MCP servers as they are declared.

use std::collections::BTreeMap;

use super::process::EnvValue;
use super::tool::OutputCheck;

mod parse;

pub use parse::{Declared, read_registered, read_settings, server_name};

/// An upstream MCP server. Whatever it is given may be a secret, so it is not shown by `Debug`.
#[derive(Clone, PartialEq)]
pub struct Upstream {
    /// How it is reached.
    pub transport: UpstreamTransport,
    /// Whether a tool whose definition has changed rests until somebody has accepted it.
    pub pin: bool,
    /// What a result means that does not match its tool's output schema.
    pub output_check: OutputCheck,
    /// Whether `${NAME}` in its texts stands for a secret or a variable of the service's environment. Only whoever declares it
    /// on the server may have them.
    pub expands: bool,
}

/// How an upstream server is reached.
#[derive(Clone, PartialEq)]
pub enum UpstreamTransport {
    /// A program that speaks on its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment, beside what every program needs.
        env: BTreeMap<String, EnvValue>,
        /// Where it runs; the service's own working directory unless given.
        cwd: Option<String>,
    },
    /// Streamable HTTP.
    Http {
        /// `http://` or `https://`.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, EnvValue>,
    },
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Upstream").field("pin", &self.pin).finish_non_exhaustive()
    }
}
