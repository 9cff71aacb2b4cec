//! Sessions: what one is restored from, and for a while that it has ended.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::Store;
use super::artifacts::parsed;
use super::error::{Result, StoreError};
use crate::domain::ids::SessionId;

/// The largest saved state: a browser keeps at most 5 MB of local storage for an origin, and most pages keep little.
pub const MAX_SAVED_BYTES: usize = 5 * 1024 * 1024;

/// What is to be opened.
#[derive(Debug, Clone)]
pub struct NewSession {
    pub engine: String,
    pub profile: Option<String>,
    /// Opaque to the store: JSON from which the caller opens the session again.
    pub options: String,
    pub idle_timeout: Duration,
    /// Milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

/// What is known of a session. Times are milliseconds since the Unix epoch.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub id: SessionId,
    pub engine: String,
    pub profile: Option<String>,
    /// As it was created; `{}` once it has ended.
    pub options: String,
    pub state: SessionState,
    /// Why it ended.
    pub reason: Option<String>,
    pub created_at_ms: i64,
    pub last_used_at_ms: i64,
    pub ended_at_ms: Option<i64>,
    pub idle_timeout: Duration,
    /// The end of its lifetime.
    pub expires_at_ms: i64,
    pub url: Option<String>,
    /// Opaque to the store: JSON with cookies and storage.
    pub saved: Option<String>,
    pub saved_at_ms: Option<i64>,
    /// The number that the next new element gets; at least 1.
    pub next_ref: u64,
    /// The engine's own id of the page.
    pub target: Option<String>,
}

/// Without what may hold secrets.
impl fmt::Debug for SessionRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SessionRow");
        shown.field("id", &self.id).field("engine", &self.engine).field("state", &self.state);
        shown.field("reason", &self.reason).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    Open,
    Ended(EndState),
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndState {
    /// By its client.
    Closed,
    /// By its idle time or its lifetime.
    Expired,
    /// It could not be restored.
    Lost,
}

impl EndState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Expired => "expired",
            Self::Lost => "lost",
        }
    }
}

/// The column holds a state that this program does not know.
#[derive(Debug, thiserror::Error)]
#[error("not a state of a session")]
pub struct NotAState;

impl FromStr for SessionState {
    type Err = NotAState;

    fn from_str(text: &str) -> Result<Self, NotAState> {
        match text {
            "open" => Ok(Self::Open),
            "closed" => Ok(Self::Ended(EndState::Closed)),
            "expired" => Ok(Self::Ended(EndState::Expired)),
            "lost" => Ok(Self::Ended(EndState::Lost)),
            _ => Err(NotAState),
        }
    }
}

/// How far a session has come.
#[derive(Clone)]
pub struct Checkpoint {
    /// None leaves what is there.
    pub url: Option<String>,
    /// At most [`MAX_SAVED_BYTES`]; none leaves what is there.
    pub saved: Option<String>,
    /// A number below the one that is there changes nothing.
    pub next_ref: u64,
    /// As `next_ref`.
    pub last_used_at_ms: i64,
}

impl Store {
    /// Keeps a session that is open from now on. When this returns, neither `kill -9` nor a power cut loses it.
    pub async fn create_session(&self, new: NewSession, now_ms: i64) -> Result<SessionRow> {
        let row = SessionRow {
            id: SessionId::random(),
            engine: new.engine,
            profile: new.profile,
            options: new.options,
            state: SessionState::Open,
            reason: None,
            created_at_ms: now_ms,
            last_used_at_ms: now_ms,
            ended_at_ms: None,
            // As it is read back: whole milliseconds.
            idle_timeout: Duration::from_millis(milliseconds(new.idle_timeout).unsigned_abs()),
            expires_at_ms: new.expires_at_ms,
            url: None,
            saved: None,
            saved_at_ms: None,
            next_ref: 1,
            target: None,
        };
        sqlx::query(
            "INSERT INTO session (id, engine, profile, options, state, created_at, last_used_at, idle_timeout_ms, \
             expires_at) VALUES (?, ?, ?, ?, 'open', ?, ?, ?, ?)",
        )
        .bind(row.id.to_string())
        .bind(&row.engine)
        .bind(&row.profile)
        .bind(&row.options)
        .bind(now_ms)
        .bind(now_ms)
        .bind(milliseconds(row.idle_timeout))
        .bind(row.expires_at_ms)
        .execute(&self.pool)
        .await?;
        Ok(row)
    }

