//! The data directory: owner-only, one service at a time, the tokens in it.
//!
//! ```text
//! DATA_DIR/            0700
//!   lock               locked for as long as a service lives; holds its process id
//!   run/url            the URL of the running service
//!   token, approver-token, auth.header   0600, see [`tokens`]
//!   pandarium.db, artifacts/, bin/
//! ```

pub mod tokens;

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tempfile::NamedTempFile;

/// The bits that give anyone but the owner access.
const OTHERS: u32 = 0o077;

/// A look at the lock by [`holder`] takes it for some microseconds. A start that meets one tries again for
/// `LOCK_TRIES * LOCK_PAUSE` = 200 ms before it believes that another service runs.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("the data directory {path} is in use by another pandarium ({by}): stop that one, or give this one its own --data-dir", path = path.display())]
    Held { path: PathBuf, by: Holder },

    #[error("{path} belongs to user {owner}, not to user {user} who runs this: choose another --data-dir", path = path.display())]
    OtherOwner { path: PathBuf, owner: u32, user: u32 },

    #[error("{path} stays open to other users (mode {mode:o}): choose a --data-dir on a file system that keeps permissions", path = path.display())]
    OpenToOthers { path: PathBuf, mode: u32 },

    #[error("cannot {action} {path}", path = path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Adds what was done, and to which path, to an I/O error.
fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    move |source| DataDirError::Io { action, path: path.to_owned(), source }
}

/// The service that holds a data directory. Both are unknown for the first moment of its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: Option<u32>,
    pub url: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("just starting")?,
        }
        match &self.url {
            Some(url) => write!(f, " at {url}"),
            None => Ok(()),
        }
    }
}

/// The data directory of this service, locked until this is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    lock: File,
}

impl DataDir {
    /// Makes the directory and takes its lock.
    ///
    /// Errors: as [`prepare`], and [`DataDirError::Held`] when another service lives in it.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        prepare(path)?;
        let mut lock = open_lock(path)?;
        if !try_lock(&lock, path)? {
            return Err(DataDirError::Held { path: path.to_owned(), by: read_holder(path, &mut lock) });
        }
        let data_dir = Self { path: path.to_owned(), lock };
        data_dir.forget_url()?;
        data_dir.write_pid()?;
        Ok(data_dir)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The SQLite database.
    pub fn database(&self) -> PathBuf {
        self.path.join("pandarium.db")
    }

    /// The blobs of the artifacts.
    pub fn artifacts(&self) -> PathBuf {
        self.path.join("artifacts")
    }

    /// The managed Lightpanda binary.
    pub fn bin(&self) -> PathBuf {
        self.path.join("bin")
    }

    /// What lives only while a service runs: sockets, worker records, the URL.
    pub fn run(&self) -> PathBuf {
        self.path.join("run")
    }

    /// Records where the service listens, so that the command line finds it. Returns the URL.
    pub fn announce(&self, address: SocketAddr) -> Result<String, DataDirError> {
        let url = local_url(address);
        let path = url_path(&self.path);
        write_private(&path, &url).map_err(io_error("write", &path))?;
        Ok(url)
    }

    fn forget_url(&self) -> Result<(), DataDirError> {
        let path = url_path(&self.path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    fn write_pid(&self) -> Result<(), DataDirError> {
        let path = lock_path(&self.path);
        let mut lock = &self.lock;
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(io_error("write", &path))
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // The lock decides whether a service runs; a URL left behind would only cost the next caller a look.
        drop(self.forget_url());
    }
}

/// Makes the data directory and its subdirectories, each 0700, without taking the lock.
///
/// Errors: one of them belongs to another user, stays open to others, or cannot be made.
pub fn prepare(path: &Path) -> Result<(), DataDirError> {
    private_dir(path)?;
    ["artifacts", "bin", "run"].into_iter().try_for_each(|name| private_dir(&path.join(name)))
}

/// The service that holds the data directory, if one does.
pub fn holder(path: &Path) -> Result<Option<Holder>, DataDirError> {
    if !lock_path(path).exists() {
        return Ok(None);
    }
    let mut lock = open_lock(path)?;
    match lock.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_holder(path, &mut lock))),
        Err(TryLockError::Error(error)) => Err(io_error("lock", &lock_path(path))(error)),
    }
}

fn lock_path(data_dir: &Path) -> PathBuf {
    data_dir.join("lock")
}

fn url_path(data_dir: &Path) -> PathBuf {
    data_dir.join("run").join("url")
}

fn open_lock(data_dir: &Path) -> Result<File, DataDirError> {
    let path = lock_path(data_dir);
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(io_error("open", &path))
}

fn try_lock(lock: &File, data_dir: &Path) -> Result<bool, DataDirError> {
    for _ in 0..LOCK_TRIES {
        match lock.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &lock_path(data_dir))(error)),
        }
    }
    Ok(false)
}

fn read_holder(data_dir: &Path, lock: &mut File) -> Holder {
    let mut pid = String::new();
    let pid = lock.read_to_string(&mut pid).ok().and_then(|_| pid.trim().parse().ok());
    let url = fs::read_to_string(url_path(data_dir)).ok().map(|url| url.trim().to_owned());
    Holder { pid, url }
}

/// The URL under which this machine reaches a listener at `address`.
pub fn local_url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

/// Makes `path` a directory that only this user can enter.
fn private_dir(path: &Path) -> Result<(), DataDirError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error("create the directory", path))?;
    let read = || fs::metadata(path).map_err(io_error("read", path));
    let user = nix::unistd::geteuid().as_raw();
    let owner = read()?.uid();
    if owner != user {
        return Err(DataDirError::OtherOwner { path: path.to_owned(), owner, user });
    }
    if read()?.mode() & OTHERS != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(io_error("close to other users", path))?;
    }
    match read()?.mode() & 0o777 {
        mode if mode & OTHERS != 0 => Err(DataDirError::OpenToOthers { path: path.to_owned(), mode }),
        _ => Ok(()),
    }
}

/// Writes a 0600 file beside its destination and flushes it, ready to be moved into place in one step.
fn draft(path: &Path, text: &str) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    writeln!(file, "{text}")?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Writes or replaces an owner-only file: a reader sees the old text or the whole of the new.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    draft(path, text)?.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests;
