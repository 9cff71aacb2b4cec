//! The private temporary directory of one install, and the lock that makes it the only one.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::blocking::blocking;
use super::error::InstallError;
use super::find::BINARY_NAME;
use super::progress::{Phase, Progress};
use crate::domain::deadline::Deadline;

/// Nothing else in the directory may begin like this: whatever does is removed by the next install.
const PREFIX: &str = ".lightpanda-install-";

/// How often a waiting install looks at the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Holds the directory's lock; removes the temporary directory and then lets go of the lock when the
/// last owner drops it. Blocking work owns a share, so the lock outlives what still writes.
pub(super) struct Workspace {
    // Fields drop in this order.
    temporary: TempDir,
    _lock: File,
    directory: PathBuf,
}

impl Workspace {
    /// Makes `directory` (0700) if needed, waits until `deadline` for its lock, sweeps what a killed
    /// install left, and makes the temporary directory (0700) in it.
    ///
    /// The lock is on the directory itself, so no lock file stays behind. It ends with the process
    /// that holds it, so whatever is found under the lock belongs to nobody.
    pub async fn open(
        directory: &Path,
        deadline: Deadline,
        progress: &dyn Progress,
    ) -> Result<Arc<Self>, InstallError> {
        let directory = directory.to_owned();
        let lock = open_directory(&directory)?;
        let mut waited = false;
        while !try_lock(&lock, &directory)? {
            if deadline.has_passed() {
                return Err(InstallError::Busy { directory, limit: deadline.timeout() });
            }
            if !waited {
                progress.phase(Phase::Waiting);
                waited = true;
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        blocking(move |_| Self::prepare(directory, lock)).await
    }

    fn prepare(directory: PathBuf, lock: File) -> Result<Arc<Self>, InstallError> {
        sweep(&directory)?;
        let temporary = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&directory)
            .map_err(InstallError::io("make a temporary directory in", &directory))?;
        Ok(Arc::new(Self { temporary, _lock: lock, directory }))
    }

    /// A path in the temporary directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    /// The managed directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the file that the downloaded binary goes into, executable from the start.
    pub fn create_binary(&self) -> Result<(PathBuf, File), InstallError> {
        let path = self.path(BINARY_NAME);
        let file = File::create_new(&path).map_err(InstallError::io("create", &path))?;
        // The umask of the caller must not decide who can run it.
        file.set_permissions(Permissions::from_mode(0o755)).map_err(InstallError::io("make executable", &path))?;
        Ok((path, file))
    }
}

fn open_directory(directory: &Path) -> Result<File, InstallError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(InstallError::io("make the directory", directory))?;
    File::open(directory).map_err(InstallError::io("open", directory))
}

fn try_lock(lock: &File, directory: &Path) -> Result<bool, InstallError> {
    match lock.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(InstallError::io("lock", directory)(error)),
    }
}

fn sweep(directory: &Path) -> Result<(), InstallError> {
    let entries = fs::read_dir(directory).map_err(InstallError::io("list", directory))?;
    for entry in entries.filter_map(Result::ok) {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A leftover costs space only, so it never stands in the way of an install.
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "cannot remove what an earlier install left");
        }
    }
    Ok(())
}
