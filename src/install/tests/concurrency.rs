use std::fs::File;
use std::sync::Mutex;
use std::time::Duration;

use super::support::*;
use crate::install::{Change, InstallError, Limits, Phase, Progress, Silent};

#[tokio::test]
async fn installs_that_start_together_share_one_download() {
    let directory = managed_directory();
    let server = Server::with_asset(Asset::Bytes(NEW_BINARY.into())).await;
    let installers = [(); 4].map(|()| server.installer(directory.path()));
    let outcomes = futures_util::future::join_all(installers.iter().map(|installer| installer.install(&Silent))).await;
    let changes = outcomes.into_iter().map(|outcome| outcome.unwrap().change).collect::<Vec<_>>();
    assert_eq!(changes.iter().filter(|change| **change == Change::Replaced).count(), 1, "{changes:?}");
    assert_eq!(server.downloads(), 1);
}

#[tokio::test]
async fn an_install_waits_for_another_and_says_who_is_in_the_way() {
    let directory = managed_directory();
    let server = Server::with_asset(Asset::Bytes(NEW_BINARY.into())).await;
    // Another process would hold the same lock on the directory.
    let other = File::open(directory.path()).unwrap();
    other.lock().unwrap();
    let total = Duration::from_millis(300);
    let phases = Phases::default();
    let error = server
        .installer(directory.path())
        .with_limits(Limits { total, ..limits() })
        .install(&phases)
        .await
        .unwrap_err();
    assert!(matches!(error, InstallError::Busy { .. }), "{error:?}");
    assert_eq!(*phases.0.lock().unwrap(), [Phase::Waiting]);
    assert_untouched(directory.path(), "busy");

    drop(other);
    server.installer(directory.path()).install(&phases).await.unwrap();
    let expected = [
        Phase::Waiting,
        Phase::Resolving,
        Phase::Downloading,
        Phase::Verifying,
        Phase::CheckingVersion,
        Phase::Installing,
    ];
    assert_eq!(*phases.0.lock().unwrap(), expected);
}

#[derive(Default)]
struct Phases(Mutex<Vec<Phase>>);

impl Progress for Phases {
    fn phase(&self, phase: Phase) {
        self.0.lock().unwrap().push(phase);
    }

    fn bytes(&self, _done: u64, _total: Option<u64>) {}
}
