//! Blobs: one file for each content, at `artifacts/<first two digits>/<sha256>`. Blocking.
//!
//! Every file is reached from a directory handle and never through a symbolic link, and its name is a hash:
//! nothing that a page or a client says becomes part of a path.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use sha2::{Digest as _, Sha256};

use super::error::{Result, StoreError};

/// A SHA-256 in hexadecimal: the name of a blob.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    fn shard(self) -> String {
        hex::encode(&self.0[..1])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not a SHA-256 in lower-case hexadecimal")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let mut digest = [0; 32];
        hex::decode_to_slice(text, &mut digest).map_err(|_| NotADigest)?;
        // Upper case would be a second name for the same blob.
        Some(Self(digest)).filter(|digest| digest.to_string() == text).ok_or(NotADigest)
    }
}

/// The directory of the blobs. Locked for as long as it is open, because the sweep must be nobody else's writes.
pub(super) struct BlobDir {
    path: PathBuf,
    root: File,
}

/// What a blob's file is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    Intact,
    Missing,
}

/// What [`BlobDir::sweep`] did and found.
#[derive(Debug, Default)]
pub(super) struct Swept {
    pub temp_files: u64,
    pub orphans: u64,
    /// For every blob that was asked for.
    pub conditions: HashMap<Digest, Condition>,
}

const DIR_MODE: Mode = Mode::S_IRWXU;
const FILE_MODE: Mode = Mode::from_bits_truncate(0o600);
const TEMP_SUFFIX: &str = ".tmp";

impl BlobDir {
    /// Makes the directory if need be, owner-only, and locks it.
    pub fn open(path: PathBuf) -> Result<Self> {
        match nix::unistd::mkdir(&path, DIR_MODE) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let root = File::from(open(&path, DIR_FLAGS, Mode::empty())?);
        fchmod(&root, DIR_MODE)?;
        root.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => StoreError::InUse,
            TryLockError::Error(error) => error.into(),
        })?;
        Ok(Self { path, root })
    }

    /// Writes the content beside its place and makes it durable. Not a blob until [`Staged::publish`].
    pub fn stage(&self, content: &[u8]) -> Result<Staged> {
        let digest = Digest::of(content);
        let shard = self.make_shard(digest)?;
        let mut staged = Staged::create(shard, digest)?;
        staged.file.write_all(content)?;
        staged.file.sync_all()?;
        Ok(staged)
    }

    /// The content; `None` if the file is missing, not a plain file, or not what its name says.
    pub fn read(&self, digest: Digest, bytes: u64) -> Result<Option<Vec<u8>>> {
        let Some(mut file) = self.open_blob(digest)? else { return Ok(None) };
        if !is_whole(&fstat(&file)?, bytes) {
            return Ok(None);
        }
        let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
        file.read_to_end(&mut content)?;
        Ok((Digest::of(&content) == digest).then_some(content))
    }

    /// Removes a blob. One that is already gone is no error.
    pub fn remove(&self, digest: Digest) -> Result<()> {
        match self.open_shard(&digest.shard())? {
            Some(shard) => Ok(unlink(&shard, &digest.to_string())?),
            None => Ok(()),
        }
    }

    /// Removes the temporary files and every blob that `known` does not list, and looks at those that it does.
    /// Files that this service would not have made are left alone.
    pub fn sweep(&self, known: &HashMap<Digest, u64>) -> Result<Swept> {
        let mut swept = Swept::default();
        swept.conditions.extend(known.keys().map(|digest| (*digest, Condition::Missing)));
        for name in names_in(&self.path)? {
            if name.len() == 2
                && let Some(shard) = self.open_shard(&name)?
            {
                sweep_shard(&shard, &self.path.join(&name), &name, known, &mut swept)?;
            }
        }
        Ok(swept)
    }

    /// Finds out whether a page of 4 KiB can be written, by writing one.
    pub fn probe(&self) -> Result<()> {
        let content = [0; 4096];
        let mut staged = Staged::create(self.make_shard(Digest([0; 32]))?, Digest([0; 32]))?;
        Ok(staged.file.write_all(&content)?)
    }

    fn make_shard(&self, digest: Digest) -> Result<File> {
        let name = digest.shard();
        match mkdirat(&self.root, name.as_str(), DIR_MODE) {
            Ok(()) => self.root.sync_all()?,
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(File::from(openat(&self.root, name.as_str(), DIR_FLAGS, Mode::empty())?))
    }

    /// `None` if there is no such directory; a link or a file in its place counts as none.
    fn open_shard(&self, name: &str) -> Result<Option<File>> {
        absent_as_none(openat(&self.root, name, DIR_FLAGS, Mode::empty()).map(File::from))
    }

    fn open_blob(&self, digest: Digest) -> Result<Option<File>> {
        let Some(shard) = self.open_shard(&digest.shard())? else { return Ok(None) };
        // Without O_NONBLOCK a planted FIFO would hold the thread for ever.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        absent_as_none(openat(&shard, digest.to_string().as_str(), flags, Mode::empty()).map(File::from))
    }
}

const DIR_FLAGS: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A durable temporary file. Dropped unpublished, it removes itself.
pub(super) struct Staged {
    shard: File,
    file: File,
    /// `None` once published.
    temp_name: Option<String>,
    digest: Digest,
}

impl Staged {
    fn create(shard: File, digest: Digest) -> Result<Self> {
        let name = format!("{:032x}{TEMP_SUFFIX}", rand::random::<u128>());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = File::from(openat(&shard, name.as_str(), flags, FILE_MODE)?);
        Ok(Self { shard, file, temp_name: Some(name), digest })
    }

    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Puts the file in its place, durably. It replaces whatever is there: an equal blob, or a damaged one, or a link.
    pub fn publish(mut self) -> Result<()> {
        if let Some(name) = &self.temp_name {
            renameat(&self.shard, name.as_str(), &self.shard, self.digest.to_string().as_str())?;
            self.temp_name = None;
        }
        Ok(self.shard.sync_all()?)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(name) = &self.temp_name
            && let Err(error) = unlink(&self.shard, name)
        {
            tracing::warn!(%error, "a temporary file stays until the next start");
        }
    }
}

fn sweep_shard(shard: &File, path: &Path, prefix: &str, known: &HashMap<Digest, u64>, swept: &mut Swept) -> Result<()> {
    for name in names_in(path)? {
        let stat = fstatat(shard, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let digest = name.parse::<Digest>().ok();
        if file_type(&stat) == SFlag::S_IFDIR {
            continue;
        }
        if name.ends_with(TEMP_SUFFIX) {
            unlink(shard, &name)?;
            swept.temp_files += 1;
        } else if let Some(digest) = digest {
            match known.get(&digest).filter(|_| digest.shard() == prefix) {
                None => {
                    unlink(shard, &name)?;
                    swept.orphans += 1;
                }
                Some(bytes) if is_whole(&stat, *bytes) => {
                    swept.conditions.insert(digest, Condition::Intact);
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

/// Names that are not UTF-8 are not ours.
fn names_in(path: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
    names.filter_map(Result::transpose).collect()
}

fn is_whole(stat: &FileStat, bytes: u64) -> bool {
    file_type(stat) == SFlag::S_IFREG && u64::try_from(stat.st_size) == Ok(bytes)
}

fn file_type(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn unlink(directory: &File, name: &str) -> io::Result<()> {
    match unlinkat(directory, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// A symbolic link, and a file where a directory belongs, are as good as nothing: they are not followed.
fn absent_as_none(opened: nix::Result<File>) -> Result<Option<File>> {
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(Errno::ENOENT | Errno::ELOOP | Errno::ENOTDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
