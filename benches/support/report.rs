//! What a benchmark leaves behind: lines for a person and a JSON file for a program.

use std::io::{IsTerminal, Write};
use std::path::Path;

use serde_json::Value;

use crate::process::Failure;

/// Writes one line to standard output.
pub fn say(line: &str) {
    // A reader that has gone away is no reason to stop a measurement.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Shows how far the run is: one line that is written over on a terminal, plain lines elsewhere.
pub fn progress(line: &str) {
    let mut out = std::io::stderr();
    let _ = if out.is_terminal() { write!(out, "\r{line}\x1b[K") } else { writeln!(out, "{line}") };
}

/// Ends the progress line of a terminal.
pub fn progress_done() {
    if std::io::stderr().is_terminal() {
        let _ = writeln!(std::io::stderr());
    }
}

/// Writes the report, with every directory above it.
pub fn write(path: &Path, report: &Value) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, serde_json::to_string_pretty(report)? + "\n")?;
    say(&format!("report: {}", path.display()));
    Ok(())
}

/// Says for each bar whether it holds; true when all do.
pub fn bars(bars: &[(String, bool)]) -> bool {
    for (bar, holds) in bars {
        say(&format!("{} {bar}", if *holds { "holds:" } else { "BROKEN:" }));
    }
    bars.iter().all(|(_, holds)| *holds)
}
