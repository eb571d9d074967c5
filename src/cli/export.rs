//! `toolpost export`: what happened, one ToolCall a line.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use tokio::time::Instant;
use toolpost::domain::{Clock, Tenant, Time};
use toolpost::formats::native::ToolCall;
use toolpost::store::export::ExportFilter;
use toolpost::store::{Store, Stores};

use super::error::CliError;
use super::options::Options;
use super::{Exit, keys, print};

/// How often a terminal is told how far it is.
const PROGRESS: Duration = Duration::from_millis(500);

/// Which calls, and where to.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Accepted at or after this time: RFC 3339, or a day in UTC, as in 2026-01-31
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Time>,
    /// Accepted before this time; now unless given, so that an export of a busy service has an end
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Time>,
    /// Of this session
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    session: Option<String>,
    /// Of this tool
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Of this tenant
    #[arg(long, default_value = "default", value_name = "NAME", value_parser = keys::tenant)]
    tenant: Tenant,
    /// Write this file, which is there once it is whole; standard output unless given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    let config = options.quiet_settings()?;
    toolpost::telemetry::start(&config.log);
    let database = config.database_url();
    let Args { since, until, session, name, tenant, out } = args;
    let until = until.unwrap_or_else(|| Clock::system().now());
    let filter = ExportFilter { session, name, since, until: Some(until) };
    let mut target = Target::open(out.as_deref())?;
    // Only the store is needed: no tools are read, and nothing runs.
    let stores = Stores::open(&database).await.map_err(|error| CliError::store(&error, &database))?;
    let store = stores.of(&tenant);
    let written = write(&store, filter, &mut target, &database).await;
    store.close().await;
    let ExportSummary { calls, unreadable, is_cut_off } = written?;
    target.finish(is_cut_off)?;
    if unreadable > 0 {
        print::note(&format!("{unreadable} calls cannot be read and are left out"));
    }
    if out.is_some() {
        print::note(&format!("{calls} calls"));
    }
    Ok(if unreadable > 0 { Exit::Failure } else { Exit::Success })
}

/// What came of it.
#[derive(Debug, Default)]
struct ExportSummary {
    calls: u64,
    unreadable: u64,
    /// The reader has seen enough, as `head` has.
    is_cut_off: bool,
}

async fn write(
    store: &Store,
    filter: ExportFilter,
    target: &mut Target,
    database: &str,
) -> Result<ExportSummary, CliError> {
    let mut export = store.export(filter);
    let mut written = ExportSummary::default();
    let mut screen = ExportProgress::new();
    while let Some(calls) = export.next().await.map_err(|error| CliError::store(&error, database))? {
        for call in calls {
            match call {
                Ok(call) => match target.line(&ToolCall::from(&call)) {
                    Ok(()) => written.calls += 1,
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                        return Ok(ExportSummary { is_cut_off: true, ..written });
                    }
                    Err(error) => return Err(target.failed(&error)),
                },
                Err(error) => {
                    written.unreadable += 1;
                    print::note(&format!("left out: {error}"));
                }
            }
        }
        screen.show(written.calls);
    }
    screen.clear();
    Ok(written)
}

/// Where the lines go.
struct Target {
    lines: BufWriter<Box<dyn Write + Send>>,
    /// What is written, and what it is called once it is whole.
    file: Option<(PathBuf, PathBuf)>,
}

impl Target {
    fn open(out: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = out else {
            return Ok(Self { lines: BufWriter::new(Box::new(std::io::stdout())), file: None });
        };
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part)
            .map_err(|error| CliError::usage(format!("{} cannot be written: {error}", part.display())))?;
        Ok(Self { lines: BufWriter::new(Box::new(file)), file: Some((part, path.to_owned())) })
    }

    fn line(&mut self, call: &ToolCall<'_>) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.lines, call)?;
        self.lines.write_all(b"\n")
    }

    fn failed(&self, error: &std::io::Error) -> CliError {
        let name = self.file.as_ref().map_or("standard output".to_owned(), |(part, _)| part.display().to_string());
        CliError::unusable(format!("{name} cannot be written: {error}"))
    }

    /// Writes what is left, and gives the file its name.
    fn finish(&mut self, is_cut_off: bool) -> Result<(), CliError> {
        match self.lines.flush() {
            Err(error) if is_cut_off || self.file.is_none() && error.kind() == ErrorKind::BrokenPipe => {
                tracing::debug!(%error, "the reader has gone");
            }
            Err(error) => return Err(self.failed(&error)),
            Ok(()) => {}
        }
        if let Some((part, path)) = &self.file {
            std::fs::rename(part, path).map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }
}

/// How far it is, on a terminal.
struct ExportProgress {
    is_on: bool,
    shown: Instant,
    is_written: bool,
}

impl ExportProgress {
    fn new() -> Self {
        Self { is_on: std::io::stderr().is_terminal(), shown: Instant::now(), is_written: false }
    }

    fn show(&mut self, calls: u64) {
        if self.is_on && self.shown.elapsed() >= PROGRESS {
            self.shown = Instant::now();
            self.is_written = true;
            // Nobody is left to be told that this failed.
            let _ = write!(std::io::stderr(), "\r{calls} calls");
        }
    }

    fn clear(&mut self) {
        if self.is_written {
            let _ = write!(std::io::stderr(), "\r{:24}\r", "");
        }
    }
}

/// A time as people write it.
fn time(text: &str) -> Result<Time, String> {
    let of_a_day = || Time::parse(&format!("{text}T00:00:00Z"));
    Time::parse(text).or_else(of_a_day).ok_or_else(|| "give an RFC 3339 time or a day, as in 2026-01-31".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_its_beginning_in_utc() {
        assert_eq!(time("2026-01-31"), time("2026-01-31T00:00:00Z"));
        assert_eq!(time("2026-01-31T01:00:00+01:00"), time("2026-01-31"));
        for wrong in ["", "2026-13-01", "yesterday", "12:00"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
