use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::support::*;
use crate::store::{Store, StoreError};

#[tokio::test]
async fn a_log_cut_anywhere_leaves_the_oldest_artifacts_whole() {
    let (dir, store) = fresh().await;
    for index in 0..6 {
        store.put(text(&filler(index, 500)), NOW).await.unwrap();
    }
    let log = fs::read(dir.path().join("pandarium.db-wal")).unwrap();
    let put: Vec<_> = all(&store).await.iter().rev().map(|artifact| artifact.id).collect();
    let mut listed_before = 0;
    let cuts = (0..log.len()).step_by(4096).chain([log.len() - 1, log.len()]);
    for cut in cuts {
        let copy = copy_of(dir.path());
        fs::write(copy.path().join("pandarium.db-wal"), &log[..cut]).unwrap();
        let store = Store::open(copy.path()).await.unwrap_or_else(|error| panic!("cut at {cut}: {error:?}"));
        let listed: Vec<_> = all(&store).await.iter().rev().map(|artifact| artifact.id).collect();
        assert_eq!(listed, put[..listed.len()], "cut at {cut}");
        assert!(listed.len() >= listed_before);
        listed_before = listed.len();
        assert_whole(&store).await;
        assert_eq!(blob_files(copy.path()).len(), listed.len(), "no orphan stays");
    }
    assert_eq!(listed_before, put.len());
}

#[tokio::test]
async fn a_database_cut_anywhere_opens_whole_or_is_refused() {
    let (dir, store) = fresh().await;
    for index in 0..40 {
        store.put(text(&filler(index, 500)), NOW).await.unwrap();
    }
    store.close().await;
    drop(store);
    let database = fs::read(dir.path().join("pandarium.db")).unwrap();
    assert!(database.len() >= 8 * 4096, "several pages to cut");
    for cut in (1..database.len()).step_by(2048) {
        let copy = copy_of(dir.path());
        fs::write(copy.path().join("pandarium.db"), &database[..cut]).unwrap();
        let opened = Store::open(copy.path()).await;
        let error = opened.err();
        assert!(matches!(error, Some(StoreError::Corrupt(_))), "cut at {cut} of {}: {error:?}", database.len());
        assert_eq!(blob_files(copy.path()).len(), 40, "a refused start deletes nothing");
    }
}

