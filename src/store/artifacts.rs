//! Artifacts: rows that name a blob.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite, SqliteConnection};

use super::blobs::{Digest, Staged};
use super::error::{Result, StoreError};
use super::transaction::Write;
use super::{Store, file_work, to_the_end};
use crate::domain::ids::ArtifactId;

/// The kind of what `fetch` keeps.
pub const KIND_FETCH: &str = "fetch";

/// What is to be kept.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// Such as [`KIND_FETCH`].
    pub kind: String,
    /// A hash of the normalised request: what [`Store::newest`] looks for.
    pub request_key: String,
    pub url: String,
    pub final_url: String,
    pub title: Option<String>,
    /// The media type of `text`, such as `text/markdown`.
    pub content_type: String,
    /// The format that the request asked for, such as `markdown`.
    pub format: String,
    pub http_status: Option<u16>,
    pub text: String,
    /// Opaque to the store: JSON from which the caller builds its answer again.
    pub meta: String,
}

/// What is kept, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    pub id: ArtifactId,
    pub kind: String,
    pub request_key: String,
    pub url: String,
    pub final_url: String,
    pub title: Option<String>,
    pub content_type: String,
    pub format: String,
    pub http_status: Option<u16>,
    pub sha256: Digest,
    pub bytes: u64,
    /// Unicode scalar values of the text.
    pub chars: u64,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    pub meta: String,
}

/// Where a list goes on. It stays right while artifacts come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this list")]
pub struct NotACursor;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| digits).map(Self).ok_or(NotACursor)
    }
}

impl Store {
    /// Keeps a text. When this returns, neither `kill -9` nor a power cut loses it.
    ///
    /// # Errors
    /// [`StoreError::Full`] and every other error: nothing was kept.
    pub async fn put(&self, new: NewArtifact, now_ms: i64) -> Result<Artifact> {
        let blobs = self.blobs.clone();
        let (staged, artifact) = file_work(move || {
            let staged = blobs.stage(new.text.as_bytes())?;
            let artifact = describe(new, staged.digest(), now_ms);
            Ok((staged, artifact))
        })
        .await?;
        let writer = self.writer.clone().lock_owned().await;
        let store = self.clone();
        to_the_end(async move {
            let kept = store.publish(staged, artifact).await;
            drop(writer);
            kept
        })
        .await
    }

    /// The file first, then the row. Called with the writer's lock, on a thread that may block.
    async fn publish(&self, staged: Staged, artifact: Artifact) -> Result<Artifact> {
        let digest = artifact.sha256;
        let is_first = !self.has_blob(digest).await?;
        let kept = match staged.publish() {
            Ok(()) => self.insert(&artifact).await,
            Err(error) => Err(error),
        };
        if kept.is_err() && is_first {
            self.remove_blob(digest);
        }
        kept.map(|()| artifact)
    }

    async fn has_blob(&self, digest: Digest) -> Result<bool> {
        let query = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM blob WHERE sha256 = ?)");
        Ok(query.bind(digest.to_string()).fetch_one(&self.pool).await?)
    }

    async fn insert(&self, artifact: &Artifact) -> Result<()> {
        let mut write = Write::begin(&self.pool).await?;
        insert_rows(write.connection(), artifact).await?;
        write.commit().await
    }

    /// Removes a file that no row names. One that stays is removed at the next start.
    pub(super) fn remove_blob(&self, digest: Digest) {
        if let Err(error) = self.blobs.remove(digest) {
            tracing::warn!(%digest, %error, "an orphan blob stays until the next start");
        }
    }

    pub async fn get(&self, id: ArtifactId) -> Result<Option<Artifact>> {
        self.one(sqlx::query("SELECT * FROM listed_artifact WHERE id = ?").bind(id.to_string())).await
    }

    /// The artifact with its text, byte for byte as it was put.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the file is not what was written.
    pub async fn read(&self, id: ArtifactId) -> Result<Option<(Artifact, String)>> {
        let Some(artifact) = self.get(id).await? else { return Ok(None) };
        let (blobs, digest, bytes) = (self.blobs.clone(), artifact.sha256, artifact.bytes);
        let content = file_work(move || blobs.read(digest, bytes)).await?;
        match content.and_then(|content| String::from_utf8(content).ok()) {
            Some(text) => Ok(Some((artifact, text))),
            // Deleted between the row and the file, or else damaged.
            None if self.get(id).await?.is_none() => Ok(None),
            None => Err(StoreError::Damaged(id)),
        }
    }

    /// At most `limit` artifacts (at least one), newest first, and where to go on if there are more.
    pub async fn list(&self, limit: u32, cursor: Option<Cursor>) -> Result<(Vec<Artifact>, Option<Cursor>)> {
        let limit = limit.max(1) as usize;
        let before = cursor.map_or(i64::MAX, |cursor| cursor.0);
        let query = sqlx::query("SELECT * FROM listed_artifact WHERE seq < ? ORDER BY seq DESC LIMIT ?");
        let mut rows = query.bind(before).bind(limit as i64 + 1).fetch_all(&self.pool).await?;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next = match rows.last() {
            Some(last) if has_more => Some(Cursor(last.try_get("seq")?)),
            _ => None,
        };
        Ok((rows.iter().map(artifact).collect::<Result<_, _>>()?, next))
    }

    /// Deletes an artifact, and its file unless another artifact has the same content. False if there is none.
    pub async fn delete(&self, id: ArtifactId) -> Result<bool> {
        let writer = self.writer.clone().lock_owned().await;
        let store = self.clone();
        to_the_end(async move {
            let mut write = Write::begin(&store.pool).await?;
            let query = sqlx::query("DELETE FROM artifact WHERE id = ?").bind(id.to_string());
            let deleted = query.execute(write.connection()).await?.rows_affected() > 0;
            let unnamed = super::retention::forget_unnamed(write.connection()).await?;
            write.commit().await?;
            unnamed.iter().for_each(|(digest, _)| store.remove_blob(*digest));
            drop(writer);
            Ok(deleted)
        })
        .await
    }

    /// The latest artifact of that request that is at most `max_age` old at `now_ms`. One from the future, as after a
    /// clock was set back, has no known age and does not count.
    pub async fn newest(&self, request_key: &str, max_age: Duration, now_ms: i64) -> Result<Option<Artifact>> {
        let query = sqlx::query(
            "SELECT * FROM listed_artifact WHERE request_key = ? AND created_at BETWEEN ? AND ? \
             ORDER BY seq DESC LIMIT 1",
        );
        self.one(query.bind(request_key.to_owned()).bind(oldest_kept(max_age, now_ms)).bind(now_ms)).await
    }

    async fn one(&self, query: sqlx::query::Query<'_, Sqlite, SqliteArguments>) -> Result<Option<Artifact>> {
        Ok(query.fetch_optional(&self.pool).await?.as_ref().map(artifact).transpose()?)
    }
}

