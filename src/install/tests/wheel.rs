use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use zip::write::SimpleFileOptions;

use super::support::*;
use crate::domain::deadline::Deadline;
use crate::install::platform::Pin;
use crate::install::wheel::{MEMBER, unpack};
use crate::install::workspace::Workspace;
use crate::install::{
    BINARY_NAME, Change, Digest, InstallError, Installer, Limits, MANIFEST_NAME, PINNED_VERSION, Platform, Silent,
    Source, Wheel, digest_of, read_manifest,
};

#[tokio::test]
async fn the_pinned_wheel_comes_through_the_machines_own_pip() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("bin");
    let installer = Installer::new(directory.clone(), Source::Pinned(Wheel::default()));
    let installed = installer.install(&Silent).await.unwrap();
    assert_eq!((installed.version.as_str(), installed.change), (PINNED_VERSION, Change::Replaced));
    assert_eq!(names_in(&directory), [BINARY_NAME, MANIFEST_NAME]);
    let digest = digest_of(&directory.join(BINARY_NAME)).await.unwrap();
    assert_eq!(&digest, &Platform::current().unwrap().pin().binary);
    let manifest = read_manifest(&directory).unwrap();
    assert_eq!((manifest.sha256, manifest.source.as_str()), (digest, "wheel lightpanda 1.0.2"));

    let again = Installer::new(directory, Source::Pinned(Wheel { pips: vec![] }));
    assert_eq!(again.install(&Silent).await.unwrap().change, Change::AlreadyCurrent);
}

#[tokio::test]
async fn a_machine_without_pip_is_told_what_to_install() {
    let directory = managed_directory();
    let wheel = Wheel { pips: vec![vec!["no-such-python", "-m", "pip"], vec!["python3", "-m", "no_such_module"]] };
    let error = install(wheel, directory.path(), limits()).await;
    assert!(matches!(error, InstallError::PipNotFound), "{error:?}");
    assert!(error.to_string().contains("python3-pip"));
    assert_untouched(directory.path(), "no pip");
}

#[tokio::test]
async fn pip_is_quoted_when_it_fails() {
    let directory = managed_directory();
    let error = install(behind_proxy("http://127.0.0.1:1"), directory.path(), limits()).await;
    assert!(matches!(&error, InstallError::PipFailed { stderr } if stderr.contains("lightpanda")), "{error:?}");
    assert_untouched(directory.path(), "pip failed");
}

#[tokio::test]
async fn a_cancelled_pip_is_ended_with_all_that_it_wrote() {
    let directory = managed_directory();
    // A proxy that takes the connection and never answers.
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap()).leak();
    let mut running = Box::pin(install(behind_proxy(address), directory.path(), limits()));
    tokio::select! {
        error = &mut running => panic!("{error:?}"),
        connection = proxy.accept() => { connection.unwrap(); }
    }
    assert_ne!(processes_naming(directory.path()), 0);
    drop(running);
    assert_untouched(directory.path(), "cancelled");
    assert_eq!(processes_naming(directory.path()), 0);
}

async fn install(wheel: Wheel, directory: &Path, limits: Limits) -> InstallError {
    let installer = Installer::new(directory.to_owned(), Source::Pinned(wheel)).with_limits(limits);
    installer.install(&Silent).await.unwrap_err()
}

/// The real pip, cut off from the network.
fn behind_proxy(proxy: &'static str) -> Wheel {
    Wheel { pips: vec![vec!["python3", "-m", "pip", "--isolated", "--retries=0", "--proxy", proxy]] }
}

fn processes_naming(path: &Path) -> usize {
    let commands = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    commands.filter(|command| String::from_utf8_lossy(command).contains(path.to_str().unwrap())).count()
}

/// An archive with one member, and the pin that its own digest would have.
fn archive(directory: &Path, member: &str, content: &[u8]) -> (std::path::PathBuf, Pin) {
    let path = directory.join("test.whl");
    let mut archive = zip::ZipWriter::new(File::create(&path).unwrap());
    archive.start_file(member, SimpleFileOptions::default()).unwrap();
    archive.write_all(content).unwrap();
    archive.finish().unwrap();
    let digest = |bytes: &[u8]| sha256(bytes).parse::<Digest>().unwrap();
    let wheel = digest(&fs::read(&path).unwrap());
    (path, Pin { wheel, wheel_bytes: 0, binary: digest(content) })
}

async fn workspace(directory: &Path) -> Arc<Workspace> {
    Workspace::open(directory, Deadline::after(Duration::from_secs(10)), &Silent).await.unwrap()
}

#[tokio::test]
async fn only_the_pinned_wheel_with_the_pinned_binary_is_unpacked() {
    let place = tempfile::tempdir().unwrap();
    let other = sha256(b"other").parse::<Digest>().unwrap();
    for (case, culprit) in [("right", ""), ("other wheel", "the wheel"), ("other binary", "the binary in the wheel")] {
        let (wheel, mut pin) = archive(place.path(), MEMBER, b"content");
        match case {
            "other wheel" => pin.wheel = other.clone(),
            "other binary" => pin.binary = other.clone(),
            _ => {}
        }
        let workspace = workspace(&place.path().join(case)).await;
        match unpack(&wheel, &pin, &workspace, 100, &CancellationToken::new()) {
            Ok(path) => assert_eq!((culprit, fs::read(path).unwrap().as_slice()), ("", &b"content"[..])),
            Err(InstallError::DigestMismatch { what, .. }) => assert_eq!(what, culprit, "{case}"),
            Err(error) => panic!("{case}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn an_archive_that_unpacks_beyond_the_limit_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (wheel, pin) = archive(place.path(), MEMBER, &vec![0; 2_000_000]);
    assert!(fs::metadata(&wheel).unwrap().len() < 10_000, "the archive itself is small");
    let workspace = workspace(&place.path().join("bin")).await;
    let error = unpack(&wheel, &pin, &workspace, 1_000_000, &CancellationToken::new()).unwrap_err();
    assert!(matches!(error, InstallError::TooLarge { limit: 1_000_000 }), "{error:?}");
}

#[tokio::test]
async fn an_archive_without_the_binary_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (wheel, pin) = archive(place.path(), "elsewhere/lightpanda", b"content");
    let workspace = workspace(&place.path().join("bin")).await;
    let error = unpack(&wheel, &pin, &workspace, 100, &CancellationToken::new()).unwrap_err();
    assert!(matches!(error, InstallError::BadWheel { .. }), "{error:?}");
}

#[tokio::test]
async fn unpacking_stops_when_nobody_waits_for_it() {
    let place = tempfile::tempdir().unwrap();
    let (wheel, pin) = archive(place.path(), MEMBER, b"content");
    let workspace = workspace(&place.path().join("bin")).await;
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let error = unpack(&wheel, &pin, &workspace, 100, &cancelled).unwrap_err();
    assert!(matches!(error, InstallError::Cancelled), "{error:?}");
}
