//! SHA-256 digests of files, as 64 lower-case hexadecimal digits.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use super::error::InstallError;

const HEX_DIGITS: usize = 64;

/// How much of a file is read between two looks at the cancellation token.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// A SHA-256 digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(Cow<'static, str>);

/// The text is not 64 hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("a SHA-256 digest has 64 hexadecimal digits")]
pub struct MalformedDigest;

impl Digest {
    /// A digest written in the source. A wrong length does not compile in a constant.
    pub(super) const fn literal(hex: &'static str) -> Self {
        assert!(hex.len() == HEX_DIGITS);
        Self(Cow::Borrowed(hex))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn of_hasher(hasher: Sha256) -> Self {
        Self(Cow::Owned(hex::encode(hasher.finalize())))
    }
}

impl FromStr for Digest {
    type Err = MalformedDigest;

    fn from_str(text: &str) -> Result<Self, MalformedDigest> {
        let well_formed = text.len() == HEX_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if well_formed { Ok(Self(Cow::Owned(text.to_ascii_lowercase()))) } else { Err(MalformedDigest) }
    }
}

impl TryFrom<String> for Digest {
    type Error = MalformedDigest;

    fn try_from(text: String) -> Result<Self, MalformedDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0.into_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The digest of a file, read on the blocking pool. Dropping the future stops the reading.
pub async fn digest_of(path: &Path) -> Result<Digest, InstallError> {
    let path = path.to_owned();
    blocking(move |cancelled| {
        let file = File::open(&path).map_err(InstallError::io("read", &path))?;
        hash(file, &path, cancelled)
    })
    .await
}

/// The digest of what is left in `file`; `path` is for errors.
pub(super) fn hash(mut file: File, path: &Path, cancelled: &CancellationToken) -> Result<Digest, InstallError> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        if cancelled.is_cancelled() {
            return Err(InstallError::Cancelled);
        }
        match file.read(&mut chunk).map_err(InstallError::io("read", path))? {
            0 => return Ok(Digest::of_hasher(hasher)),
            read => hasher.update(&chunk[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_64_hexadecimal_digits_are_a_digest() {
        let digest = "AB".repeat(32).parse::<Digest>().unwrap();
        assert_eq!(digest.as_str(), "ab".repeat(32));
        for malformed in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65), &"é".repeat(32)] {
            assert!(malformed.parse::<Digest>().is_err(), "{malformed}");
        }
    }

    #[tokio::test]
    async fn the_digest_of_a_file_is_its_sha256() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("abc");
        std::fs::write(&file, "abc").unwrap();
        // The test vector of FIPS 180-4 for the message "abc".
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest_of(&file).await.unwrap().as_str(), expected);
        assert!(digest_of(&directory.path().join("none")).await.is_err());
    }
}
