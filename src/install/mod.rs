//! Finds, downloads, verifies and replaces the Lightpanda binary.
//!
//! * [`find`] answers which binary to start: configured, managed or on `PATH`.
//! * [`Installer`] puts a verified build into the managed directory, from a [`Source`]:
//!   the pinned wheel through the machine's own pip, or a release asset over HTTP.
//! * [`check_update`] compares the installed build with the newest release; it never installs.
//!
//! A download is bounded in time and bytes, its SHA-256 is known beforehand, and the binary has
//! answered `version` before it replaces the old one in a single rename. A failure or a dropped
//! future at any earlier moment leaves the old binary as it was.

mod blocking;
mod child;
mod digest;
mod error;
mod find;
mod installer;
mod manifest;
mod platform;
mod progress;
mod release;
mod source;
mod update;
mod version;
mod wheel;
mod workspace;

#[cfg(test)]
mod tests;

pub use digest::{Digest, digest_of};
pub use error::InstallError;
pub use find::{BINARY_NAME, FindError, Found, Origin, find};
pub use installer::{Change, Installed, Installer, Limits};
pub use manifest::{MANIFEST_NAME, Manifest, read_manifest};
pub use platform::{PINNED_VERSION, Platform};
pub use progress::{Phase, Progress, Silent};
pub use release::{Channel, DEFAULT_RELEASES_URL, Release};
pub use source::Source;
pub use update::{UPDATE_CHECK_LIMIT, Update, check_update};
pub use version::version_of;
pub use wheel::Wheel;
