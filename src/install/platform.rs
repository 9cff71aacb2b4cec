//! The systems Lightpanda is published for, and the pinned build of each.

use super::digest::Digest;
use super::error::InstallError;

/// The version of the pinned wheel.
pub const PINNED_VERSION: &str = "1.0.2";

/// A system that Lightpanda is published for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    LinuxX86_64,
    LinuxAarch64,
    MacosArm64,
    MacosX86_64,
}

/// The published wheel of [`PINNED_VERSION`] for one platform.
#[derive(Debug)]
pub(super) struct Pin {
    pub wheel: Digest,
    pub wheel_bytes: u64,
    /// The digest of `lightpanda/lightpanda` inside the wheel.
    pub binary: Digest,
}

// Read from the wheels on PyPI: `pip download --no-deps --platform TAG lightpanda==1.0.2`, then sha256sum
// of the wheel and of the binary in it. The platform tag of each stands beside it.
static LINUX_X86_64: Pin = Pin {
    // manylinux_2_35_x86_64
    wheel: Digest::literal("8f1e71951664130a7b8a4165ef763b802f549d6e60e3dff62102d89f8aea87df"),
    wheel_bytes: 28_618_353,
    binary: Digest::literal("ae7d01d261efb9e480e18ce3424533332883863bcf70b12a4321b5733f37e19e"),
};
static LINUX_AARCH64: Pin = Pin {
    // manylinux_2_35_aarch64
    wheel: Digest::literal("0a45ffcc1b0a9d1f0868ad524bcb7fc35a1f979957855c71802bfa99c959a50f"),
    wheel_bytes: 27_224_687,
    binary: Digest::literal("ac546dfc43c533430da92b75ab36f2a29da7d6324d5d38baf606ef2e0d849345"),
};
static MACOS_ARM64: Pin = Pin {
    // macosx_14_0_arm64
    wheel: Digest::literal("314a530b8a0cb5b5fb06e75014894750483139d6e29387c78e68eb015bca1842"),
    wheel_bytes: 28_650_518,
    binary: Digest::literal("9f3ee749a55d1abc5f8fdda0d9559c3b2abcec5bff5bfe902bc06c0a89538ec4"),
};
static MACOS_X86_64: Pin = Pin {
    // macosx_13_0_x86_64
    wheel: Digest::literal("edc24e0c5e7ac28fbbe70cde0efbb9c227aeb0c7cd40c9ba6750da695f50b5b3"),
    wheel_bytes: 30_463_373,
    binary: Digest::literal("91a775ecc67937d8d79c1b1a315748e52157804f18f629c6e1c6332a46255fc6"),
};

impl Platform {
    /// The system that this program was built for.
    pub fn current() -> Result<Self, InstallError> {
        if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            Ok(Self::LinuxX86_64)
        } else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
            Ok(Self::LinuxAarch64)
        } else if cfg!(all(target_os = "macos", target_arch = "aarch64")) {
            Ok(Self::MacosArm64)
        } else if cfg!(all(target_os = "macos", target_arch = "x86_64")) {
            Ok(Self::MacosX86_64)
        } else {
            Err(InstallError::UnsupportedPlatform)
        }
    }

    /// The name of this platform's asset in a release.
    pub fn asset_name(self) -> &'static str {
        match self {
            Self::LinuxX86_64 => "lightpanda-x86_64-linux",
            Self::LinuxAarch64 => "lightpanda-aarch64-linux",
            Self::MacosArm64 => "lightpanda-aarch64-macos",
            Self::MacosX86_64 => "lightpanda-x86_64-macos",
        }
    }

    pub(super) fn pin(self) -> &'static Pin {
        match self {
            Self::LinuxX86_64 => &LINUX_X86_64,
            Self::LinuxAarch64 => &LINUX_AARCH64,
            Self::MacosArm64 => &MACOS_ARM64,
            Self::MacosX86_64 => &MACOS_X86_64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_platform_has_its_own_well_formed_pin() {
        let platforms = [Platform::LinuxX86_64, Platform::LinuxAarch64, Platform::MacosArm64, Platform::MacosX86_64];
        let digests = platforms.iter().flat_map(|platform| [&platform.pin().wheel, &platform.pin().binary]);
        let distinct = digests.clone().map(Digest::as_str).collect::<HashSet<_>>();
        assert_eq!(distinct.len(), 8);
        for digest in digests {
            assert_eq!(&digest.as_str().parse::<Digest>().unwrap(), digest);
        }
    }
}
