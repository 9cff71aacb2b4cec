//! Where builds come from, behind one interface: resolve a build, whose digest is then known, and fetch it.

use std::path::PathBuf;
use std::sync::Arc;

use super::digest::Digest;
use super::error::InstallError;
use super::platform::{PINNED_VERSION, Pin, Platform};
use super::progress::Progress;
use super::release::{Asset, Release};
use super::wheel::Wheel;
use super::workspace::Workspace;

/// A place that builds come from.
pub enum Source {
    /// The build that this version of the service was tested with.
    Pinned(Wheel),
    /// The newest build of a release channel.
    Release(Release),
}

/// One build, known by its digest before a byte of it is downloaded.
pub(super) enum Build<'source> {
    Pinned(&'source Wheel, &'static Pin),
    Asset(Asset),
}

impl Source {
    pub(super) async fn resolve(&self) -> Result<Build<'_>, InstallError> {
        match self {
            Self::Pinned(wheel) => Ok(Build::Pinned(wheel, Platform::current()?.pin())),
            Self::Release(release) => Ok(Build::Asset(release.newest().await?)),
        }
    }
}

impl Build<'_> {
    /// The SHA-256 of the binary.
    pub(super) fn digest(&self) -> &Digest {
        match self {
            Self::Pinned(_, pin) => &pin.binary,
            Self::Asset(asset) => &asset.digest,
        }
    }

    /// What the manifest calls it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Pinned(..) => format!("wheel lightpanda {PINNED_VERSION}"),
            Self::Asset(asset) => format!("release {}", asset.release),
        }
    }

    /// Downloads and verifies it into the workspace, at most `limit` bytes. Answers with the path of the binary.
    pub(super) async fn fetch(
        &self,
        workspace: &Arc<Workspace>,
        limit: u64,
        progress: &dyn Progress,
    ) -> Result<PathBuf, InstallError> {
        match self {
            Self::Pinned(wheel, pin) => wheel.fetch(pin, workspace, limit, progress).await,
            Self::Asset(asset) => asset.fetch(workspace, limit, progress).await,
        }
    }
}
