use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::support::*;
use crate::install::{
    BINARY_NAME, Change, InstallError, Limits, MANIFEST_NAME, Phase, Platform, Progress, Silent, read_manifest,
};

fn asset_name() -> &'static str {
    Platform::current().unwrap().asset_name()
}

fn good() -> Asset {
    Asset::Bytes(NEW_BINARY.into())
}

#[tokio::test]
async fn a_release_with_the_right_digest_replaces_the_binary() {
    let directory = managed_directory();
    let server = Server::with_asset(good()).await;
    let installed = server.installer(directory.path()).install(&Silent).await.unwrap();

    let binary = directory.path().join(BINARY_NAME);
    assert_eq!((&installed.path, installed.change), (&binary, Change::Replaced));
    assert_eq!(fs::read(&binary).unwrap(), NEW_BINARY.as_bytes());
    assert_eq!(fs::metadata(&binary).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(names_in(directory.path()), [BINARY_NAME, MANIFEST_NAME]);
    let manifest = read_manifest(directory.path()).unwrap();
    assert_eq!((manifest.version.as_str(), manifest.source.as_str()), ("9.9.9", "release 9.9.9"));
    assert_eq!(manifest.sha256.as_str(), sha256(NEW_BINARY.as_bytes()));
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_made_for_its_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data/bin");
    let server = Server::with_asset(good()).await;
    server.installer(&directory).install(&Silent).await.unwrap();
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_build_that_is_there_is_not_downloaded_again_unless_it_was_damaged() {
    let directory = managed_directory();
    let server = Server::with_asset(good()).await;
    let installer = server.installer(directory.path());
    let binary = directory.path().join(BINARY_NAME);
    let mut changes = Vec::new();
    changes.push(installer.install(&Silent).await.unwrap().change);
    changes.push(installer.install(&Silent).await.unwrap().change);
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o600)).unwrap();
    changes.push(installer.install(&Silent).await.unwrap().change);
    fs::write(&binary, "#!/bin/sh\necho damaged\n").unwrap();
    changes.push(installer.install(&Silent).await.unwrap().change);
    assert_eq!(changes, [Change::Replaced, Change::AlreadyCurrent, Change::Replaced, Change::Replaced]);
    assert_eq!(server.downloads(), 3);
    assert_eq!(fs::read(&binary).unwrap(), NEW_BINARY.as_bytes());
}

#[tokio::test]
async fn redirects_are_followed_without_telling_where_from() {
    let directory = managed_directory();
    let server = Server::with_asset(Asset::Moved { hops: 3, bytes: NEW_BINARY.into() }).await;
    server.installer(directory.path()).install(&Silent).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 5);
    for (path, headers) in seen {
        let names = headers.keys().map(|name| name.as_str()).collect::<Vec<_>>();
        assert!(names.contains(&"user-agent"), "{path}: {names:?}");
        for secret in ["authorization", "cookie", "referer"] {
            assert!(!names.contains(&secret), "{path}: {names:?}");
        }
    }
}

