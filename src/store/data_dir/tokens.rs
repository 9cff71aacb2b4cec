//! The two bearer tokens: the agent's drives browsers, the approver's answers approvals.
//!
//! In the data directory, each 0600 and one line: `token`, `approver-token`, and `auth.header`, which holds
//! `Authorization: Bearer TOKEN` of the agent, so that `curl -H @DATA_DIR/auth.header URL` works.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rand::TryRng;
use rand::rngs::SysRng;

use super::{OTHERS, draft, write_private};
use crate::domain::secret::Secret;

/// 32 characters of base64url hold 192 bits: out of reach of guessing, and no password is that long by accident.
pub const MIN_TOKEN_CHARS: usize = 32;

/// Longer than any token; what is read of a token file that is not one.
const MAX_TOKEN_BYTES: u64 = 4096;

/// Where a token comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// The file in the data directory, made at the first start.
    DataDir,
    /// A file that the configuration names.
    File(PathBuf),
    /// The configuration itself.
    Value(Secret),
}

/// The tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the token file {path} does not exist: run `pandarium token --init`", path = path.display())]
    Missing { path: PathBuf },

    #[error("the token file {path} is open to other users (mode {mode:o}): chmod 600 it, and replace the token in it", path = path.display())]
    OpenToOthers { path: PathBuf, mode: u32 },

    #[error("the token in {path} cannot be used", path = path.display())]
    Unusable {
        path: PathBuf,
        #[source]
        source: UnusableToken,
    },

    #[error("the agent's token and the approver's are the same: an agent must not be able to approve")]
    Same,

    #[error("the system gave no random bytes for a token")]
    NoEntropy {
        #[source]
        source: rand::rngs::SysError,
    },

    #[error("cannot {action} {path}", path = path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The text is no bearer token. It is not repeated here: it may be most of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableToken {
    #[error("a token has at least {MIN_TOKEN_CHARS} characters")]
    TooShort,
    #[error("a token consists of letters, digits and -._~+/ and may end in =")]
    BadCharacter,
}

/// Checks that `text` is long enough and is a `token68` of RFC 9110, which is what `Bearer` takes.
pub fn check_token(text: &str) -> Result<(), UnusableToken> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    if text.len() < MIN_TOKEN_CHARS {
        return Err(UnusableToken::TooShort);
    }
    if !text.trim_end_matches('=').bytes().all(plain) {
        return Err(UnusableToken::BadCharacter);
    }
    Ok(())
}

/// Which missing token files are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Create {
    Nothing,
    InDataDir,
    Everywhere,
}

/// The two tokens in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    pub agent: Secret,
    pub approver: Secret,
}

impl Tokens {
    /// Reads the tokens, makes those of the data directory that are missing, and keeps `auth.header` in step.
    /// The directory must exist ([`super::prepare`]). Any number of processes may do this at once: all get the
    /// same tokens. A configured file that is missing is an error: a service must not invent a credential that
    /// its owner meant to give.
    pub fn load_or_create(data_dir: &Path, agent: &TokenSource, approver: &TokenSource) -> Result<Self, TokenError> {
        let tokens = Self::read(data_dir, agent, approver, Create::InDataDir)?;
        write_auth_header(data_dir, &tokens.agent)?;
        Ok(tokens)
    }

    /// As [`Tokens::load_or_create`], and also makes configured token files that are missing.
    pub fn init(data_dir: &Path, agent: &TokenSource, approver: &TokenSource) -> Result<Self, TokenError> {
        let tokens = Self::read(data_dir, agent, approver, Create::Everywhere)?;
        write_auth_header(data_dir, &tokens.agent)?;
        Ok(tokens)
    }

    /// Reads the tokens and writes nothing.
    pub fn load(data_dir: &Path, agent: &TokenSource, approver: &TokenSource) -> Result<Self, TokenError> {
        Self::read(data_dir, agent, approver, Create::Nothing)
    }

    fn read(data_dir: &Path, agent: &TokenSource, approver: &TokenSource, create: Create) -> Result<Self, TokenError> {
        let agent = obtain(agent, &token_path(data_dir), create)?;
        let approver = obtain(approver, &approver_token_path(data_dir), create)?;
        if agent == approver {
            return Err(TokenError::Same);
        }
        Ok(Self { agent, approver })
    }
}

pub fn token_path(data_dir: &Path) -> PathBuf {
    data_dir.join("token")
}

pub fn approver_token_path(data_dir: &Path) -> PathBuf {
    data_dir.join("approver-token")
}

pub fn auth_header_path(data_dir: &Path) -> PathBuf {
    data_dir.join("auth.header")
}

fn obtain(source: &TokenSource, own_path: &Path, create: Create) -> Result<Secret, TokenError> {
    let (path, may_create) = match source {
        TokenSource::Value(secret) => return Ok(secret.clone()),
        TokenSource::File(path) => (path.as_path(), create == Create::Everywhere),
        TokenSource::DataDir => (own_path, create != Create::Nothing),
    };
    match read_token(path) {
        Err(TokenError::Missing { .. }) if may_create => {
            create_token(path)?;
            read_token(path)
        }
        outcome => outcome,
    }
}

/// Puts a random token in place unless one is there: whoever comes second keeps the first one's.
fn create_token(path: &Path) -> Result<(), TokenError> {
    let mut bytes = [0_u8; 32];
    SysRng.try_fill_bytes(&mut bytes).map_err(|source| TokenError::NoEntropy { source })?;
    let draft = draft(path, &BASE64_URL_SAFE_NO_PAD.encode(bytes)).map_err(io_error("create", path))?;
    match draft.persist_noclobber(path) {
        Err(refused) if refused.error.kind() != io::ErrorKind::AlreadyExists => {
            Err(io_error("create", path)(refused.error))
        }
        _ => Ok(()),
    }
}

fn read_token(path: &Path) -> Result<Secret, TokenError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(TokenError::Missing { path: path.to_owned() });
        }
        opened => opened.map_err(io_error("open", path))?,
    };
    let mode = file.metadata().map_err(io_error("read", path))?.mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(TokenError::OpenToOthers { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.take(MAX_TOKEN_BYTES).read_to_string(&mut text).map_err(io_error("read", path))?;
    let token = text.trim();
    check_token(token).map_err(|source| TokenError::Unusable { path: path.to_owned(), source })?;
    Ok(Secret::new(token))
}

fn write_auth_header(data_dir: &Path, agent: &Secret) -> Result<(), TokenError> {
    let path = auth_header_path(data_dir);
    let header = format!("Authorization: Bearer {}", agent.expose());
    let in_step = fs::read_to_string(&path).is_ok_and(|text| text.trim_end() == header)
        && fs::metadata(&path).is_ok_and(|file| file.mode() & OTHERS == 0);
    if in_step {
        return Ok(());
    }
    write_private(&path, &header).map_err(io_error("write", &path))
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TokenError {
    move |source| TokenError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
