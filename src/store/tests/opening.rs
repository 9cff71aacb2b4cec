use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::support::*;
use crate::store::{Found, Store, StoreError, Totals, schema};

#[tokio::test]
async fn what_was_put_is_there_after_a_restart() {
    let (dir, store) = fresh().await;
    let put = store.put(text("kept"), NOW).await.unwrap();
    store.close().await;
    drop(store);
    let store = Store::open(dir.path()).await.unwrap();
    assert_eq!(store.found(), Found::default());
    assert_eq!(store.read(put.id).await.unwrap().unwrap(), (put, "kept".to_owned()));
    store.health().await.unwrap();
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let (dir, store) = fresh().await;
    assert!(matches!(Store::open(dir.path()).await, Err(StoreError::InUse)));
    let clone = store.clone();
    drop(store);
    assert!(matches!(Store::open(dir.path()).await, Err(StoreError::InUse)));
    drop(clone);
    Store::open(dir.path()).await.unwrap();
}

#[tokio::test]
async fn an_open_directory_is_closed_to_others_and_a_shared_one_is_left_as_it_is() {
    for (before, after) in [(0o755, 0o700), (0o777, 0o700), (0o1777, 0o1777)] {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(before)).unwrap();
        Store::open(dir.path()).await.unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o7777, after);
        let artifacts = fs::metadata(dir.path().join("artifacts")).unwrap();
        assert_eq!(artifacts.permissions().mode() & 0o7777, 0o700);
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_nothing_is_touched() {
    let (dir, store) = fresh().await;
    store.put(text("of the future"), NOW).await.unwrap();
    let newer = schema::known_version() + 41;
    sqlx::query(
        "INSERT INTO _sqlx_migrations SELECT ?, 'later', installed_on, TRUE, checksum, 0 FROM _sqlx_migrations LIMIT 1",
    )
    .bind(newer)
    .execute(&store.pool)
    .await
    .unwrap();
    let refused = async |dir: &std::path::Path| match Store::open(dir).await {
        Err(StoreError::NewerSchema { found, known }) => (found, known) == (newer, schema::known_version()),
        _ => false,
    };
    // As a killed process leaves it: the newer version is in the log only.
    let killed = copy_of(dir.path());
    fs::remove_file(killed.path().join("pandarium.db-shm")).unwrap();
    let before = files(killed.path());
    assert!(!before[&killed.path().join("pandarium.db-wal")].is_empty());
    assert!(refused(killed.path()).await);
    let mut after = files(killed.path());
    after.remove(&killed.path().join("pandarium.db-shm"));
    assert_eq!(after, before);
    // As a clean stop leaves it.
    store.close().await;
    drop(store);
    let before = files(dir.path());
    assert!(refused(dir.path()).await);
    assert_eq!(files(dir.path()), before);
}

#[tokio::test]
async fn what_is_no_database_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("pandarium.db"), filler(1, 8192)).unwrap();
    let before = files(dir.path());
    assert!(matches!(Store::open(dir.path()).await, Err(StoreError::Corrupt(_))));
    assert_eq!(files(dir.path()), before);
}

#[tokio::test]
async fn a_link_or_a_directory_in_place_of_a_database_file_is_refused() {
    for name in ["pandarium.db", "pandarium.db-wal", "pandarium.db-shm", "pandarium.db-journal"] {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (target, planted) = (elsewhere.path().join("target"), dir.path().join(name));
        fs::write(&target, "").unwrap();
        symlink(&target, &planted).unwrap();
        assert!(matches!(Store::open(dir.path()).await, Err(StoreError::NotOurs(path)) if path == planted));
        fs::remove_file(&planted).unwrap();
        fs::create_dir(&planted).unwrap();
        assert!(matches!(Store::open(dir.path()).await, Err(StoreError::NotOurs(path)) if path == planted));
        assert_eq!(fs::read(&target).unwrap(), b"");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else was made");
    }
}

