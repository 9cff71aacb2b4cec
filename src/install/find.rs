//! Which Lightpanda binary to start. Resolved at each use, so that an install takes effect at once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// The binary's file name, in the managed directory and on `PATH`.
pub const BINARY_NAME: &str = "lightpanda";

/// A binary that exists and may be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Absolute.
    pub path: PathBuf,
    pub origin: Origin,
}

/// Who chose the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Configured,
    Managed,
    Path,
}

/// Why there is no binary to start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    #[error(
        "the configured Lightpanda {path} does not exist: correct --lightpanda or PANDARIUM_LIGHTPANDA, or unset it to use the managed install"
    )]
    ConfiguredMissing { path: PathBuf },

    #[error(
        "the configured Lightpanda {path} is not an executable file: make it executable (chmod +x), or correct --lightpanda or PANDARIUM_LIGHTPANDA"
    )]
    ConfiguredNotExecutable { path: PathBuf },

    #[error(
        "the configured Lightpanda command {name:?} is not on PATH: correct --lightpanda or PANDARIUM_LIGHTPANDA, or give a full path"
    )]
    CommandMissing { name: String },

    #[error("the managed Lightpanda {path} is not an executable file: run `pandarium setup` to replace it")]
    ManagedNotExecutable { path: PathBuf },

    #[error("Lightpanda was not found: run `pandarium setup`, or set a path with --lightpanda or PANDARIUM_LIGHTPANDA")]
    NotFound,
}

/// Looks for the binary: the configured path or command name, then the managed directory, then `PATH`.
///
/// A configured value with a slash is a path, relative to the working directory; any other is a command
/// name. `path_var` is the value of `PATH`; its relative entries are passed over, because what they hold
/// depends on where the service was started.
///
/// # Errors
/// A configured or managed binary that is there but cannot be started is an error, as is a configured one
/// that is missing: another build is never taken in its place.
pub fn find(configured: Option<&str>, managed_directory: &Path, path_var: Option<&OsStr>) -> Result<Found, FindError> {
    if let Some(value) = configured {
        return find_configured(value, path_var).map(|path| Found { path, origin: Origin::Configured });
    }
    let managed = managed_directory.join(BINARY_NAME);
    if managed.symlink_metadata().is_ok() {
        return if is_executable(&managed) {
            Ok(Found { path: absolute(&managed), origin: Origin::Managed })
        } else {
            Err(FindError::ManagedNotExecutable { path: managed })
        };
    }
    let path = search_path(BINARY_NAME, path_var).ok_or(FindError::NotFound)?;
    Ok(Found { path, origin: Origin::Path })
}

fn find_configured(value: &str, path_var: Option<&OsStr>) -> Result<PathBuf, FindError> {
    if !value.contains('/') {
        return search_path(value, path_var).ok_or_else(|| FindError::CommandMissing { name: value.to_owned() });
    }
    let path = absolute(Path::new(value));
    if is_executable(&path) {
        Ok(path)
    } else if path.exists() {
        Err(FindError::ConfiguredNotExecutable { path })
    } else {
        Err(FindError::ConfiguredMissing { path })
    }
}

fn search_path(name: &str, path_var: Option<&OsStr>) -> Option<PathBuf> {
    path_var?
        .as_bytes()
        .split(|byte| *byte == b':')
        .map(|directory| Path::new(OsStr::from_bytes(directory)))
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|candidate| is_executable(candidate))
}

/// Resolves against the working directory. It fails only where there is none, and then the path is as good.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::install::tests::support::script;

    /// A place with executables: `managed/lightpanda` (optional), `on-path/lightpanda`, `on-path/other`.
    fn place(with_managed: bool) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for directory in ["managed", "on-path"] {
            fs::create_dir(place.path().join(directory)).unwrap();
        }
        if with_managed {
            script(&place.path().join("managed"), "true");
        }
        let binary = script(&place.path().join("on-path"), "true");
        fs::copy(&binary, binary.with_file_name("other")).unwrap();
        fs::write(place.path().join("plain"), "text").unwrap();
        place
    }

    fn find_in(place: &Path, configured: Option<&str>) -> Result<(PathBuf, Origin), FindError> {
        let path_var = format!("relative::{}:{}", place.join("none").display(), place.join("on-path").display());
        let found = find(configured, &place.join("managed"), Some(OsStr::new(&path_var)))?;
        Ok((found.path.strip_prefix(place).unwrap().to_owned(), found.origin))
    }

    #[test]
    fn the_order_is_configured_then_managed_then_path() {
        let place = place(true);
        let by_path = place.path().join("on-path/other").to_str().unwrap().to_owned();
        let cases = [
            (Some("other"), "on-path/other", Origin::Configured),
            (Some(by_path.as_str()), "on-path/other", Origin::Configured),
            (None, "managed/lightpanda", Origin::Managed),
        ];
        for (configured, path, origin) in cases {
            assert_eq!(find_in(place.path(), configured), Ok((PathBuf::from(path), origin)), "{configured:?}");
        }
        fs::remove_file(place.path().join("managed/lightpanda")).unwrap();
        assert_eq!(find_in(place.path(), None), Ok((PathBuf::from("on-path/lightpanda"), Origin::Path)));
        fs::remove_file(place.path().join("on-path/lightpanda")).unwrap();
        assert_eq!(find_in(place.path(), None), Err(FindError::NotFound));
        assert_eq!(find(None, &place.path().join("managed"), None), Err(FindError::NotFound));
    }

    #[test]
    fn a_configured_binary_is_never_replaced_by_another() {
        let place = place(true);
        let at = |name: &str| place.path().join(name);
        let configured = |path: PathBuf| find_in(place.path(), path.to_str());
        assert_eq!(configured(at("gone")), Err(FindError::ConfiguredMissing { path: at("gone") }));
        assert_eq!(configured(at("plain")), Err(FindError::ConfiguredNotExecutable { path: at("plain") }));
        assert_eq!(configured(at("managed")), Err(FindError::ConfiguredNotExecutable { path: at("managed") }));
        for name in ["no-such-command", ""] {
            let missing = FindError::CommandMissing { name: name.to_owned() };
            assert_eq!(find_in(place.path(), Some(name)), Err(missing));
        }
    }

    #[test]
    fn a_broken_managed_install_is_not_passed_over() {
        let place = place(false);
        let managed = place.path().join("managed/lightpanda");
        fs::write(&managed, "text").unwrap();
        let broken = Err(FindError::ManagedNotExecutable { path: managed.clone() });
        assert_eq!(find_in(place.path(), None), broken);
        fs::remove_file(&managed).unwrap();
        std::os::unix::fs::symlink("nowhere", &managed).unwrap();
        assert_eq!(find_in(place.path(), None), broken);
    }

    #[test]
    fn a_relative_configured_path_is_made_absolute() {
        let error = find(Some("./no-such-file"), Path::new("managed"), None).unwrap_err();
        let FindError::ConfiguredMissing { path } = error else { panic!("{error}") };
        assert!(path.is_absolute() && path.ends_with("no-such-file"), "{}", path.display());
    }
}
