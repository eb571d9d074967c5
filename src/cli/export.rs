//! `toolpost export`: writes stored calls, one ToolCall per line.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::domain::{Clock, Tenant, Time};
use crate::formats::native::ToolCall;
use crate::store::export::ExportFilter;
use crate::store::{Store, Stores};
use clap::builder::NonEmptyStringValueParser;
use tokio::time::Instant;

use super::error::CliError;
use super::moment::moment;
use super::options::Options;
use super::{Exit, keys, print};

/// Interval of the progress display on a terminal.
const PROGRESS: Duration = Duration::from_millis(500);

/// Arguments of `toolpost export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Export only calls accepted at or after this time: RFC 3339, a day in UTC such as 2026-01-31, or an age such as 7d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Time>,
    /// Export only calls accepted before this time [default: now, so that the export of a busy service ends]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Time>,
    /// Export only calls of this session
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    session: Option<String>,
    /// Export only calls of this tool
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Export calls of this tenant
    #[arg(long, default_value = "default", value_name = "NAME", value_parser = keys::tenant)]
    tenant: Tenant,
    /// Write to this file, which appears when it is complete [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub async fn run(args: Args, options: &Options) -> Result<Exit, CliError> {
    let config = options.quiet_settings()?;
    config.log.start();
    let database = config.database_url();
    let Args { since, until, session, name, tenant, out } = args;
    let until = until.unwrap_or_else(|| Clock::system().now());
    let filter = ExportFilter { session, name, since, until: Some(until) };
    let mut target = Target::open(out.as_deref())?;
    // The store is enough: no tools are loaded, and nothing runs.
    let stores = Stores::open(&database).await.map_err(|error| CliError::store(&error, &database))?;
    let store = stores.for_tenant(&tenant);
    let written = write(&store, filter, &mut target, &database).await;
    store.close().await;
    let ExportSummary { calls, unreadable, is_cut_off } = written?;
    target.finish(is_cut_off)?;
    if unreadable > 0 {
        print::note(&format!("{unreadable} calls are unreadable and were skipped"));
    }
    if out.is_some() {
        print::note(&format!("{calls} calls"));
    }
    Ok(if unreadable > 0 { Exit::Failure } else { Exit::Success })
}

/// The result of an export.
#[derive(Debug, Default)]
struct ExportSummary {
    calls: u64,
    unreadable: u64,
    /// Whether the reader closed the output early, as `head` does.
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
    let is_on = std::io::stderr().is_terminal();
    let mut screen = ExportProgress { is_on, shown: Instant::now(), is_written: false };
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
                    print::note(&format!("skipped: {error}"));
                }
            }
        }
        screen.show(written.calls);
    }
    screen.clear();
    Ok(written)
}

/// The destination of the lines.
struct Target {
    lines: BufWriter<Box<dyn Write + Send>>,
    /// The path of the unfinished file and its final path.
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
            .map_err(|error| CliError::usage(format!("cannot write {}: {error}", part.display())))?;
        Ok(Self { lines: BufWriter::new(Box::new(file)), file: Some((part, path.to_owned())) })
    }

    fn line(&mut self, call: &ToolCall<'_>) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.lines, call)?;
        self.lines.write_all(b"\n")
    }

    fn failed(&self, error: &std::io::Error) -> CliError {
        let name = self.file.as_ref().map_or("standard output".to_owned(), |(part, _)| part.display().to_string());
        CliError::unavailable(format!("cannot write {name}: {error}"))
    }

    /// Writes the rest and renames the file to its final path.
    fn finish(&mut self, is_cut_off: bool) -> Result<(), CliError> {
        match self.lines.flush() {
            Err(error) if is_cut_off || self.file.is_none() && error.kind() == ErrorKind::BrokenPipe => {
                tracing::debug!(%error, "the output was closed by its reader");
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

/// The progress display on a terminal.
struct ExportProgress {
    is_on: bool,
    shown: Instant,
    is_written: bool,
}

impl ExportProgress {
    fn show(&mut self, calls: u64) {
        if self.is_on && self.shown.elapsed() >= PROGRESS {
            self.shown = Instant::now();
            self.is_written = true;
            // A failure cannot be reported, because standard error is closed.
            let _ = write!(std::io::stderr(), "\r{calls} calls");
        }
    }

    fn clear(&mut self) {
        if self.is_written {
            let _ = write!(std::io::stderr(), "\r{:24}\r", "");
        }
    }
}
