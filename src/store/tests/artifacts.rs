use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use super::support::*;
use crate::domain::ids::ArtifactId;
use crate::store::{Cursor, NewArtifact, NotACursor, StoreError};

#[tokio::test]
async fn what_is_put_is_read_byte_for_byte() {
    let (_dir, store) = fresh().await;
    let long = "å".repeat(3_000_000);
    for content in ["", "\0", "a\r\nb\u{feff}\u{10ffff}", long.as_str()] {
        let put = store.put(text(content), NOW).await.unwrap();
        let (artifact, read) = store.read(put.id).await.unwrap().unwrap();
        assert!(read == content);
        assert_eq!(artifact, put);
        assert_eq!(artifact.bytes, content.len() as u64);
        assert_eq!(artifact.chars, content.chars().count() as u64);
    }
}

#[tokio::test]
async fn every_field_comes_back() {
    let (_dir, store) = fresh().await;
    let new = text("x");
    let put = store.put(new.clone(), NOW).await.unwrap();
    let got = store.get(put.id).await.unwrap().unwrap();
    assert_eq!(
        (got.kind, got.request_key, got.url, got.final_url, got.title, got.content_type),
        (new.kind, new.request_key, new.url, new.final_url, new.title, new.content_type)
    );
    assert_eq!((got.format, got.http_status, got.meta, got.created_at_ms), (new.format, Some(200), new.meta, NOW));
    let bare = NewArtifact { title: None, http_status: None, ..text("x") };
    let bare = store.put(bare, NOW).await.unwrap();
    let got = store.get(bare.id).await.unwrap().unwrap();
    assert_eq!((got.title, got.http_status), (None, None));
}

#[tokio::test]
async fn an_unknown_id_is_nothing() {
    let (dir, store) = fresh().await;
    store.put(text("x"), NOW).await.unwrap();
    let before = files(&dir.path().join("artifacts"));
    let unknown = ArtifactId::random();
    assert_eq!(store.get(unknown).await.unwrap(), None);
    assert_eq!(store.read(unknown).await.unwrap(), None);
    assert!(!store.delete(unknown).await.unwrap());
    assert_eq!(files(&dir.path().join("artifacts")), before);
}

