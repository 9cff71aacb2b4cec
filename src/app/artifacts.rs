//! Kept texts: looking at them, deleting them, and letting them go in time.

use std::time::Duration;

use crate::domain::clock;
use crate::domain::ids::ArtifactId;
use crate::store::Store;

pub use crate::store::{Artifact, Cursor, StoreError, Totals};

/// How long artifacts are kept, and how much of them.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    pub max_age: Duration,
    pub max_total_bytes: u64,
}

/// The use cases of artifacts.
pub struct Artifacts {
    store: Store,
    retention: Retention,
}

impl Artifacts {
    pub fn new(store: Store, retention: Retention) -> Self {
        Self { store, retention }
    }

    /// At most `limit`, newest first.
    pub async fn list(
        &self,
        limit: u32,
        cursor: Option<Cursor>,
    ) -> Result<(Vec<Artifact>, Option<Cursor>), StoreError> {
        self.store.list(limit, cursor).await
    }

    pub async fn get(&self, id: ArtifactId) -> Result<Option<Artifact>, StoreError> {
        self.store.get(id).await
    }

    pub async fn read(&self, id: ArtifactId) -> Result<Option<(Artifact, String)>, StoreError> {
        self.store.read(id).await
    }

    /// False if there was none.
    pub async fn delete(&self, id: ArtifactId) -> Result<bool, StoreError> {
        self.store.delete(id).await
    }

    pub async fn totals(&self) -> Result<Totals, StoreError> {
        self.store.totals().await
    }

    /// Whether artifacts can be read and written.
    pub async fn health(&self) -> Result<(), StoreError> {
        self.store.health().await
    }

    /// Deletes what is too old, and then the oldest until the rest fits.
    pub async fn apply_retention(&self) -> Result<(), StoreError> {
        let Retention { max_age, max_total_bytes } = self.retention;
        let removed = self.store.apply_retention(max_age, max_total_bytes, clock::now_ms()).await?;
        if removed.artifacts > 0 {
            tracing::info!(
                artifacts = removed.artifacts,
                removed_bytes = removed.bytes,
                "artifacts deleted by retention"
            );
        }
        Ok(())
    }
}
