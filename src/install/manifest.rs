//! The note beside the binary that says where it came from.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::digest::Digest;

/// The manifest's file name in the managed directory.
pub const MANIFEST_NAME: &str = "lightpanda.json";

/// Where the managed binary came from. Written just after the binary is replaced, so it describes
/// that binary only if `sha256` is the binary's digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// What the binary answered to `version`.
    pub version: String,
    pub sha256: Digest,
    /// Such as `wheel lightpanda 1.0.2` or `release 1.0.2`.
    pub source: String,
    /// RFC 3339, UTC.
    pub installed_at: Timestamp,
}

/// Reads the manifest of a managed directory: `None` where there is no readable one.
pub fn read_manifest(directory: &Path) -> Option<Manifest> {
    let text = std::fs::read(directory.join(MANIFEST_NAME)).ok()?;
    serde_json::from_slice(&text).ok()
}
