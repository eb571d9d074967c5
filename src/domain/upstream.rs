//! Declarations of upstream MCP servers.

use std::collections::BTreeMap;

use super::process::EnvValue;
use super::tool::OutputCheck;

mod parse;

pub use parse::{Declared, read_registered, read_settings, server_name};

/// An upstream MCP server. `Debug` does not print its settings, because any of them can be a secret.
#[derive(Clone, PartialEq)]
pub struct Upstream {
    /// The transport.
    pub transport: UpstreamTransport,
    /// Whether a tool whose definition changes is quarantined until it is accepted.
    pub pin: bool,
    /// The effect of a result that does not match the output schema of its tool.
    pub output_check: OutputCheck,
    /// Whether `${NAME}` in texts is replaced by a secret or an environment variable of the service. Only servers
    /// declared in the settings may use this.
    pub expands: bool,
}

/// The transport to an upstream server.
#[derive(Clone, PartialEq)]
pub enum UpstreamTransport {
    /// A program that communicates over standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment, in addition to the variables that every program needs.
        env: BTreeMap<String, EnvValue>,
        /// Its working directory. Default: the working directory of the service.
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