/// The creation time of an artifact that is exactly `max_age` old.
pub(super) fn oldest_kept(max_age: Duration, now_ms: i64) -> i64 {
    now_ms.saturating_sub(i64::try_from(max_age.as_millis()).unwrap_or(i64::MAX))
}

fn describe(new: NewArtifact, sha256: Digest, created_at_ms: i64) -> Artifact {
    Artifact {
        id: ArtifactId::random(),
        bytes: new.text.len() as u64,
        chars: new.text.chars().count() as u64,
        kind: new.kind,
        request_key: new.request_key,
        url: new.url,
        final_url: new.final_url,
        title: new.title,
        content_type: new.content_type,
        format: new.format,
        http_status: new.http_status,
        sha256,
        created_at_ms,
        meta: new.meta,
    }
}

async fn insert_rows(connection: &mut SqliteConnection, artifact: &Artifact) -> Result<(), sqlx::Error> {
    // A blob that was lost is back.
    sqlx::query("INSERT INTO blob (sha256, bytes) VALUES (?, ?) ON CONFLICT (sha256) DO UPDATE SET intact = 1")
        .bind(artifact.sha256.to_string())
        .bind(artifact.bytes as i64)
        .execute(&mut *connection)
        .await?;
    sqlx::query(
        "INSERT INTO artifact (id, kind, request_key, url, final_url, title, content_type, format, http_status, \
         sha256, chars, created_at, meta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(artifact.id.to_string())
    .bind(&artifact.kind)
    .bind(&artifact.request_key)
    .bind(&artifact.url)
    .bind(&artifact.final_url)
    .bind(&artifact.title)
    .bind(&artifact.content_type)
    .bind(&artifact.format)
    .bind(artifact.http_status)
    .bind(artifact.sha256.to_string())
    .bind(artifact.chars as i64)
    .bind(artifact.created_at_ms)
    .bind(&artifact.meta)
    .execute(connection)
    .await?;
    Ok(())
}

fn artifact(row: &SqliteRow) -> Result<Artifact, sqlx::Error> {
    Ok(Artifact {
        id: parsed(row, "id")?,
        kind: row.try_get("kind")?,
        request_key: row.try_get("request_key")?,
        url: row.try_get("url")?,
        final_url: row.try_get("final_url")?,
        title: row.try_get("title")?,
        content_type: row.try_get("content_type")?,
        format: row.try_get("format")?,
        http_status: row.try_get("http_status")?,
        sha256: parsed(row, "sha256")?,
        bytes: row.try_get::<i64, _>("bytes")?.unsigned_abs(),
        chars: row.try_get::<i64, _>("chars")?.unsigned_abs(),
        created_at_ms: row.try_get("created_at")?,
        meta: row.try_get("meta")?,
    })
}

/// A column of text that must be the written form of a `T`.
pub(super) fn parsed<T>(row: &SqliteRow, column: &str) -> Result<T, sqlx::Error>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    row.try_get::<&str, _>(column)?.parse().map_err(|error: T::Err| sqlx::Error::Decode(error.into()))
}