#[tokio::test]
async fn equal_texts_share_a_file_until_the_last_is_deleted() {
    let (dir, store) = fresh().await;
    let first = store.put(text("same"), NOW).await.unwrap();
    let second = store.put(text("same"), NOW + 1).await.unwrap();
    assert_eq!(blob_files(dir.path()), [blob_path(dir.path(), &first)]);
    assert!(store.delete(first.id).await.unwrap());
    assert!(!store.delete(first.id).await.unwrap(), "it is gone");
    assert_eq!(store.read(first.id).await.unwrap(), None);
    assert_eq!(store.read(second.id).await.unwrap().unwrap().1, "same");
    assert!(store.delete(second.id).await.unwrap());
    assert!(blob_files(dir.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_and_deleters_of_one_content_never_lose_it() {
    let (dir, store) = fresh().await;
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..64 {
        let store = store.clone();
        tasks.spawn(async move {
            let put = store.put(text("contended"), NOW).await.unwrap();
            assert_eq!(store.read(put.id).await.unwrap().expect("acknowledged").1, "contended");
            if index % 4 == 0 {
                return Some(put);
            }
            assert!(store.delete(put.id).await.unwrap());
            None
        });
    }
    let kept: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(kept.len(), 16);
    assert_eq!(all(&store).await.len(), 16);
    assert_whole(&store).await;
    for artifact in &kept {
        assert!(store.delete(artifact.id).await.unwrap());
    }
    assert!(blob_files(dir.path()).is_empty());
}

#[tokio::test]
async fn a_list_is_newest_first_and_its_cursor_is_stable() {
    let (_dir, store) = fresh().await;
    let mut ids = Vec::new();
    for index in 0..10 {
        // The clock runs backwards: the order is that of arrival.
        ids.push(store.put(text(&index.to_string()), NOW - index).await.unwrap().id);
    }
    ids.reverse();
    let (page, cursor) = store.list(4, None).await.unwrap();
    assert_eq!(page.iter().map(|a| a.id).collect::<Vec<_>>(), ids[..4]);
    let cursor: Cursor = cursor.unwrap().to_string().parse().unwrap();
    store.put(text("later"), NOW).await.unwrap();
    store.delete(ids[3]).await.unwrap();
    store.delete(ids[5]).await.unwrap();
    let (page, cursor) = store.list(4, Some(cursor)).await.unwrap();
    assert_eq!(page.iter().map(|a| a.id).collect::<Vec<_>>(), [ids[4], ids[6], ids[7], ids[8]]);
    let (page, cursor) = store.list(4, cursor).await.unwrap();
    assert_eq!((page.len(), cursor), (1, None));
    assert_eq!(store.list(0, None).await.unwrap().0.len(), 1, "a page makes progress");
}

#[test]
fn only_digits_are_a_cursor() {
    for bad in ["", "-1", "+1", "1.0", "9223372036854775808", "1 OR 1=1"] {
        assert_eq!(bad.parse::<Cursor>(), Err(NotACursor), "{bad}");
    }
}

#[tokio::test]
async fn the_newest_of_a_request_is_found_while_it_is_young() {
    let (_dir, store) = fresh().await;
    let old = store.put(text("old"), NOW).await.unwrap();
    let new = store.put(text("new"), NOW + 1000).await.unwrap();
    store.put(NewArtifact { request_key: "other".to_owned(), ..text("other") }, NOW + 1500).await.unwrap();
    let found = async |age_ms, now| {
        store.newest("key", Duration::from_millis(age_ms), now).await.unwrap().map(|artifact| artifact.id)
    };
    assert_eq!(found(1000, NOW + 2000).await, Some(new.id), "exactly as old as allowed");
    assert_eq!(found(999, NOW + 2000).await, None);
    assert_eq!(found(1000, NOW + 500).await, Some(old.id), "one from the future has no known age");
    assert_eq!(found(u64::MAX, NOW + 2000).await, Some(new.id));
    assert_eq!(store.newest("nobody's", HOUR, NOW).await.unwrap(), None);
}

#[tokio::test]
async fn everything_is_the_owners_alone() {
    let (dir, store) = fresh().await;
    let artifact = store.put(text("private"), NOW).await.unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let blob = blob_path(dir.path(), &artifact);
    for directory in [dir.path(), &dir.path().join("artifacts"), blob.parent().unwrap()] {
        assert_eq!(mode(directory), 0o700, "{}", directory.display());
    }
    let checked: Vec<_> = files(dir.path()).into_keys().collect();
    assert_eq!(checked.len(), 4, "database, log, index and blob: {checked:?}");
    for file in checked {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_link_in_a_blobs_place_is_not_followed() {
    let (dir, store) = fresh().await;
    let artifact = store.put(text("bait"), NOW).await.unwrap();
    let outside = dir.path().join("outside");
    fs::write(&outside, "bait").unwrap();
    let blob = blob_path(dir.path(), &artifact);
    fs::remove_file(&blob).unwrap();
    symlink(&outside, &blob).unwrap();
    assert!(matches!(store.read(artifact.id).await, Err(StoreError::Damaged(id)) if id == artifact.id));
    // The same text again puts a file in the link's place, and does not write through it.
    fs::write(&outside, "left alone").unwrap();
    store.put(text("bait"), NOW).await.unwrap();
    assert!(fs::symlink_metadata(&blob).unwrap().is_file());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "left alone");
    assert_eq!(store.read(artifact.id).await.unwrap().unwrap().1, "bait");
}

#[tokio::test]
async fn a_link_in_a_directorys_place_is_not_followed() {
    let (dir, store) = fresh().await;
    let artifact = store.put(text("bait"), NOW).await.unwrap();
    let shard = blob_path(dir.path(), &artifact).parent().unwrap().to_owned();
    let outside = dir.path().join("outside");
    fs::rename(&shard, &outside).unwrap();
    symlink(&outside, &shard).unwrap();
    let before = files(&outside);
    assert!(matches!(store.read(artifact.id).await, Err(StoreError::Damaged(_))));
    assert!(matches!(store.put(text("bait"), NOW).await, Err(StoreError::Io(_))));
    store.delete(artifact.id).await.unwrap();
    assert_eq!(files(&outside), before);
}

#[tokio::test]
async fn a_damaged_text_is_never_handed_out() {
    let (dir, store) = fresh().await;
    let artifact = store.put(text("whole"), NOW).await.unwrap();
    let blob = blob_path(dir.path(), &artifact);
    for damage in ["", "whol", "whole and more", "WHOLE"] {
        fs::write(&blob, damage).unwrap();
        assert!(matches!(store.read(artifact.id).await, Err(StoreError::Damaged(_))), "{damage:?}");
    }
    fs::remove_file(&blob).unwrap();
    assert!(matches!(store.read(artifact.id).await, Err(StoreError::Damaged(_))));
    nix::unistd::mkfifo(&blob, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(store.read(artifact.id).await, Err(StoreError::Damaged(_))), "a FIFO does not hold the reader");
    assert!(store.delete(artifact.id).await.unwrap());
    assert!(blob_files(dir.path()).is_empty());
}
