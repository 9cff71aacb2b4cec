//! The one Lightpanda of all tests.

use std::path::{Path, PathBuf};

use pandarium::config::Environment;
use pandarium::install::{BINARY_NAME, PINNED_VERSION};

use super::process;

/// The engine: the one that `PANDARIUM_LIGHTPANDA` names, else the pinned build, installed once for all test processes
/// by `pandarium setup` (whose own lock and rename keep concurrent test processes apart).
///
/// A missing engine fails the test: nothing here is worth anything without one.
pub fn binary() -> PathBuf {
    if let Some(given) = Environment::of_process().get("PANDARIUM_LIGHTPANDA") {
        return PathBuf::from(given);
    }
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lightpanda-{PINNED_VERSION}"));
    let binary = home.join("bin").join(BINARY_NAME);
    if !binary.is_file() {
        install(&home);
    }
    assert!(binary.is_file(), "`pandarium setup` succeeded without leaving {}", binary.display());
    binary
}

fn install(home: &Path) {
    // Where packages come from is the machine's own business: pip reads it from the environment.
    let mut setup = process::inheriting(env!("CARGO_BIN_EXE_pandarium"));
    setup.arg("setup").arg("--data-dir").arg(home);
    let output = setup.output().expect("pandarium setup runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "pandarium setup: {}: {said}", output.status);
}
