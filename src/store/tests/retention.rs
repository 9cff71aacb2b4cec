use std::time::Duration;

use super::support::*;
use crate::domain::ids::ArtifactId;
use crate::store::{Removed, Store, Totals};

const FOR_EVER: Duration = Duration::MAX;

async fn ids(store: &Store) -> Vec<ArtifactId> {
    all(store).await.iter().rev().map(|artifact| artifact.id).collect()
}

#[tokio::test]
async fn age_is_exact_to_the_millisecond() {
    let (dir, store) = fresh().await;
    let expired = store.put(text("expired"), NOW - 3_600_001).await.unwrap();
    let kept = store.put(text("kept"), NOW - 3_600_000).await.unwrap();
    let removed = store.apply_retention(HOUR, u64::MAX, NOW).await.unwrap();
    assert_eq!(removed, Removed { artifacts: 1, bytes: expired.bytes });
    assert_eq!(ids(&store).await, [kept.id]);
    assert_eq!(blob_files(dir.path()), [blob_path(dir.path(), &kept)]);
}

#[tokio::test]
async fn the_oldest_go_until_the_rest_fits_exactly() {
    for (limit, left) in [(1000, 10), (999, 9), (901, 9), (900, 9), (899, 8), (100, 1), (99, 0), (0, 0)] {
        let (dir, store) = fresh().await;
        let mut put = Vec::new();
        for index in 0..10 {
            put.push(store.put(text(&filler(index, 100)), NOW).await.unwrap().id);
        }
        let removed = store.apply_retention(FOR_EVER, limit, NOW).await.unwrap();
        assert_eq!(removed, Removed { artifacts: 10 - left, bytes: 100 * (10 - left) }, "limit {limit}");
        assert_eq!(ids(&store).await, put[10 - left as usize..], "limit {limit}");
        assert_eq!(store.totals().await.unwrap(), Totals { artifacts: left, bytes: 100 * left });
        assert_eq!(blob_files(dir.path()).len() as u64, left);
        assert_whole(&store).await;
    }
}

#[tokio::test]
async fn shared_content_counts_once_and_stays_with_its_newest_artifact() {
    let (dir, store) = fresh().await;
    let shared = filler(0, 100);
    store.put(text(&shared), NOW).await.unwrap();
    store.put(text(&filler(1, 100)), NOW).await.unwrap();
    let newer = store.put(text(&shared), NOW).await.unwrap();
    let newest = store.put(text(&filler(2, 100)), NOW).await.unwrap();
    assert_eq!(store.totals().await.unwrap(), Totals { artifacts: 4, bytes: 300 });
    assert_eq!(store.apply_retention(FOR_EVER, 300, NOW).await.unwrap(), Removed::default());
    let removed = store.apply_retention(FOR_EVER, 200, NOW).await.unwrap();
    assert_eq!(removed, Removed { artifacts: 2, bytes: 100 });
    assert_eq!(ids(&store).await, [newer.id, newest.id]);
    assert_eq!(blob_files(dir.path()).len(), 2);
    assert_whole(&store).await;
}

#[tokio::test]
async fn one_too_large_for_the_whole_limit_goes_and_an_empty_store_stays_empty() {
    let (dir, store) = fresh().await;
    assert_eq!(store.apply_retention(Duration::ZERO, 0, NOW).await.unwrap(), Removed::default());
    store.put(text("small"), NOW).await.unwrap();
    store.put(text(&filler(1, 1000)), NOW).await.unwrap();
    assert_eq!(store.apply_retention(FOR_EVER, 999, NOW).await.unwrap().artifacts, 2);
    assert_eq!(store.totals().await.unwrap(), Totals::default());
    assert!(blob_files(dir.path()).is_empty());
}
