//! Why an install failed, and what to do next.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::digest::Digest;

/// Why an install failed. The old binary is untouched in every case.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(
        "Lightpanda publishes no build for this system: build it yourself and set its path with --lightpanda or PANDARIUM_LIGHTPANDA"
    )]
    UnsupportedPlatform,

    #[error(
        "python3 with pip was not found: install python3-pip, or set a path with --lightpanda or PANDARIUM_LIGHTPANDA"
    )]
    PipNotFound,

    #[error(
        "pip could not download the wheel: check the network and pip's index settings, then try again; pip said: {stderr}"
    )]
    PipFailed { stderr: String },

    #[error("the wheel that pip downloaded cannot be unpacked: try again, or run `pandarium update` for a release")]
    BadWheel {
        #[source]
        source: zip::result::ZipError,
    },

    #[error("no HTTP client could be made: install the system's CA certificates (ca-certificates), then try again")]
    HttpClient {
        #[source]
        source: reqwest::Error,
    },

    #[error("{url} could not be read: check the network and proxy settings, then try again")]
    Request {
        url: String,
        #[source]
        source: reqwest::Error,
    },

    #[error(
        "{url} answered {status}: try again later, check the release URL, or run `pandarium setup` for the pinned build"
    )]
    HttpStatus { url: String, status: u16 },

    #[error(
        "{url} is not an address that a release may come from (https, or http if the release URL is http; no user name): check the release URL"
    )]
    RefusedUrl { url: String },

    #[error("{url} redirects to an address that a release may not come from, or too often: check the release URL")]
    RefusedRedirect {
        url: String,
        #[source]
        source: reqwest::Error,
    },

    #[error("{url} did not answer with release metadata: check the release URL")]
    BadMetadata {
        url: String,
        #[source]
        source: serde_json::Error,
    },

    #[error(
        "the release {release} has no asset {asset}: try the other channel, or run `pandarium setup` for the pinned build"
    )]
    NoAsset { release: String, asset: &'static str },

    #[error(
        "the release {release} states no usable SHA-256 for {asset}, so it cannot be verified: run `pandarium setup` for the pinned build"
    )]
    NoDigest { release: String, asset: &'static str },

    #[error(
        "the download is larger than the limit of {limit} bytes: check the source, or run `pandarium setup` for the pinned build"
    )]
    TooLarge { limit: u64 },

    #[error(
        "{what} has the SHA-256 {actual}, not {expected}: do not use it; try again, and check the source if it happens again"
    )]
    DigestMismatch { what: &'static str, expected: Digest, actual: Digest },

    #[error(
        "{path} cannot run on this system: set the path of a build that does with --lightpanda or PANDARIUM_LIGHTPANDA (the published Linux builds need glibc 2.35, on aarch64 2.38)"
    )]
    CannotStart {
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    #[error(
        "{path} failed on `version` ({status}): set the path of a build that runs here with --lightpanda or PANDARIUM_LIGHTPANDA (the published Linux builds need glibc 2.35, on aarch64 2.38); it said: {stderr}"
    )]
    VersionFailed { path: PathBuf, status: String, stderr: String },

    #[error(
        "{path} did not answer `version` within {limit:?}: try again when the system is less busy, or try another build"
    )]
    VersionTimedOut { path: PathBuf, limit: Duration },

    #[error("another install has held {directory} for {limit:?}: wait for it to end, or end it, then try again")]
    Busy { directory: PathBuf, limit: Duration },

    #[error("the install did not end within {limit:?}: check the network, then try again")]
    TimedOut { limit: Duration },

    #[error("the install was cancelled: run it again when ready")]
    Cancelled,

    #[error("cannot {action} {path}: check its permissions and the free space, then try again")]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl InstallError {
    /// Adds the action and the path to an I/O error: `.map_err(InstallError::io("write", path))`.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
