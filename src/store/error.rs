//! What can go wrong below the use cases, told apart where a caller would act differently.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

use crate::domain::ids::ArtifactId;

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// The system's or the database's own error. Boxed, so that no other module names either.
pub type Cause = Box<dyn Error + Send + Sync + 'static>;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing of the call was kept. It may succeed once there is room.
    #[error("the disk that holds the data directory is full")]
    Full(#[source] Cause),
    #[error("the data directory cannot be written")]
    ReadOnly(#[source] Cause),
    /// The database, not one artifact.
    #[error("the database is damaged")]
    Corrupt(#[source] Cause),
    /// The row is there, its text is not: missing, of another size, or of another hash.
    #[error("the stored text of artifact {0} is missing or damaged")]
    Damaged(ArtifactId),
    /// Nothing was touched.
    #[error("the database has schema {found}, and this program knows schemas up to {known}: use a newer program")]
    NewerSchema { found: i64, known: i64 },
    #[error("the data directory is in use by another process")]
    InUse,
    /// A directory or file that another user owns, or a link in a file's place. Nothing was touched.
    #[error("{} is not a plain file or directory of the user that runs this program", .0.display())]
    NotOurs(PathBuf),
    /// More than is kept of one session. What was saved before stays.
    #[error("the state of a session has {bytes} bytes, and at most {limit} are kept")]
    StateTooLarge { bytes: usize, limit: usize },
    /// Another writer held the database, or every connection was taken, for too long.
    #[error("the database is busy")]
    Busy(#[source] Cause),
    #[error("a file operation in the data directory failed")]
    Io(#[source] io::Error),
    #[error("a database operation failed")]
    Database(#[source] Cause),
    /// The process is ending, or the work panicked.
    #[error("the operation was interrupted")]
    Interrupted(#[source] Cause),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG) => Self::Full(error.into()),
            Some(Errno::EROFS | Errno::EACCES | Errno::EPERM) => Self::ReadOnly(error.into()),
            _ => Self::Io(error),
        }
    }
}

impl From<Errno> for StoreError {
    fn from(errno: Errno) -> Self {
        io::Error::from(errno).into()
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let kind = match &error {
            sqlx::Error::Database(_) => result_code(&error).map_or(Self::Database as Wrap, by_result_code),
            // A value that the schema does not allow was read: someone else wrote it.
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => Self::Corrupt,
            sqlx::Error::PoolTimedOut => Self::Busy,
            _ => Self::Database,
        };
        kind(error.into())
    }
}

type Wrap = fn(Cause) -> StoreError;

/// The extended result code of SQLite, <https://www.sqlite.org/rescode.html>.
pub(super) fn result_code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// The primary result code is the low byte of the extended one.
pub(super) fn primary(code: i32) -> i32 {
    code & 0xff
}

pub(super) const SQLITE_READONLY: i32 = 8;
pub(super) const SQLITE_CANTOPEN: i32 = 14;

fn by_result_code(code: i32) -> Wrap {
    const SQLITE_PERM: i32 = 3;
    const SQLITE_BUSY: i32 = 5;
    const SQLITE_CORRUPT: i32 = 11;
    const SQLITE_FULL: i32 = 13;
    const SQLITE_NOTADB: i32 = 26;
    // Growing the shared-memory index of the WAL fails like this when the disk is full.
    const SQLITE_IOERR_SHMSIZE: i32 = 4874;
    if code == SQLITE_IOERR_SHMSIZE {
        return StoreError::Full;
    }
    match primary(code) {
        SQLITE_FULL => StoreError::Full,
        SQLITE_READONLY | SQLITE_PERM => StoreError::ReadOnly,
        SQLITE_CORRUPT | SQLITE_NOTADB => StoreError::Corrupt,
        SQLITE_BUSY => StoreError::Busy,
        _ => StoreError::Database,
    }
}
