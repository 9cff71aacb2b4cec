//! Opening the database: what is refused before anything is written, and the migrations.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::error::{self, Result, StoreError};

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Each is a thread. Writers wait for each other in any case; four readers keep two cores busy.
const CONNECTIONS: u32 = 4;

/// How long a writer waits for another, and a call for a connection. Every call has its own deadline above this.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The smallest page, and so the smallest database, <https://www.sqlite.org/fileformat2.html#page_size>.
const MIN_PAGE_BYTES: u64 = 512;

/// The files of the database beside the database itself.
const SIDE_FILES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Refuses a database that is newer than this program, or that is no database, without changing a byte of it.
pub(super) async fn refuse_foreign(file: &Path) -> Result<()> {
    match length(file)? {
        0 if length(&beside(file, "-wal"))? == 0 => return Ok(()),
        // SQLite takes what is shorter for an empty database, and deletes its log with all that was acknowledged.
        0..MIN_PAGE_BYTES => return Err(StoreError::Corrupt("the database file is cut short".into())),
        _ => {}
    }
    match found_version(file).await {
        Ok(found) if found > known_version() => Err(StoreError::NewerSchema { found, known: known_version() }),
        Ok(_) => Ok(()),
        // It needs a recovery that a reader may not make. The writer makes it, or says why not.
        Err(error) if needs_a_writer(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens the database, which must exist, for reading and writing. Commits are durable when they return.
pub(super) async fn connect(file: &Path) -> Result<SqlitePool> {
    open(file, SqliteSynchronous::Full, CONNECTIONS).await
}

/// The same database for writes that may be lost with the power, but not with the process: they wait for no disk.
pub(super) async fn connect_for_checkpoints(file: &Path) -> Result<SqlitePool> {
    open(file, SqliteSynchronous::Normal, 1).await
}

async fn open(file: &Path, synchronous: SqliteSynchronous, connections: u32) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .foreign_keys(true)
        // Cookies of a closed session must not stay in free pages.
        .pragma("secure_delete", "ON")
        .busy_timeout(BUSY_TIMEOUT);
    let pool = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(BUSY_TIMEOUT);
    Ok(pool.connect_with(options).await?)
}

/// Looks through the whole database for damage.
pub(super) async fn check(pool: &SqlitePool) -> Result<()> {
    let found: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(pool).await?;
    if found == "ok" { Ok(()) } else { Err(StoreError::Corrupt(found.into())) }
}

pub(super) async fn migrate(pool: &SqlitePool) -> Result<()> {
    MIGRATIONS.run(pool).await.map_err(|error| match error {
        MigrateError::VersionMissing(found) => StoreError::NewerSchema { found, known: known_version() },
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        other => StoreError::Database(other.into()),
    })
}

pub(super) fn known_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// The newest migration that the database has had; 0 if it has had none.
async fn found_version(file: &Path) -> Result<i64, sqlx::Error> {
    // A log that nobody reads or writes need not exist: `immutable` makes none. It would also ignore one that does.
    let immutable = length(&beside(file, "-wal"))? == 0;
    let options = SqliteConnectOptions::new().filename(file).read_only(true).immutable(immutable);
    let mut reader = options.connect().await?;
    let found = newest_migration(&mut reader).await;
    reader.close().await?;
    found
}

async fn newest_migration(reader: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let has_any = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations')";
    if !sqlx::query_scalar::<_, bool>(has_any).fetch_one(&mut *reader).await? {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations").fetch_one(reader).await
}

fn needs_a_writer(error: &sqlx::Error) -> bool {
    error::result_code(error)
        .is_some_and(|code| matches!(error::primary(code), error::SQLITE_READONLY | error::SQLITE_CANTOPEN))
}

/// Zero if there is no such file.
fn length(file: &Path) -> std::io::Result<u64> {
    match fs::symlink_metadata(file) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Every file that SQLite may open for this database.
pub(super) fn all_files(file: &Path) -> impl Iterator<Item = PathBuf> {
    iter::once(file.to_owned()).chain(SIDE_FILES.map(|suffix| beside(file, suffix)))
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