#[tokio::test]
async fn an_emptied_database_with_a_log_is_refused() {
    let (dir, store) = fresh().await;
    store.put(text("acknowledged"), NOW).await.unwrap();
    let copy = copy_of(dir.path());
    fs::write(copy.path().join("pandarium.db"), "").unwrap();
    let before = files(copy.path());
    assert!(matches!(Store::open(copy.path()).await, Err(StoreError::Corrupt(_))));
    assert_eq!(files(copy.path()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_leaves_nothing_half_done() {
    let (dir, store) = fresh().await;
    for index in 0..200 {
        let put = store.put(text(&filler(index, 20_000)), NOW);
        let _ = tokio::time::timeout(Duration::from_micros(100 * index as u64 % 7000), put).await;
    }
    let listed = eventually(async || {
        let listed = all(&store).await.len();
        (blob_files(dir.path()).len() == listed).then_some(listed)
    })
    .await;
    assert!(listed > 0, "some were finished");
    assert_whole(&store).await;
}

async fn eventually<T>(mut check: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(value) = check().await {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within 5 s");
}

#[tokio::test]
async fn a_database_that_may_not_grow_is_full_and_keeps_no_file() {
    let (dir, store) = fresh().await;
    let kept = store.put(text("kept"), NOW).await.unwrap();
    set_page_limit(&store, 1).await;
    let mut outcome = Ok(kept.clone());
    for index in 0..500 {
        outcome = store.put(text(&filler(index, 3000)), NOW).await;
        if outcome.is_err() {
            break;
        }
    }
    assert!(matches!(outcome, Err(StoreError::Full(_))), "{outcome:?}");
    assert_eq!(blob_files(dir.path()).len(), all(&store).await.len());
    assert_whole(&store).await;
    set_page_limit(&store, 1_000_000).await;
    store.put(text("room again"), NOW).await.unwrap();
}

/// SQLite raises a limit below the present size to that size.
async fn set_page_limit(store: &Store, pages: u32) {
    let mut connections = Vec::new();
    for _ in 0..store.pool.options().get_max_connections() {
        connections.push(store.pool.acquire().await.unwrap());
    }
    for connection in &mut connections {
        let pragma = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        sqlx::query(pragma).execute(&mut **connection).await.unwrap();
    }
}

#[tokio::test]
async fn a_full_disk_is_typed_loses_nothing_and_is_recovered_from() {
    if !in_own_mounts("a_full_disk_is_typed_loses_nothing_and_is_recovered_from") {
        return;
    }
    let disk = Disk::mount("size=1m");
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; 200_000]).unwrap();
    let store = Store::open(disk.path()).await.unwrap();
    let mut kept = Vec::new();
    // Large ones until there is no room, then small ones into what is left.
    for bytes in [100_000, 10_000, 1000] {
        let full = loop {
            match store.put(text(&filler(kept.len(), bytes)), NOW).await {
                Ok(artifact) => kept.push(artifact.id),
                Err(error) => break error,
            }
        };
        assert!(matches!(full, StoreError::Full(_)), "{full:?}");
    }
    assert_eq!(all(&store).await.iter().rev().map(|artifact| artifact.id).collect::<Vec<_>>(), kept);
    assert_eq!(blob_files(disk.path()).len(), kept.len());
    assert_whole(&store).await;
    let mut rest = fs::File::create(disk.path().join("rest")).unwrap();
    while rest.write_all(&[0; 512]).is_ok() {}
    assert!(matches!(store.health().await, Err(StoreError::Full(_))));
    assert_eq!(store.read(kept[0]).await.unwrap().unwrap().0.id, kept[0], "a full disk is still read");
    fs::remove_file(ballast).unwrap();
    assert!(store.delete(kept[0]).await.unwrap());
    store.health().await.unwrap();
    store.put(text("room again"), NOW).await.unwrap();
    assert_whole(&store).await;
}

#[tokio::test]
async fn a_disk_that_turns_read_only_is_typed_and_still_read() {
    if !in_own_mounts("a_disk_that_turns_read_only_is_typed_and_still_read") {
        return;
    }
    let disk = Disk::mount("size=4m");
    let store = Store::open(disk.path()).await.unwrap();
    let kept = store.put(text("kept"), NOW).await.unwrap();
    store.close().await;
    drop(store);
    disk.remount("bind,ro");
    assert!(matches!(Store::open(disk.path()).await, Err(StoreError::ReadOnly(_))));
    disk.remount("bind,rw");
    let store = Store::open(disk.path()).await.unwrap();
    assert_eq!(store.read(kept.id).await.unwrap().unwrap().1, "kept");
}

/// A file system of its own, unmounted when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(options: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        run(&["mount", "-t", "tmpfs", "-o", options, "none", dir.path().to_str().unwrap()]);
        Self(dir)
    }

    fn remount(&self, options: &str) {
        run(&["mount", "-o", &format!("remount,{options}"), self.path().to_str().unwrap()]);
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run(&["umount", "--lazy", self.path().to_str().unwrap()]);
    }
}

/// Mounting needs root: a plain user's test runs itself again as root of a user namespace of its own. True where the
/// test is to go on.
fn in_own_mounts(test: &str) -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    let binary = std::env::current_exe().unwrap();
    let name = format!("store::tests::durability::{test}");
    run(&["unshare", "--user", "--map-root-user", "--mount", binary.to_str().unwrap(), "--exact", &name]);
    false
}

#[expect(clippy::disallowed_methods, reason = "mounts a test's own file system; no engine is involved")]
fn run(command: &[&str]) {
    let output = std::process::Command::new(command[0]).args(&command[1..]).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}
