//! The pinned build: the official wheel, downloaded by the machine's own pip, which knows the
//! machine's proxy and index settings. No Python is needed once the binary is out of the wheel.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use zip::ZipArchive;

use super::blocking::blocking;
use super::child;
use super::digest::{CHUNK_BYTES, Digest, hash};
use super::error::InstallError;
use super::platform::{PINNED_VERSION, Pin};
use super::progress::{Phase, Progress};
use super::version::last_chars;
use super::workspace::Workspace;

/// The binary's name in the wheel.
pub(super) const MEMBER: &str = "lightpanda/lightpanda";

/// How often the growth of pip's download is looked at, for progress and for the limit.
const WATCH_PAUSE: Duration = Duration::from_millis(200);

/// How much of pip's own words an error quotes.
const QUOTED_CHARS: usize = 1_000;

/// The pinned wheel.
#[derive(Clone, Debug)]
pub struct Wheel {
    /// Command lines of pip, in order of preference.
    pub(super) pips: Vec<Vec<&'static str>>,
}

impl Default for Wheel {
    fn default() -> Self {
        Self { pips: vec![vec!["python3", "-m", "pip"], vec!["pip3"]] }
    }
}

impl Wheel {
    /// Downloads the wheel, checks it against the pin and unpacks the binary into the workspace.
    pub(super) async fn fetch(
        &self,
        pin: &'static Pin,
        workspace: &Arc<Workspace>,
        limit: u64,
        progress: &dyn Progress,
    ) -> Result<PathBuf, InstallError> {
        let pip = self.find_pip().await?;
        progress.phase(Phase::Downloading);
        let wheel = download(pip, pin, workspace, limit, progress).await?;
        progress.phase(Phase::Verifying);
        let workspace = Arc::clone(workspace);
        blocking(move |cancelled| unpack(&wheel, pin, &workspace, limit, cancelled)).await
    }

    /// The first pip that answers.
    async fn find_pip(&self) -> Result<Command, InstallError> {
        for line in &self.pips {
            let mut probe = command_line(line);
            probe.arg("--version");
            if child::run(probe).await.is_ok_and(|output| output.status.success()) {
                return Ok(command_line(line));
            }
        }
        Err(InstallError::PipNotFound)
    }
}

fn command_line(line: &[&str]) -> Command {
    let mut words = line.iter();
    let mut command = child::command(words.next().copied().unwrap_or_default());
    command.args(words);
    command
}

/// Runs pip and answers with the path of the wheel.
async fn download(
    mut pip: Command,
    pin: &Pin,
    workspace: &Workspace,
    limit: u64,
    progress: &dyn Progress,
) -> Result<PathBuf, InstallError> {
    let requirements = workspace.path("requirements.txt");
    let requirement = format!("lightpanda=={PINNED_VERSION} --hash=sha256:{}\n", pin.wheel);
    fs::write(&requirements, requirement).map_err(InstallError::io("write", &requirements))?;
    let [wheels, temporary] = ["wheels", "temporary"].map(|name| workspace.path(name));
    for directory in [&wheels, &temporary] {
        fs::create_dir(directory).map_err(InstallError::io("make the directory", directory))?;
    }
    pip.args(["download", "--no-deps", "--only-binary=:all:", "--require-hashes"])
        .args(["--no-input", "--disable-pip-version-check", "--progress-bar=off", "--quiet"])
        .arg("-r")
        .arg(&requirements)
        .arg("-d")
        .arg(&wheels)
        // What a killed pip leaves goes with the workspace.
        .env("TMPDIR", &temporary);
    let output = run_watched(pip, &[&wheels, &temporary], pin.wheel_bytes, limit, progress).await?;
    if !output.status.success() {
        return Err(InstallError::PipFailed { stderr: last_chars(&output.stderr, QUOTED_CHARS).to_owned() });
    }
    only_wheel(&wheels)
}

/// Runs pip while watching its directories grow. Dropping the run ends pip.
async fn run_watched(
    pip: Command,
    directories: &[&Path],
    expected: u64,
    limit: u64,
    progress: &dyn Progress,
) -> Result<child::Output, InstallError> {
    let program = PathBuf::from(pip.as_std().get_program());
    let running = child::run(pip);
    tokio::pin!(running);
    let mut ticks = tokio::time::interval(WATCH_PAUSE);
    loop {
        tokio::select! {
            output = &mut running => return output.map_err(InstallError::io("run", &program)),
            _ = ticks.tick() => {
                let bytes = directories.iter().map(|directory| bytes_in(directory)).sum();
                if bytes > limit {
                    return Err(InstallError::TooLarge { limit });
                }
                // pip holds the wheel twice while it copies it to its place.
                progress.bytes(expected.min(bytes), Some(expected));
            }
        }
    }
}

/// The bytes of all files under a directory. What vanishes meanwhile counts nothing.
fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

fn only_wheel(directory: &Path) -> Result<PathBuf, InstallError> {
    let entries = fs::read_dir(directory).map_err(InstallError::io("list", directory))?;
    let mut paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let wheel = paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    wheel.ok_or_else(|| InstallError::PipFailed { stderr: "it ended well but left no wheel".to_owned() })
}

/// Checks the wheel's digest ourselves too, then unpacks the binary and checks that.
pub(super) fn unpack(
    wheel: &Path,
    pin: &Pin,
    workspace: &Workspace,
    limit: u64,
    cancelled: &CancellationToken,
) -> Result<PathBuf, InstallError> {
    let open = || File::open(wheel).map_err(InstallError::io("read", wheel));
    verify("the wheel", &pin.wheel, hash(open()?, wheel, cancelled)?)?;
    let mut archive = ZipArchive::new(open()?).map_err(|source| InstallError::BadWheel { source })?;
    let member = archive.by_name(MEMBER).map_err(|source| InstallError::BadWheel { source })?;
    let (path, file) = workspace.create_binary()?;
    verify("the binary in the wheel", &pin.binary, copy(member, file, &path, limit, cancelled)?)?;
    Ok(path)
}

fn verify(what: &'static str, expected: &Digest, actual: Digest) -> Result<(), InstallError> {
    if *expected == actual {
        return Ok(());
    }
    Err(InstallError::DigestMismatch { what, expected: expected.clone(), actual })
}

/// Copies at most `limit` bytes, counted as they come: the size that an archive states is only a claim.
fn copy(
    mut from: impl Read,
    mut to: File,
    path: &Path,
    limit: u64,
    cancelled: &CancellationToken,
) -> Result<Digest, InstallError> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut done = 0;
    loop {
        let read = from.read(&mut chunk).map_err(|error| InstallError::BadWheel { source: error.into() })?;
        done += read as u64;
        if read == 0 {
            return Ok(Digest::of_hasher(hasher));
        }
        if done > limit {
            return Err(InstallError::TooLarge { limit });
        }
        if cancelled.is_cancelled() {
            return Err(InstallError::Cancelled);
        }
        hasher.update(&chunk[..read]);
        to.write_all(&chunk[..read]).map_err(InstallError::io("write", path))?;
    }
}
