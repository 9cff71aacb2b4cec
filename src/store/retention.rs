//! What is kept for how long, and putting files and rows in step at the start.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::{Row, SqliteConnection};

use super::artifacts::{oldest_kept, parsed};
use super::blobs::{Condition, Digest};
use super::error::Result;
use super::transaction::Write;
use super::{Found, Store, file_work, to_the_end};

/// What [`Store::apply_retention`] removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    pub artifacts: u64,
    /// Of the blobs that no artifact names any more.
    pub bytes: u64,
}

/// What is listed. Content that several artifacts share counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub artifacts: u64,
    pub bytes: u64,
}

/// Deletes every artifact up to the newest one whose blob no longer fits. A blob takes its place in that order by
/// the newest artifact that names it; so exactly the shortest run of oldest artifacts goes.
const DELETE_WHAT_DOES_NOT_FIT: &str = "
    WITH named AS (SELECT sha256, bytes, max(seq) AS newest FROM listed_artifact GROUP BY sha256),
         sums AS (SELECT newest, sum(bytes) OVER (ORDER BY newest DESC) AS total FROM named)
    DELETE FROM artifact WHERE seq <= (SELECT max(newest) FROM sums WHERE total > ?)";

impl Store {
    /// Removes what is older than `max_age` at `now_ms`, then the oldest until the rest is at most `max_total_bytes`.
    pub async fn apply_retention(&self, max_age: Duration, max_total_bytes: u64, now_ms: i64) -> Result<Removed> {
        let writer = self.writer.clone().lock_owned().await;
        let store = self.clone();
        to_the_end(async move {
            let removed = store.remove_old(oldest_kept(max_age, now_ms), max_total_bytes).await;
            drop(writer);
            removed
        })
        .await
    }

    /// Called with the writer's lock, on a thread that may block.
    async fn remove_old(&self, oldest_kept: i64, max_total_bytes: u64) -> Result<Removed> {
        let mut write = Write::begin(&self.pool).await?;
        let query = sqlx::query("DELETE FROM artifact WHERE created_at < ?").bind(oldest_kept);
        let expired = query.execute(write.connection()).await?.rows_affected();
        let query = sqlx::query(DELETE_WHAT_DOES_NOT_FIT).bind(i64::try_from(max_total_bytes).unwrap_or(i64::MAX));
        let surplus = query.execute(write.connection()).await?.rows_affected();
        let unnamed = forget_unnamed(write.connection()).await?;
        write.commit().await?;
        unnamed.iter().for_each(|(digest, _)| self.remove_blob(*digest));
        Ok(Removed { artifacts: expired + surplus, bytes: unnamed.iter().map(|(_, bytes)| bytes).sum() })
    }

    pub async fn totals(&self) -> Result<Totals> {
        let query = "SELECT (SELECT count(*) FROM listed_artifact) AS artifacts, \
                     (SELECT coalesce(sum(bytes), 0) FROM blob WHERE intact = 1) AS bytes";
        let row = sqlx::query(query).fetch_one(&self.pool).await?;
        Ok(Totals {
            artifacts: row.try_get::<i64, _>("artifacts")?.unsigned_abs(),
            bytes: row.try_get::<i64, _>("bytes")?.unsigned_abs(),
        })
    }

    /// Removes what a crash left, and marks the blobs whose files are missing or of another size.
    pub(super) async fn sweep(&self) -> Result<Found> {
        let rows = sqlx::query("SELECT sha256, bytes, intact FROM blob").fetch_all(&self.pool).await?;
        let mut known = HashMap::with_capacity(rows.len());
        let mut marked = HashMap::with_capacity(rows.len());
        for row in &rows {
            let digest: Digest = parsed(row, "sha256")?;
            known.insert(digest, row.try_get::<i64, _>("bytes")?.unsigned_abs());
            marked.insert(digest, row.try_get::<bool, _>("intact")?);
        }
        let blobs = self.blobs.clone();
        let swept = file_work(move || blobs.sweep(&known)).await?;
        for (digest, condition) in swept.conditions {
            let intact = condition == Condition::Intact;
            if marked.get(&digest) != Some(&intact) {
                self.mark(digest, intact).await?;
            }
        }
        let lost = "SELECT count(*) FROM artifact JOIN blob USING (sha256) WHERE intact = 0";
        let lost: i64 = sqlx::query_scalar(lost).fetch_one(&self.pool).await?;
        Ok(Found { temp_files: swept.temp_files, orphan_blobs: swept.orphans, lost_artifacts: lost.unsigned_abs() })
    }

    async fn mark(&self, digest: Digest, intact: bool) -> Result<()> {
        let query = sqlx::query("UPDATE blob SET intact = ? WHERE sha256 = ?");
        query.bind(intact).bind(digest.to_string()).execute(&self.pool).await?;
        Ok(())
    }
}

/// Deletes the rows of blobs that no artifact names, and returns their hashes and sizes. Their files go after the
/// commit.
pub(super) async fn forget_unnamed(connection: &mut SqliteConnection) -> Result<Vec<(Digest, u64)>, sqlx::Error> {
    let query = "DELETE FROM blob WHERE NOT EXISTS (SELECT 1 FROM artifact WHERE artifact.sha256 = blob.sha256) \
                 RETURNING sha256, bytes";
    let rows = sqlx::query(query).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((parsed(row, "sha256")?, row.try_get::<i64, _>("bytes")?.unsigned_abs()))).collect()
}