#[tokio::test]
async fn what_another_user_owns_is_refused() {
    // Only root can give a file away. Everyone else has directories of root's at hand.
    let dir = tempfile::tempdir().unwrap();
    if !nix::unistd::geteuid().is_root() {
        assert!(matches!(Store::open("/usr".as_ref()).await, Err(StoreError::NotOurs(_))));
        return;
    }
    let database = dir.path().join("pandarium.db");
    fs::write(&database, "").unwrap();
    for path in [dir.path(), &database] {
        std::os::unix::fs::chown(path, Some(12345), None).unwrap();
        assert!(matches!(Store::open(dir.path()).await, Err(StoreError::NotOurs(refused)) if refused == path));
        std::os::unix::fs::chown(path, Some(0), None).unwrap();
    }
    Store::open(dir.path()).await.unwrap();
}

#[tokio::test]
async fn the_start_removes_what_a_crash_left_and_nothing_else() {
    let (dir, store) = fresh().await;
    let kept = store.put(text("kept"), NOW).await.unwrap();
    let orphan = store.put(text("orphan"), NOW).await.unwrap();
    let query = sqlx::query("DELETE FROM artifact WHERE id = ?").bind(orphan.id.to_string());
    query.execute(&store.pool).await.unwrap();
    sqlx::query("DELETE FROM blob WHERE sha256 = ?")
        .bind(orphan.sha256.to_string())
        .execute(&store.pool)
        .await
        .unwrap();
    drop(store);
    let shard = blob_path(dir.path(), &kept).parent().unwrap().to_owned();
    fs::write(shard.join("0123.tmp"), "half").unwrap();
    let outside = dir.path().join("outside");
    fs::write(&outside, "not ours").unwrap();
    let planted = dir.path().join("artifacts/00").join("0".repeat(64));
    fs::create_dir_all(planted.parent().unwrap()).unwrap();
    symlink(&outside, &planted).unwrap();
    let strangers = [dir.path().join("artifacts/README"), shard.join("notes.txt"), shard.join("f".repeat(63))];
    strangers.iter().for_each(|path| fs::write(path, "not ours").unwrap());

    let store = Store::open(dir.path()).await.unwrap();
    assert_eq!(store.found(), Found { temp_files: 1, orphan_blobs: 2, lost_artifacts: 0 });
    let mut left = blob_files(dir.path());
    let mut expected = Vec::from(strangers);
    expected.push(blob_path(dir.path(), &kept));
    left.sort();
    expected.sort();
    assert_eq!(left, expected);
    assert_eq!(fs::read_to_string(outside).unwrap(), "not ours");
    assert_whole(&store).await;
}

#[tokio::test]
async fn an_artifact_without_its_text_is_not_listed_until_the_text_is_back() {
    let (dir, store) = fresh().await;
    let whole = store.put(text("whole"), NOW).await.unwrap();
    let short = store.put(text("short"), NOW).await.unwrap();
    let missing = store.put(text("missing"), NOW).await.unwrap();
    drop(store);
    fs::write(blob_path(dir.path(), &short), "shor").unwrap();
    fs::remove_file(blob_path(dir.path(), &missing)).unwrap();

    let store = Store::open(dir.path()).await.unwrap();
    assert_eq!(store.found().lost_artifacts, 2);
    assert_eq!(all(&store).await, std::slice::from_ref(&whole));
    assert_eq!(store.totals().await.unwrap(), Totals { artifacts: 1, bytes: whole.bytes });
    assert_eq!(store.get(short.id).await.unwrap(), None);
    assert_eq!(store.newest("key", HOUR, NOW).await.unwrap(), Some(whole));
    // The same content again, or the file itself, brings it back.
    store.put(text("short"), NOW).await.unwrap();
    assert_eq!(store.read(short.id).await.unwrap().unwrap().1, "short");
    drop(store);
    fs::write(blob_path(dir.path(), &missing), "missing").unwrap();
    let store = Store::open(dir.path()).await.unwrap();
    assert_eq!(store.found(), Found::default());
    assert_eq!(store.read(missing.id).await.unwrap().unwrap().1, "missing");
    assert!(store.delete(missing.id).await.unwrap());
}
