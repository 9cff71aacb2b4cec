//! Write transactions.

use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

use super::error::Result;

/// A write transaction. Dropped without [`Write::commit`], it is rolled back and its connection closed.
///
/// Not `sqlx::Transaction`: on a full disk SQLite rolls back by itself
/// (<https://www.sqlite.org/lang_transaction.html>, section 3), the roll-back of `sqlx` 0.9 then fails, and the
/// connection goes back to the pool counting a transaction that is not there. Every later one on it fails.
pub(super) struct Write {
    connection: PoolConnection<Sqlite>,
    committed: bool,
}

impl Write {
    /// Takes the write lock at once: a reader that turns writer midway could be refused.
    pub async fn begin(pool: &SqlitePool) -> Result<Self> {
        let mut write = Self { connection: pool.acquire().await?, committed: false };
        sqlx::query("BEGIN IMMEDIATE").execute(write.connection()).await?;
        Ok(write)
    }

    pub fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Durable when it returns.
    pub async fn commit(mut self) -> Result<()> {
        sqlx::query("COMMIT").execute(self.connection()).await?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        if !self.committed {
            self.connection.close_on_drop();
        }
    }
}
