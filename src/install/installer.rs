//! The order of an install: lock, resolve, fetch, ask for the version, replace.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use super::digest::{Digest, digest_of};
use super::error::InstallError;
use super::find::BINARY_NAME;
use super::manifest::{MANIFEST_NAME, Manifest, read_manifest};
use super::progress::{Phase, Progress};
use super::source::{Build, Source};
use super::version::version_of;
use super::workspace::Workspace;
use crate::domain::clock;
use crate::domain::deadline::Deadline;

/// What an install may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the whole install, waiting for another one included. Default: 5 minutes.
    pub total: Duration,
    /// For what is downloaded, and for the unpacked binary. Default: 256 MiB (the pinned binaries
    /// have 74 to 97 MB).
    pub bytes: u64,
    /// For the binary's answer to `version`. Default: 10 s (it takes milliseconds).
    pub version: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { total: Duration::from_secs(300), bytes: 256 * 1024 * 1024, version: Duration::from_secs(10) }
    }
}

/// Installs builds of one source into one managed directory.
pub struct Installer {
    directory: PathBuf,
    source: Source,
    limits: Limits,
}

/// The build that is in the managed directory after an install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub path: PathBuf,
    /// What the binary answered to `version`.
    pub version: String,
    pub sha256: Digest,
    /// Such as `wheel lightpanda 1.0.2` or `release 1.0.2`.
    pub source: String,
    pub change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The build was put in place.
    Replaced,
    /// The build was there already, perhaps through an install that ran at the same time.
    AlreadyCurrent,
}

impl Installer {
    /// `directory` is made at the first install.
    pub fn new(directory: PathBuf, source: Source) -> Self {
        Self { directory, source, limits: Limits::default() }
    }

    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Installs the source's build, unless it is there already.
    ///
    /// Installs into one directory run one at a time, across processes; one that had to wait finds the
    /// build there and downloads nothing. Until the final rename, which an old worker's open binary
    /// survives, a failure or a dropped future changes nothing. Blocking work that is under way when
    /// the future is dropped ends within milliseconds and then cleans up.
    pub async fn install(&self, progress: &dyn Progress) -> Result<Installed, InstallError> {
        let limit = self.limits.total;
        let deadline = Deadline::after(limit);
        let workspace = Workspace::open(&self.directory, deadline, progress).await?;
        tokio::time::timeout_at(deadline.at().into(), self.install_alone(workspace, progress))
            .await
            .unwrap_or(Err(InstallError::TimedOut { limit }))
    }

    async fn install_alone(
        &self,
        workspace: Arc<Workspace>,
        progress: &dyn Progress,
    ) -> Result<Installed, InstallError> {
        progress.phase(Phase::Resolving);
        let build = self.source.resolve().await?;
        if let Some(installed) = self.already_current(&build).await {
            return Ok(installed);
        }
        let binary = build.fetch(&workspace, self.limits.bytes, progress).await?;
        progress.phase(Phase::CheckingVersion);
        let version = version_of(&binary, self.limits.version).await?;
        progress.phase(Phase::Installing);
        let sha256 = build.digest().clone();
        let manifest = Manifest { version, sha256, source: build.name(), installed_at: clock::now() };
        let (path, manifest) = blocking(move |cancelled| replace(&workspace, &binary, manifest, cancelled)).await?;
        Ok(Installed::of(path, manifest, Change::Replaced))
    }

    /// The managed binary, if it is this very build and it runs. Whatever is wrong with it is mended by
    /// installing it, so errors are no matter.
    async fn already_current(&self, build: &Build<'_>) -> Option<Installed> {
        let manifest = read_manifest(&self.directory).filter(|manifest| &manifest.sha256 == build.digest())?;
        let path = self.directory.join(BINARY_NAME);
        let unchanged = digest_of(&path).await.ok()? == manifest.sha256;
        let runs = version_of(&path, self.limits.version).await.is_ok();
        (unchanged && runs).then(|| Installed::of(path, manifest, Change::AlreadyCurrent))
    }
}

impl Installed {
    fn of(path: PathBuf, manifest: Manifest, change: Change) -> Self {
        let Manifest { version, sha256, source, .. } = manifest;
        Self { path, version, sha256, source, change }
    }
}

/// Makes the binary durable and renames it over the old one.
fn replace(
    workspace: &Workspace,
    binary: &Path,
    manifest: Manifest,
    cancelled: &CancellationToken,
) -> Result<(PathBuf, Manifest), InstallError> {
    let destination = workspace.directory().join(BINARY_NAME);
    File::open(binary).and_then(|file| file.sync_all()).map_err(InstallError::io("write", binary))?;
    let note = write_manifest(workspace, &manifest)?;
    if cancelled.is_cancelled() {
        return Err(InstallError::Cancelled);
    }
    fs::rename(binary, &destination).map_err(InstallError::io("replace", &destination))?;
    // The build is installed from here on. Without its manifest it is only downloaded again next time.
    let noted = fs::rename(note, workspace.directory().join(MANIFEST_NAME));
    let durable = File::open(workspace.directory()).and_then(|directory| directory.sync_all());
    if let Err(error) = noted.and(durable) {
        tracing::warn!(%error, "Lightpanda is installed, but its manifest may be missing");
    }
    Ok((destination, manifest))
}

/// Writes the manifest into the workspace.
fn write_manifest(workspace: &Workspace, manifest: &Manifest) -> Result<PathBuf, InstallError> {
    let path = workspace.path(MANIFEST_NAME);
    let write = || {
        let mut file = File::create_new(&path)?;
        serde_json::to_writer_pretty(&mut file, manifest)?;
        file.write_all(b"\n")?;
        file.sync_all()
    };
    write().map_err(InstallError::io("write", &path))?;
    Ok(path)
}
