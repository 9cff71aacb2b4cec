//! Is there a newer build? A suggestion for the status, never an install.

use std::path::Path;
use std::time::Duration;

use super::digest::{Digest, digest_of};
use super::error::InstallError;
use super::release::Release;

/// How long an update check may take. It runs in the background, so this only bounds how long it holds
/// its connection.
pub const UPDATE_CHECK_LIMIT: Duration = Duration::from_secs(30);

/// The newest release differs from the installed build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The release's tag, such as `1.0.3` or `nightly`.
    pub release: String,
    pub newest: Digest,
    pub installed: Digest,
}

/// Compares a binary with the newest release by digest. `None` if they are equal, and also if the
/// check fails or takes longer than `limit`: an update is never worth an error. Drop the future to end it.
pub async fn check_update(binary: &Path, release: &Release, limit: Duration) -> Option<Update> {
    match tokio::time::timeout(limit, compare(binary, release)).await {
        Ok(Ok(update)) => update,
        Ok(Err(error)) => {
            tracing::debug!(%error, "the update check failed");
            None
        }
        Err(_) => {
            tracing::debug!(?limit, "the update check took too long");
            None
        }
    }
}

async fn compare(binary: &Path, release: &Release) -> Result<Option<Update>, InstallError> {
    let newest = release.newest().await?;
    let installed = digest_of(binary).await?;
    let differs = installed != newest.digest;
    Ok(differs.then_some(Update { release: newest.release, newest: newest.digest, installed }))
}
