//! What must outlive the process: SQLite for rows, plain files for long texts. The only module that names `sqlx`.
//!
//! ```text
//! DIR/pandarium.db          0600, WAL, synchronous=FULL
//! DIR/artifacts/ab/abcd...  0600, one file for each content, named by its SHA-256
//! ```
//!
//! A blob is durable in its place before the row that names it commits, and a row is gone before its blob is. So a
//! `kill -9` leaves at most files without a row, and the next [`Store::open`] removes those.

mod artifacts;
mod blobs;
pub mod data_dir;
mod error;
mod retention;
mod schema;
mod sessions;
#[cfg(test)]
mod tests;
mod transaction;

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use sqlx::SqlitePool;
use tokio::sync::Mutex;

pub use artifacts::{Artifact, Cursor, KIND_FETCH, NewArtifact, NotACursor};
pub use blobs::Digest;
pub use error::{Cause, Result, StoreError};
pub use retention::{Removed, Totals};
pub use sessions::{Checkpoint, EndState, MAX_SAVED_BYTES, NewSession, SessionRow, SessionState};

use blobs::BlobDir;

/// The open data directory. Clones share it; it is locked against other processes until the last one is dropped.
#[derive(Clone)]
pub struct Store {
    /// Commits are durable when they return.
    pool: SqlitePool,
    /// Commits outlive the process, and may be lost with the power.
    checkpoints: SqlitePool,
    blobs: Arc<BlobDir>,
    /// Held from the look at which blobs exist until the row has committed and the file is in place or gone.
    /// So a deleter never removes the file that a writer of the same content is about to name.
    writer: Arc<Mutex<()>>,
    found: Found,
}

/// What [`Store::open`] found and put right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Writes that a crash cut short; removed.
    pub temp_files: u64,
    /// Blobs without a row; removed.
    pub orphan_blobs: u64,
    /// Artifacts whose blob is missing or of another size. They are not listed, and return if their content does.
    pub lost_artifacts: u64,
}

impl Store {
    /// Opens `dir`, making it if need be, and cleans up after a crash.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] and [`StoreError::Corrupt`] leave the database as it was;
    /// [`StoreError::InUse`] if another process has the directory open; [`StoreError::NotOurs`] if it is another
    /// user's.
    pub async fn open(dir: &Path) -> Result<Self> {
        let file = dir.join("pandarium.db");
        refuse_others(dir, &file)?;
        schema::refuse_foreign(&file).await?;
        let (dir, db) = (dir.to_owned(), file.clone());
        let blobs = file_work(move || prepare(&dir, &db)).await?;
        let pool = schema::connect(&file).await?;
        schema::check(&pool).await?;
        schema::migrate(&pool).await?;
        let checkpoints = schema::connect_for_checkpoints(&file).await?;
        let (blobs, writer) = (Arc::new(blobs), Arc::new(Mutex::new(())));
        let mut store = Self { pool, checkpoints, blobs, writer, found: Found::default() };
        store.found = store.sweep().await?;
        Ok(store)
    }

    /// What opening found and put right.
    pub fn found(&self) -> Found {
        self.found
    }

    /// Whether rows can be read and bytes can be written; a few file operations.
    pub async fn health(&self) -> Result<()> {
        sqlx::query("SELECT seq FROM artifact LIMIT 1").fetch_optional(&self.pool).await?;
        let blobs = self.blobs.clone();
        file_work(move || blobs.probe()).await
    }

    /// Waits for the running write, then closes the database. Later calls fail.
    pub async fn close(&self) {
        let _writer = self.writer.lock().await;
        self.checkpoints.close().await;
        self.pool.close().await;
    }
}

/// SQLite follows links, and would believe a log that someone else put beside the database.
fn refuse_others(dir: &Path, db: &Path) -> Result<()> {
    let ours = |found: &Metadata| found.uid() == geteuid().as_raw();
    if found_at(dir)?.is_some_and(|found| !ours(&found) && !is_shared(&found)) {
        return Err(StoreError::NotOurs(dir.to_owned()));
    }
    for file in schema::all_files(db) {
        if found_at(&file)?.is_some_and(|found| !ours(&found) || !found.is_file()) {
            return Err(StoreError::NotOurs(file));
        }
    }
    Ok(())
}

fn found_at(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A directory such as `/tmp`, or a file system just mounted: closing it to others would break them.
fn is_shared(directory: &Metadata) -> bool {
    directory.mode() & 0o1000 != 0
}

/// Owner-only directories and an owner-only database file.
fn prepare(dir: &Path, db: &Path) -> Result<BlobDir> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let directory = File::open(dir)?;
    if !is_shared(&directory.metadata()?) {
        directory.set_permissions(Permissions::from_mode(0o700))?;
    }
    let blobs = BlobDir::open(dir.join("artifacts"))?;
    // SQLite gives its log and its index the mode of this file.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(db)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    directory.sync_all()?;
    Ok(blobs)
}

/// Runs blocking work off the async threads.
async fn file_work<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(StoreError::Interrupted(error.into())),
    }
}

/// Runs `work` to its end even when the caller goes away: between a file and its row there is no place to stop.
/// It runs on a thread that may block.
async fn to_the_end<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let runtime = tokio::runtime::Handle::current();
    file_work(move || runtime.block_on(work)).await
}
