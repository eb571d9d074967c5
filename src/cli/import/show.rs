//! The report of an import as text.

use crate::import::Report;

use super::Openapi;
use crate::cli::print;

/// Maximum length of the name of an operation and of a reason, in characters.
const LONGEST_OPERATION: usize = 60;
const LONGEST_REASON: usize = 200;

pub fn text(report: &Report, args: &Openapi) -> String {
    let done = |names: &Vec<String>, what: &str| names.iter().map(|name| row(what, name, "")).collect::<Vec<_>>();
    let mut rows = done(&report.created, "created");
    rows.extend(done(&report.replaced, "replaced"));
    rows.extend(done(&report.unchanged, "unchanged"));
    rows.extend(report.refused.iter().map(|refused| row("refused", &refused.operation, &refused.reason)));
    let warning = |operation: &Option<String>| operation.clone().unwrap_or_else(|| "(document)".to_owned());
    rows.extend(report.warnings.iter().map(|warned| row("warning", &warning(&warned.operation), &warned.message)));
    let counts = [
        (report.created.len(), "created"),
        (report.replaced.len(), "replaced"),
        (report.unchanged.len(), "unchanged"),
        (report.refused.len(), "refused"),
    ];
    let counted: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let counted = if counted.is_empty() { "nothing to import".to_owned() } else { counted.join(", ") };
    let title = report.title.as_deref().map_or_else(String::new, |title| format!("{}: ", print::one_line(title, 80)));
    let trial = if args.dry_run { " (nothing was changed: --dry-run)" } else { "" };
    let summary = format!("{title}{counted}{trial}");
    if rows.is_empty() {
        summary
    } else {
        format!("{}\n{summary}", print::table(&["RESULT", "TOOL OR OPERATION", ""], rows, usize::MAX))
    }
}

fn row(what: &str, name: &str, why: &str) -> Vec<String> {
    vec![what.to_owned(), print::one_line(name, LONGEST_OPERATION), print::one_line(why, LONGEST_REASON)]
}