    /// Notes how far an open session has come. It outlives `kill -9` when this returns, and a power cut after the next
    /// durable write. A session that has ended, or that there never was, stays as it is.
    ///
    /// # Errors
    /// [`StoreError::StateTooLarge`] and every other error: nothing was changed.
    pub async fn checkpoint_session(&self, id: SessionId, to: &Checkpoint, now_ms: i64) -> Result<()> {
        if let Some(bytes) = to.saved.as_ref().map(String::len).filter(|bytes| *bytes > MAX_SAVED_BYTES) {
            return Err(StoreError::StateTooLarge { bytes, limit: MAX_SAVED_BYTES });
        }
        sqlx::query(
            "UPDATE session SET url = coalesce(?1, url), saved = coalesce(?2, saved), \
             saved_at = CASE WHEN ?2 IS NULL THEN saved_at ELSE ?3 END, \
             next_ref = max(next_ref, ?4), last_used_at = max(last_used_at, ?5) WHERE id = ?6 AND state = 'open'",
        )
        .bind(&to.url)
        .bind(&to.saved)
        .bind(now_ms)
        .bind(i64::try_from(to.next_ref).unwrap_or(i64::MAX))
        .bind(to.last_used_at_ms)
        .bind(id.to_string())
        .execute(&self.checkpoints)
        .await?;
        Ok(())
    }

    /// Ends an open session, and forgets its cookies, its storage, its URL and its options; `reason` is shown to
    /// clients. Durable when it returns. The first end counts: one that has ended, or that there never was, stays as
    /// it is.
    pub async fn end_session(&self, id: SessionId, end: EndState, reason: Option<&str>, now_ms: i64) -> Result<()> {
        sqlx::query(
            "UPDATE session SET state = ?, reason = ?, ended_at = ?, options = '{}', url = NULL, saved = NULL, \
             saved_at = NULL, target = NULL WHERE id = ? AND state = 'open'",
        )
        .bind(end.as_str())
        .bind(reason.map(str::to_owned))
        .bind(now_ms)
        .bind(id.to_string())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// A session, open or ended.
    pub async fn session(&self, id: SessionId) -> Result<Option<SessionRow>> {
        let query = sqlx::query("SELECT * FROM session WHERE id = ?").bind(id.to_string());
        Ok(query.fetch_optional(&self.pool).await?.as_ref().map(session).transpose()?)
    }

    /// Every open session, the oldest first.
    pub async fn open_sessions(&self) -> Result<Vec<SessionRow>> {
        let query = sqlx::query("SELECT * FROM session WHERE state = 'open' ORDER BY created_at, id");
        Ok(query.fetch_all(&self.pool).await?.iter().map(session).collect::<Result<_, _>>()?)
    }

    /// Forgets sessions that ended before that moment, and says how many there were. Until then a call on one can be
    /// told how it ended.
    pub async fn forget_sessions_ended_before(&self, before_ms: i64) -> Result<u64> {
        let query = sqlx::query("DELETE FROM session WHERE ended_at < ?").bind(before_ms);
        Ok(query.execute(&self.pool).await?.rows_affected())
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn session(row: &SqliteRow) -> Result<SessionRow, sqlx::Error> {
    Ok(SessionRow {
        id: parsed(row, "id")?,
        engine: row.try_get("engine")?,
        profile: row.try_get("profile")?,
        options: row.try_get("options")?,
        state: parsed(row, "state")?,
        reason: row.try_get("reason")?,
        created_at_ms: row.try_get("created_at")?,
        last_used_at_ms: row.try_get("last_used_at")?,
        ended_at_ms: row.try_get("ended_at")?,
        idle_timeout: Duration::from_millis(row.try_get::<i64, _>("idle_timeout_ms")?.unsigned_abs()),
        expires_at_ms: row.try_get("expires_at")?,
        url: row.try_get("url")?,
        saved: row.try_get("saved")?,
        saved_at_ms: row.try_get("saved_at")?,
        next_ref: row.try_get::<i64, _>("next_ref")?.unsigned_abs(),
        target: row.try_get("target")?,
    })
}