#[tokio::test]
async fn a_failed_install_names_its_reason_and_leaves_the_old_binary() {
    let right = |bytes: &str| json!(format!("sha256:{}", sha256(bytes.as_bytes())));
    let broken = "#!/bin/sh\necho 'GLIBC_2.38 not found' >&2\nexit 1\n";
    let unstartable = "#!/no/such/interpreter\n";
    // The last column begins the error's debug form.
    let cases = [
        ("wrong digest", good(), right("other"), asset_name(), "DigestMismatch"),
        ("no digest", good(), Value::Null, asset_name(), "NoDigest"),
        ("bare digest", good(), json!(sha256(NEW_BINARY.as_bytes())), asset_name(), "NoDigest"),
        ("short digest", good(), json!("sha256:abc"), asset_name(), "NoDigest"),
        ("other algorithm", good(), json!(format!("sha512:{}", "a".repeat(64))), asset_name(), "NoDigest"),
        ("no asset", good(), right(NEW_BINARY), "lightpanda-for-nothing", "NoAsset"),
        ("stated too large", Asset::Bytes(vec![0; 100_001]), right(""), asset_name(), "TooLarge { limit: 100000 }"),
        ("streamed too large", Asset::Endless, right(""), asset_name(), "TooLarge { limit: 100000 }"),
        ("404", Asset::Missing, right(""), asset_name(), "HttpStatus"),
        ("redirected for ever", Asset::Moved { hops: 9, bytes: vec![] }, right(""), asset_name(), "RefusedRedirect"),
        ("to another scheme", Asset::MovedTo("ftp://127.0.0.1/a"), right(""), asset_name(), "RefusedRedirect"),
        ("to a user name", Asset::MovedTo("http://user@127.0.0.1/a"), right(""), asset_name(), "RefusedRedirect"),
        ("does not run", Asset::Bytes(broken.into()), right(broken), asset_name(), "VersionFailed"),
        ("cannot start", Asset::Bytes(unstartable.into()), right(unstartable), asset_name(), "CannotStart"),
    ];
    for (case, asset, digest, name, expected) in cases {
        let directory = managed_directory();
        let server = Server::start(asset, digest, name).await;
        let error = server.installer(directory.path()).install(&Silent).await.unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{case}: {error:?}");
        assert_untouched(directory.path(), case);
    }
}

#[tokio::test]
async fn metadata_of_another_shape_is_refused() {
    let directory = managed_directory();
    let server = Server::start(good(), json!({"not": "text"}), asset_name()).await;
    let error = server.installer(directory.path()).install(&Silent).await.unwrap_err();
    assert!(matches!(error, InstallError::BadMetadata { .. }), "{error:?}");
    assert_untouched(directory.path(), "bad metadata");
}

#[tokio::test]
async fn a_stalled_download_ends_at_the_time_limit() {
    let directory = managed_directory();
    let server = Server::with_asset(Asset::Stalling).await;
    let installer = server.installer(directory.path());
    let started = Instant::now();
    let total = Duration::from_millis(500);
    let error = installer.with_limits(Limits { total, ..limits() }).install(&Silent).await.unwrap_err();
    assert!(matches!(error, InstallError::TimedOut { .. }), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(server.downloads(), 1);
    assert_untouched(directory.path(), "stalled");
}

/// Tells when the first bytes have arrived.
struct FirstBytes(Arc<Notify>);

impl Progress for FirstBytes {
    fn phase(&self, _phase: Phase) {}

    fn bytes(&self, _done: u64, _total: Option<u64>) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_download_that_is_cancelled_leaves_nothing() {
    let directory = managed_directory();
    let server = Server::with_asset(Asset::Stalling).await;
    let installer = server.installer(directory.path());
    let arrived = Arc::new(Notify::new());
    let progress = FirstBytes(Arc::clone(&arrived));
    tokio::select! {
        outcome = installer.install(&progress) => panic!("{outcome:?}"),
        () = arrived.notified() => {}
    }
    assert_untouched(directory.path(), "cancelled");
}

#[tokio::test]
async fn what_a_killed_install_left_is_swept() {
    let directory = managed_directory();
    let leftover = directory.path().join(".lightpanda-install-dead/wheels");
    fs::create_dir_all(&leftover).unwrap();
    fs::write(leftover.join("half"), "half").unwrap();
    let server = Server::with_asset(Asset::Missing).await;
    server.installer(directory.path()).install(&Silent).await.unwrap_err();
    assert_untouched(directory.path(), "swept");
}

#[tokio::test]
async fn a_destination_that_cannot_be_replaced_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join(BINARY_NAME)).unwrap();
    let server = Server::with_asset(good()).await;
    let error = server.installer(directory.path()).install(&Silent).await.unwrap_err();
    assert!(matches!(error, InstallError::Io { action: "replace", .. }), "{error:?}");
    assert_eq!(names_in(directory.path()), [BINARY_NAME]);
}
