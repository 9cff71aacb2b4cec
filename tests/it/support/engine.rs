//! The one Lightpanda of all tests.

use std::ffi::OsString;
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
    let environment = Environment::of_process();
    let inherited = ["PATH", "HOME", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "HTTPS_PROXY", "https_proxy"];
    let inherited = inherited.iter().filter_map(|name| Some((OsString::from(name), environment.get(name)?.to_owned())));
    let mut setup = process::pandarium(inherited);
    setup.arg("setup").arg("--data-dir").arg(home);
    let output = setup.output().expect("pandarium setup runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "pandarium setup: {}: {said}", output.status);
}
